"""The fields among a model's arguments: which of their axes are the grid's, the same fields on another grid, and random
ones where no example is given.

A layout is a word or a sentence. Words: ``first`` (B, C, *spatial), ``last`` (B, *spatial, C), ``tokens`` (B, N, C)
with the samples of the grid in a row. Sentences name axes as einops does: ``b t c h w``, ``b (h w) c``; a comma between
arguments, an arrow before outputs: ``b h w t c, b h w -> b h w c``. Names other than b, c and t are the grid's axes, in
their order; if others are not, the grid's are named behind a bar: ``b v h w c | h w``. An argument that is to go to
other grids in a way of its own says so: ``b c h w, b h w @mean`` for land that is carried as a fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS
from quadnorm.measures.base import Shape

LAYOUTS = ("first", "last", "tokens")
NOT_SPACE = {"b", "batch", "c", "channel", "channels", "t", "time"}
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Pattern:
    """The axes of a tensor by name. An axis of several names is their product, in row-major order.

    >>> pattern = Pattern((("b",), ("h", "w"), ("c",)), ("h", "w"))
    >>> y, dims = pattern.opened(torch.zeros(2, 12, 5), (3, 4))
    >>> tuple(y.shape), dims, tuple(pattern.closed(y).shape)
    ((2, 3, 4, 5), (1, 2), (2, 12, 5))
    """

    axes: tuple[tuple[str, ...], ...]
    space: tuple[str, ...]  # the grid's axes, in its order
    labels: bool = False  # fits tensors of booleans and integers only, such as masks
    method: str | None = None  # how it goes to another grid, if not as the others do

    @property
    def is_field(self) -> bool:
        """Whether all of the grid's axes are among the names."""
        return set(self.space) <= {name for axis in self.axes for name in axis}

    @property
    def in_a_row(self) -> bool:
        """Whether some of the grid's axes share one axis of the tensor, whose length does not say what grid it is."""
        return any(len(axis) > 1 and set(axis) & set(self.space) for axis in self.axes)

    def grid(self, x: Tensor) -> Shape | None:
        """The grid of a field whose axes say it."""
        if x.ndim != len(self.axes) or not self.is_field or self.in_a_row:
            return None
        return tuple(x.shape[self.axes.index((name,))] for name in self.space)

    def opened(self, x: Tensor, grid: Shape) -> tuple[Tensor, Dims] | None:
        """A field on the grid with one axis for each name, and which of them are the grid's; None for other tensors."""
        if x.ndim != len(self.axes) or not self.is_field or (self.labels and x.is_floating_point()):
            return None
        known = dict(zip(self.space, grid, strict=True))
        sizes: list[int] = []
        for axis, n in zip(self.axes, x.shape, strict=True):
            samples = prod(known[name] for name in axis if name in known)
            others = sum(name not in known for name in axis)
            if (n % samples if samples else n) or (not others and n != samples) or others > 1:
                return None
            sizes += [known[name] if name in known else n // max(samples, 1) for name in axis]
        names = [name for axis in self.axes for name in axis]
        y = x if len(names) == x.ndim else x.reshape(sizes)
        return y, tuple(names.index(name) for name in self.space)

    def closed(self, y: Tensor) -> Tensor:
        """A tensor with one axis for each name, as its pattern has them."""
        if len(self.axes) == y.ndim:
            return y
        sizes = iter(y.shape)
        return y.reshape([prod(next(sizes) for _ in axis) for axis in self.axes])

    def __str__(self) -> str:
        return " ".join(axis[0] if len(axis) == 1 else f"({' '.join(axis)})" for axis in self.axes)


@dataclass(frozen=True)
class Patterns:
    """A layout, taken apart: the patterns of inputs and of outputs.

    ``ordered``: the k-th is that of the k-th tensor, if there are as many; else each tensor takes the first that fits.
    """

    inputs: tuple[Pattern, ...]
    outputs: tuple[Pattern, ...]
    ordered: bool

    def of(self, count: int, outputs: bool) -> Iterator[tuple[Pattern, ...]]:
        """The patterns to try for each of ``count`` tensors."""
        patterns = self.outputs if outputs else self.inputs
        if self.ordered and len(patterns) == count:
            return iter([(p,) for p in patterns])
        return iter([patterns] * count)


@lru_cache(maxsize=256)
def patterns_of(layout: str, d: int) -> Patterns:
    """The patterns of a layout on a grid of d axes; an error that says what is wrong with it.

    >>> print(*patterns_of("b t h w c, b h w -> b h w c", 2).inputs, sep="; ")
    b t h w c; b h w
    """
    space = tuple(f"s{k}" for k in range(d))
    single = tuple((name,) for name in space)
    b, c = ("b",), ("c",)
    if layout == "tokens":
        if d == 1:
            raise ValueError(
                'layout="tokens" with one axis may be a row of a grid or a cloud of points; pass layout="last" for a '
                'row, whose neighbours lie beside each other, or layout="points" for a cloud (extend, anchor)'
            )
        rows = (Pattern((b, space, c), space), Pattern((b, space), space, labels=True))
        return Patterns(rows, rows, ordered=False)
    if layout in LAYOUTS:
        main = Pattern((b, c, *single) if layout == "first" else (b, *single, c), space)
        # Without channels, or one for all; with one axis these are too easily taken for something else.
        bare = tuple(Pattern(axes, space, labels=d == 1) for axes in ((b, *single), single)[: 2 if d > 1 else 1])
        return Patterns((main, *bare), (main, *bare), ordered=False)
    if len(layout.split()) < 2:
        raise ValueError(unknown("layout", layout, (*LAYOUTS, "points")) + "; or name the axes, as in 'b t c h w'")
    return _sentence(layout, d)


def _sentence(layout: str, d: int) -> Patterns:
    body, _, named = layout.partition("|")
    left, _, right = body.partition("->")
    sides = [[part.partition("@") for part in side.split(",")] for side in (left, right or left)]
    methods = [[method.strip() or None for _, _, method in side] for side in sides]
    for method in methods[0] + methods[1]:
        if method is not None and method not in METHODS:
            raise ValueError(unknown("way to interpolate", method, METHODS))
    given, returned = ([_axes(part, layout) for part, _, _ in side] for side in sides)
    names = tuple(dict.fromkeys(name for part in (*given, *returned) for axis in part for name in axis))
    space = tuple(named.split()) or tuple(name for name in names if name not in NOT_SPACE)
    if len(space) != d or not set(space) <= set(names):
        raise ValueError(
            f"layout {layout!r} has the grid's axes {', '.join(space) or 'nowhere'}, but the grid has {d}; names other "
            f"than b, c and t are the grid's, or those behind a bar: '{body.strip()} | h w'"
        )
    patterns = [
        tuple(Pattern(part, space, method=method) for part, method in zip(side, ways, strict=True))
        for side, ways in zip((given, returned), methods, strict=True)
    ]
    if not any(p.is_field for p in patterns[0]):
        raise ValueError(f"layout {layout!r} has no argument with all of the grid's axes {', '.join(space)}")
    return Patterns(patterns[0], patterns[1], ordered=True)


def _axes(part: str, layout: str) -> tuple[tuple[str, ...], ...]:
    axes: list[tuple[str, ...]] = []
    inside: list[str] | None = None
    for word in part.replace("(", " ( ").replace(")", " ) ").split():
        if word in "()":
            if (word == "(") != (inside is None) or inside == []:
                raise ValueError(f"layout {layout!r} has brackets that do not match, or nothing in them")
            if inside is not None:
                axes.append(tuple(inside))
            inside = [] if inside is None else None
        elif not word.isidentifier():
            raise ValueError(f"layout {layout!r} has {word!r}, which is no name of an axis")
        elif inside is None:
            axes.append((word,))
        else:
            inside.append(word)
    names = [name for axis in axes for name in axis]
    if inside is not None or len(set(names)) < len(names):
        raise ValueError(f"layout {layout!r} has an open bracket, or a name twice in {part.strip()!r}")
    return tuple(axes)


def guessable(d: int) -> tuple[str, ...]:
    """The layouts that an example is compared with, the likely ones first.

    >>> guessable(2)
    ('first', 'last', 'tokens', 'b c (s0 s1)', 'b s0 s1', 's0 s1')
    """
    space = " ".join(f"s{k}" for k in range(d))
    return (*LAYOUTS, f"b c ({space})", f"b {space}", space) if d > 1 else LAYOUTS[:2]


def batch_of_inputs(given: Sequence[Tensor], grid: Shape, layout: str) -> int | None:
    """The batch of the first field among tensors; None if it is not the first axis."""
    patterns = patterns_of(layout, len(grid)).of(len(given), outputs=False)
    for x, each in zip(given, patterns, strict=True):
        for p in each:
            if p.opened(x, grid) is not None:
                return x.shape[0] if p.axes[0] in (("b",), ("batch",)) else None
    return None


def needs_grid(layout: str, d: int) -> bool:
    """Whether inputs do not say what grid they are on, because samples come in a row."""
    return all(p.in_a_row for p in patterns_of(layout, d).inputs if p.is_field)


def layout_text(layout: str, d: int) -> str:
    """A layout in the names of axes, for reports.

    >>> layout_text("last", 2), layout_text("b t c h w", 2)
    ('last, (B, *spatial, C)', 'b t c h w')
    """
    shapes = {"first": "(B, C, *spatial)", "last": "(B, *spatial, C)", "tokens": "(B, N, C)"}
    return f"{layout}, {shapes[layout]}" if layout in shapes else layout


def grid_of_inputs(args: Any, kwargs: Any, d: int, layout: str, grid: Shape | None) -> Shape:
    """The grid of the first field among the arguments; where samples come in a row, ``grid`` must say it."""
    patterns, given = patterns_of(layout, d), tensors((args, kwargs))
    tried = list(zip(given, patterns.of(len(given), outputs=False), strict=True))
    if not patterns.ordered:  # a field without channels is too easily taken for something else
        tried = [(x, each[:1]) for x, each in tried]
    for x, each in tried:
        shape = next((s for s in (p.grid(x) for p in each) if s is not None), None)
        if shape is not None:
            if grid is not None and shape != grid:
                raise ValueError(f"the input has the grid {shape}, but grid={grid} was given")
            return shape
    rows = [
        x.shape[next(k for k, axis in enumerate(p.axes) if len(axis) > 1)]
        for x, each in tried
        for p in each
        if p.in_a_row and p.is_field and x.ndim == len(p.axes)
    ]
    if rows and grid is None:
        raise ValueError(f"{rows[0]} samples in a row do not say which grid they make; pass grid=(n, m)")
    if rows and grid is not None:
        if any(p.opened(x, grid) is not None for x, each in tried for p in each):
            return grid
        raise ValueError(f"grid={grid} has {prod(grid)} samples, but the input has {rows[0]}")
    shapes = ", ".join(str(tuple(t.shape)) for t in given) or "no tensor"
    raise ValueError(
        f"expected an input {layout_text(layout, d)} with {d} spatial axes, got {shapes}; layout= says where the "
        f"channels are: {', '.join(LAYOUTS)}, or the names of the axes, as in 'b t c h w'"
    )


def map_fields(
    value: Any, grid: Shape, layout: str, change: Callable[[Tensor, Dims], Tensor], outputs: bool = False
) -> Any:
    """The nested value with ``change(x, dims)`` in place of every field x on the grid, whose axes are ``dims``.

    Samples in a row are given, and taken back, as a grid. ``outputs``: the value is what the model returned.
    """
    return _map_patterns(value, grid, layout, lambda x, dims, pattern: change(x, dims), outputs)


def _map_patterns(
    value: Any, grid: Shape, layout: str, change: Callable[[Tensor, Dims, Pattern], Tensor], outputs: bool
) -> Any:
    given = tensors(value)
    patterns = patterns_of(layout, len(grid)).of(len(given), outputs)
    pair = (prod(grid), prod(grid))

    def rows_of(each: tuple[Pattern, ...]) -> Pattern | None:
        """The pattern of samples in a row. On one axis they are in any layout, unless the batch is as many."""
        one_axis = len(grid) == 1 and all(t.shape[0] != grid[0] for t in given if t.ndim > 2)
        return next((p for p in each if p.is_field and (p.in_a_row or one_axis)), None)

    def change_field(x: Tensor) -> Tensor:
        each = next(patterns)
        # Asked of masks only: a comparison of a field's batch would be a condition on it, in a captured graph.
        rows = rows_of(each) if not x.is_floating_point() and x.shape == pair else None
        if rows is not None:
            pairs = Pattern((rows.space, ("other",)), rows.space)  # a mask of pairs of samples
            for _ in range(2):
                field = pairs.opened(x, grid)
                assert field is not None
                x = pairs.closed(change(*field, pairs)).mT
            return x
        for pattern in each:
            field = pattern.opened(x, grid)
            if field is not None:
                return pattern.closed(change(*field, pattern))
        return x

    return mapped(change_field, value)


def has_field(value: Any, grid: Shape, layout: str) -> bool:
    """Whether a tensor among the arguments is a field on the grid, with channels if the layout is a word."""
    patterns, given = patterns_of(layout, len(grid)), tensors(value)
    each = patterns.of(len(given), outputs=False) if patterns.ordered else iter([patterns.inputs[:1]] * len(given))
    return any(p.opened(x, grid) is not None for x, tried in zip(given, each, strict=True) for p in tried)


def regridded(
    value: Any,
    old: Shape,
    new: Shape,
    placements: tuple[str, ...],
    layout: str,
    method: str,
    outputs: bool = False,
) -> Any:
    """Every field on the grid ``old`` among the arguments, on the grid ``new``; everything else as it is."""
    last = tuple(range(-len(old), 0))

    def change(x: Tensor, dims: Dims, pattern: Pattern) -> Tensor:
        way = pattern.method or method
        if way == "mean" and x.dtype == torch.bool:  # where most of the cell is
            share = carry(x.movedim(dims, last).float(), new, placements, way)
            return (share >= 0.5).movedim(last, dims)
        return carry(x.movedim(dims, last), new, placements, way).movedim(last, dims)

    return _map_patterns(value, old, layout, change, outputs)


def guess_examples(model: nn.Module, resolution: Shape) -> Iterator[tuple[Tensor, str]]:
    """Random inputs that the model might accept, with their layout: (1, C, *spatial) and (1, *spatial, C) in turn.

    C is what the first module with channels takes, or less by the coordinates that the model may add itself, or small.
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    channels = _input_channels(model) or 1
    random = torch.Generator("cpu").manual_seed(0)
    for c in dict.fromkeys((channels, channels - len(resolution), 1, 2, 3)):
        if c > 0:
            x = torch.randn(1, c, *resolution, generator=random, device="cpu").to(like.device, like.dtype)
            yield x, "first"
            yield x.movedim(1, -1), "last"


def _input_channels(model: nn.Module) -> int | None:
    """What the first module with channels takes."""
    for m in model.modules():
        for name in ("in_channels", "in_features", "num_channels", "num_features"):
            c = getattr(m, name, None)
            if isinstance(c, int):
                return c
    return None
