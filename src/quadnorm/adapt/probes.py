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

from quadnorm.adapt.forms import refined_grid
from quadnorm.adapt.layouts import LAYOUTS, check_layout, guess_examples, regridded, spatial_dims
from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import Arguments, as_arguments, mapped, tensors
from quadnorm.adapt.watch import trial_output
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

    @property
    def finer(self) -> Shape:
        """A finer grid that contains the training grid."""
        return refined_grid(self.resolution, self.placements)

    def grid_option(self, shape: Shape) -> dict[str, Any]:
        """``{"grid": shape}`` where samples come in a row, which do not say what grid they make."""
        return {"grid": shape} if self.layout == "tokens" else {}

    def at(self, shape: Shape) -> Arguments:
        """The same arguments, every field carried to another grid."""
        moved: Arguments = regridded(self.arguments, self.resolution, shape, self.placements, self.layout, "cubic")
        return moved

    def smooth(self, shape: Shape) -> Arguments:
        """Smooth fields, the same functions on every grid, in place of the fields; their scale is the fields'."""
        d, seeds = len(shape), count()

        def smooth_like(x: Tensor) -> Tensor:
            dims = spatial_dims(x, d, self.layout)
            if dims is None or not x.is_floating_point() or not _on_grid(x, dims, self.resolution, self.layout):
                return x
            last = tuple(range(-len(dims), 0))
            lead = x.movedim(dims, last).shape[: x.ndim - len(dims)]
            fields = [smooth_field(shape, self.placements, next(seeds)) for _ in range(prod(lead))]
            y = torch.stack(fields).reshape(*lead, *shape).to(x.device, torch.float64)
            scale, centre = x.double().std().nan_to_num(1.0).clamp_min(1e-6), x.double().mean()
            y = (centre + scale * y).to(x.dtype)
            y = y.flatten(-d) if self.layout == "tokens" else y
            return y.movedim(last, dims)

        arguments: Arguments = mapped(smooth_like, self.arguments)
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
        check_layout(layout, len(resolution))
    if example is not None:
        arguments = as_arguments(example)
        return Probe(
            arguments,
            _layout_of_example(arguments, example, resolution, layout),
            resolution,
            placements,
            f"the example at {size_text(resolution)}",
        )
    arguments, layout = _guessed(model, resolution, layout, works)
    return Probe(arguments, layout, resolution, placements, f"random input at {size_text(resolution)}")


def layout_of_model(model: nn.Module, resolution: Shape, placements: tuple[str, ...]) -> str:
    """``first`` or ``last``, whichever the model accepts when it is tried with random numbers; ``first`` if neither."""
    try:
        return make_probe(model, resolution, placements, None, None, partial(trial_output, model)).layout
    except ValueError:
        return "first"


def _layout_of_example(arguments: Arguments, example: Any, resolution: Shape, layout: str | None) -> str:
    """The given layout, or the first in which a field among the arguments is on the training grid."""
    for candidate in LAYOUTS if layout is None else (layout,):
        if _has_field(arguments, resolution, candidate):
            return candidate
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors(arguments)) or repr(example)
    raise ValueError(
        f"the example must be an input at the training resolution {size_text(resolution)}, got shapes {shapes}; "
        f"check the resolution, and that there are as many axes as in (B, C, *spatial), (B, *spatial, C) or "
        f"(B, N, C)"
    )


def _has_field(arguments: Arguments, resolution: Shape, layout: str) -> bool:
    for x in tensors(arguments):
        dims = spatial_dims(x, len(resolution), layout)
        if dims is not None and _on_grid(x, dims, resolution, layout):
            return True
    return False


def _on_grid(x: Tensor, dims: tuple[int, ...], resolution: Shape, layout: str) -> bool:
    """Whether the axes ``dims`` of x have the grid's samples."""
    wanted = (prod(resolution),) if layout == "tokens" else resolution
    return tuple(x.shape[k] for k in dims) == wanted


def _guessed(
    model: nn.Module, resolution: Shape, layout: str | None, works: Callable[[Arguments], Any]
) -> tuple[Arguments, str]:
    """Random numbers that the model accepts, and their layout."""
    error: Exception | None = None
    for guess, guessed_layout in guess_examples(model, resolution):
        x, own_layout = guess, guessed_layout
        if layout == "tokens":
            own_layout = "tokens"
            x = guess.reshape(1, -1, prod(resolution)).transpose(1, 2) if guessed_layout == "first" else guess
        if layout not in (None, own_layout):
            continue
        try:
            works(((x,), {}))
        except Exception as failed:  # a guess may fail in any way
            error = failed
            continue
        return ((x,), {}), own_layout
    why = f" (random numbers were tried: {str(error).splitlines()[0]})" if error is not None and str(error) else ""
    raise ValueError(
        f"the model must be seen at work, and no input could be guessed{why}; pass example=, an input at "
        f"{size_text(resolution)}: a tensor, a tuple of arguments or a dict of keyword arguments"
    )
