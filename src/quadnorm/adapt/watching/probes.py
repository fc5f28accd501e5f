"""Probes: inputs to look at a model with, from the user's example or guessed, and smooth fields in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import Arguments, as_arguments, tensors
from quadnorm.adapt.watching.forms import refined_grid
from quadnorm.adapt.watching.layouts import (
    Dims,
    guess_examples,
    guessable,
    has_field,
    layout_text,
    map_fields,
    needs_grid,
    patterns_of,
    regridded,
)
from quadnorm.adapt.watching.watch import trial_output
from quadnorm.carry.grids import carry
from quadnorm.measures import rule
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Probe:
    """Arguments on the training grid, how they are laid out, and where they come from."""

    arguments: Arguments
    layout: str
    resolution: Shape
    placements: tuple[str, ...]
    source: str
    guessed: bool = False  # whether the layout is a guess

    @property
    def layout_note(self) -> str:
        """What was taken for the layout, for reports."""
        shape = next((tuple(t.shape) for t in tensors(self.arguments)), ())
        how = "guessed" if self.guessed else "as said"
        return f"layout: {layout_text(self.layout, len(self.resolution))}, {how}; the first input has shape {shape}"

    @property
    def finer(self) -> Shape:
        """A finer grid that contains the training grid."""
        return refined_grid(self.resolution, self.placements)

    def grid_option(self, shape: Shape) -> dict[str, Any]:
        """``{"grid": shape}`` where samples come in a row, which do not say what grid they make."""
        return {"grid": shape} if needs_grid(self.layout, len(shape)) else {}

    def at(self, shape: Shape) -> Arguments:
        """The same arguments, every field carried to another grid."""
        moved: Arguments = regridded(self.arguments, self.resolution, shape, self.placements, self.layout, "cubic")
        return moved

    def smooth(self, shape: Shape) -> Arguments:
        """Smooth fields, the same functions on every grid, in place of the fields; their scale is the fields'."""
        seeds = count()

        def smooth_like(x: Tensor, dims: Dims) -> Tensor:
            last = tuple(range(-len(dims), 0))
            lead = x.movedim(dims, last).shape[: x.ndim - len(dims)]
            if not x.is_floating_point():  # labels and masks: the nearest sample's
                return carry(x.movedim(dims, last), shape, self.placements).movedim(last, dims)
            fields = [smooth_field(shape, self.placements, next(seeds)) for _ in range(prod(lead))]
            y = torch.stack(fields).reshape(*lead, *shape).to(x.device, torch.float64)
            scale, centre = x.double().std().nan_to_num(1.0).clamp_min(1e-6), x.double().mean()
            return (centre + scale * y).to(x.dtype).movedim(last, dims)

        arguments: Arguments = map_fields(self.arguments, self.resolution, self.layout, smooth_like)
        return arguments


def smooth_field(shape: Shape, placements: tuple[str, ...], seed: int) -> Tensor:
    """A smooth function of unit size at the grid's nodes, float64.

    It is periodic along periodic axes, and along others not zero at the boundary.
    """
    y = torch.zeros(shape, dtype=torch.float64, device="cpu")
    g = torch.Generator("cpu").manual_seed(seed)
    for _ in range(3):
        wave = torch.tensor(1.0, dtype=torch.float64, device="cpu")
        for n, p in zip(shape, placements, strict=True):
            r = rule(p).nodes(n)
            phase, speed = torch.rand(2, generator=g, dtype=torch.float64, device="cpu")
            k = 2 * torch.pi * (1 + (speed > 0.6)) if p == "periodic" else 1.0 + 3.0 * speed
            wave = wave[..., None] * torch.sin(k * r + 6.3 * phase)
        y = y + wave
    return y / 1.5


def make_probe(
    model: nn.Module,
    resolution: Shape,
    placements: tuple[str, ...],
    example: Any,
    layout: str | None,
    works: Callable[[Arguments], Any],
) -> Probe:
    """The probe for a model: ``example``, or random numbers that ``works`` accepts. Refuses where neither serves."""
    if layout is not None:
        patterns_of(layout, len(resolution))
    guessed = layout is None
    if example is not None:
        arguments, source = as_arguments(example), f"the example at {size_text(resolution)}"
        layout = _layout_of_example(arguments, example, resolution, layout)
    else:
        arguments, layout = _guessed(model, resolution, layout, works)
        source = f"random input at {size_text(resolution)}"
    return Probe(arguments, layout, resolution, placements, source, guessed)


def tried_probe(
    model: nn.Module, resolution: Shape, placements: tuple[str, ...], example: Any, layout: str | None
) -> Probe | None:
    """The probe, for which the model is run; None where there is no example and random numbers are no input for it."""
    try:
        return make_probe(model, resolution, placements, example, layout, partial(trial_output, model))
    except ValueError:
        if example is not None:
            raise
        return None


def _layout_of_example(arguments: Arguments, example: Any, resolution: Shape, layout: str | None) -> str:
    """The given layout, or the first in which a field among the arguments is on the training grid."""
    for candidate in guessable(len(resolution)) if layout is None else (layout,):
        if has_field(arguments, resolution, candidate):
            return candidate
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors(arguments))
    got = f"shapes {shapes}" if shapes else f"no tensor but {type(example).__name__}"
    raise ValueError(
        f"the example must be an input at the training resolution {size_text(resolution)}, got {got}; "
        f"check the resolution, and that there are as many axes as in "
        + (layout or "(B, C, *spatial), (B, *spatial, C) or (B, N, C); for others name them, as in layout='b t c h w'")
    )


def _guessed(
    model: nn.Module, resolution: Shape, layout: str | None, works: Callable[[Arguments], Any]
) -> tuple[Arguments, str]:
    """Random numbers that the model accepts, and their layout."""
    failures: list[str] = []
    for guess, guessed_layout in guess_examples(model, resolution):
        x, own_layout = guess, guessed_layout
        if layout not in (None, "first", "last"):
            if guessed_layout == "last":
                continue
            own_layout, x = layout, _laid_out(guess, layout)
        if layout not in (None, own_layout):
            continue
        try:
            works(((x,), {}))
        except Exception as failed:  # a guess may fail in any way
            failures.append(f"\n  {tuple(x.shape)}: {(str(failed).splitlines() or [repr(failed)])[0]}")
            continue
        return ((x,), {}), own_layout
    raise ValueError(
        "the model needs a sample input, and none could be guessed; pass example=, an input at "
        f"{size_text(resolution)}: a tensor, a tuple of arguments or a dict of keyword arguments"
        + (". Tried random numbers:" + "".join(failures[:4]) if failures else "")
    )


def _laid_out(x: Tensor, layout: str) -> Tensor:
    """Random numbers with the channels and the grid of x (1, C, *spatial), as the first input of a layout; axes other
    than c and the grid's have a length of 1."""
    pattern = patterns_of(layout, x.ndim - 2).inputs[0]
    sizes = dict(zip(pattern.space, x.shape[2:], strict=True)) | {"c": x.shape[1]}
    sizes |= dict.fromkeys(("channel", "channels"), x.shape[1])
    random = torch.Generator("cpu").manual_seed(0)
    names = [name for axis in pattern.axes for name in axis]
    return pattern.closed(torch.randn([sizes.get(n, 1) for n in names], generator=random, device="cpu")).to(x)
