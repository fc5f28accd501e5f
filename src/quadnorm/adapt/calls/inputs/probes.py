"""Inputs to look at a model with: the user's example, or numbers that fit; smooth fields in their place on any grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.calls.inputs.guesses import guess_examples
from quadnorm.adapt.calls.inputs.layouts import LAYOUTS, check_layout, regridded, spatial_dims
from quadnorm.adapt.calls.trees import Arguments, mapped, tensors
from quadnorm.adapt.calls.watching.quiet import looked_at
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

    def at(self, shape: Shape) -> Arguments:
        """The same arguments, every field carried to another grid."""
        moved: Arguments = regridded(self.arguments, self.resolution, shape, self.placements, self.layout, "cubic")
        return moved

    def smooth(self, shape: Shape) -> Arguments:
        """Smooth fields, the same functions on every grid, in place of the fields; their scale is the fields'."""
        d, count = len(shape), iter(range(1000))

        def one(x: Tensor) -> Tensor:
            dims = spatial_dims(x, d, self.layout)
            if dims is None or not x.is_floating_point() or not self._is_field(x, dims):
                return x
            channels = x.movedim(dims, tuple(range(-len(dims), 0)))
            lead = channels.shape[: x.ndim - len(dims)]
            fields = [smooth_field(shape, self.placements, next(count)) for _ in range(prod(lead))]
            y = torch.stack(fields).reshape(*lead, *shape).to(x.device, torch.float64)
            scale, centre = x.double().std().nan_to_num(1.0).clamp_min(1e-6), x.double().mean()
            y = (centre + scale * y).to(x.dtype)
            y = y.flatten(-d) if self.layout == "tokens" else y
            return y.movedim(tuple(range(-len(dims), 0)), dims)

        smooth: Arguments = mapped(one, self.arguments)
        return smooth

    def _is_field(self, x: Tensor, dims: tuple[int, ...]) -> bool:
        sizes = tuple(x.shape[k] for k in dims)
        return sizes == (self.resolution if self.layout != "tokens" else (prod(self.resolution),))


def smooth_field(shape: Shape, placements: tuple[str, ...], seed: int) -> Tensor:
    """A smooth function of unit size at the grid's nodes, float64; periodic along periodic axes, along others not zero
    at the boundary."""
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


def as_arguments(example: Any) -> Arguments:
    """A tensor, a tuple of arguments or a dict of keyword arguments, as (args, kwargs)."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, (tuple, list)) else ((example,), {})


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
        check_layout(layout)
    grid = "×".join(map(str, resolution))
    if example is not None:
        arguments = as_arguments(example)
        where = layout or _layout_of(arguments, resolution)
        if where is None or not _fields(arguments, resolution, where):
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors(arguments)) or repr(example)
            raise ValueError(
                f"the example must be an input at the training resolution {grid}, got shapes {shapes}; "
                f"check the resolution, and that there are as many axes as in (B, C, *spatial), (B, *spatial, C) or "
                f"(B, N, C)"
            )
        return Probe(arguments, where, resolution, placements, f"the example at {grid}")
    error: Exception | None = None
    for at, x in enumerate(guess_examples(model, resolution)):
        where = "last" if at % 2 else "first"
        if layout == "tokens":
            where, x = "tokens", x.reshape(1, -1, prod(resolution)).transpose(1, 2) if where == "first" else x
        if layout not in (None, where):
            continue
        try:
            works(((x,), {}))
        except Exception as failed:  # a guess may fail in any way
            error = failed
            continue
        return Probe(((x,), {}), where, resolution, placements, f"random input at {grid}")
    why = f" (random numbers were tried: {str(error).splitlines()[0]})" if error is not None and str(error) else ""
    raise ValueError(
        f"the model must be seen at work, and no input could be guessed{why}; pass example=, an input at {grid}: a "
        "tensor, a tuple of arguments or a dict of keyword arguments"
    )


def layout_of_model(model: nn.Module, resolution: Shape, placements: tuple[str, ...]) -> str:
    """``first`` or ``last``, whichever the model accepts when it is tried with random numbers; ``first`` if neither."""
    try:
        return make_probe(model, resolution, placements, None, None, partial(looked_at, model)).layout
    except ValueError:
        return "first"


def _layout_of(arguments: Arguments, resolution: Shape) -> str | None:
    return next((where for where in LAYOUTS if _fields(arguments, resolution, where)), None)


def _fields(arguments: Arguments, resolution: Shape, layout: str) -> bool:
    wanted = (prod(resolution),) if layout == "tokens" else resolution
    for x in tensors(arguments):
        dims = spatial_dims(x, len(resolution), layout)
        if dims is not None and tuple(x.shape[k] for k in dims) == wanted:
            return True
    return False
