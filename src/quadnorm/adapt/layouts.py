"""The fields among a model's arguments: which of their axes are the grid's, the same fields on another grid, and random
ones where no example is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

LAYOUTS = ("first", "last", "tokens")
Dims = tuple[int, ...]


def check_layout(layout: str, d: int) -> None:
    """Raise for a layout that is unknown, or does not say what samples on d axes are."""
    if layout not in LAYOUTS:
        raise ValueError(unknown("layout", layout, (*LAYOUTS, "points")))
    if layout == "tokens" and d == 1:
        raise ValueError(
            'layout="tokens" with one axis may be a row of a grid or a cloud of points; pass layout="last" for a row, '
            'whose neighbours lie beside each other, or layout="points" for a cloud (extend, anchor)'
        )


def spatial_dims(x: Tensor, d: int, layout: str) -> tuple[int, ...] | None:
    """The spatial axes of a field (B, C, *spatial), (B, *spatial, C) or (B, N, C) with d grid axes; None for other
    tensors."""
    if layout == "tokens":
        return (1,) if x.ndim == 3 else None
    if x.ndim != d + 2:
        return None
    return tuple(range(2, d + 2)) if layout == "first" else tuple(range(1, d + 1))


def grid_of_inputs(args: Any, kwargs: Any, d: int, layout: str, grid: Shape | None) -> Shape:
    """The grid of the first field among the arguments; where samples come in a row, ``grid`` must say it."""
    for x in tensors((args, kwargs)):
        dims = spatial_dims(x, d, layout)
        if dims is None:
            continue
        if layout != "tokens":
            shape = tuple(x.shape[k] for k in dims)
            if grid is not None and shape != grid:
                raise ValueError(f"the input has the grid {shape}, but grid={grid} was given")
            return shape
        if grid is None and d == 1:
            return (x.shape[1],)
        if grid is None:
            raise ValueError(f"{x.shape[1]} samples in a row do not say which grid they make; pass grid=(n, m)")
        if prod(grid) != x.shape[1]:
            raise ValueError(f"grid={grid} has {prod(grid)} samples, but the input has {x.shape[1]}")
        return grid
    wanted = {"first": "(B, C, *spatial)", "last": "(B, *spatial, C)", "tokens": "(B, N, C)"}[layout]
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors((args, kwargs))) or "no tensor"
    raise ValueError(
        f"expected an input {wanted} with {d} spatial axes, got {shapes}; layout= says where the channels are: "
        f"{', '.join(LAYOUTS)}"
    )


def map_fields(value: Any, grid: Shape, layout: str, change: Callable[[Tensor, Dims], Tensor]) -> Any:
    """The nested value with ``change(x, dims)`` in place of every field x on the grid, whose axes are ``dims``.

    Samples in a row are given, and taken back, as a grid.
    """
    d = len(grid)

    def change_field(x: Tensor) -> Tensor:
        dims = spatial_dims(x, d, layout)
        if dims is None and d > 1 and layout != "tokens" and x.ndim in (d, d + 1) and tuple(x.shape[-d:]) == grid:
            return change(x, tuple(range(x.ndim - d, x.ndim)))  # one field for all, or without channels
        if dims is None:
            return x
        if layout == "tokens":
            if x.shape[1] != prod(grid):
                return x
            return change(torch.unflatten(x, 1, grid), tuple(range(1, d + 1))).flatten(1, d)
        return change(x, dims) if tuple(x.shape[k] for k in dims) == grid else x

    return mapped(change_field, value)


def regridded(value: Any, old: Shape, new: Shape, placements: tuple[str, ...], layout: str, method: str) -> Any:
    """Every field on the grid ``old`` among the arguments, on the grid ``new``; everything else as it is."""
    last = tuple(range(-len(old), 0))

    def change(x: Tensor, dims: Dims) -> Tensor:
        return carry(x.movedim(dims, last), new, placements, method).movedim(last, dims)

    return map_fields(value, old, layout, change)


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
