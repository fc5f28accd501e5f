"""The fields among a model's inputs: which axes of them are the grid's."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.forms import Forms
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.extending.points import PointNodes, taken
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

LAYOUTS = ("first", "last", "tokens")
Dims = tuple[int, ...]


def check_layout(layout: str) -> None:
    """Raise for a layout that is none."""
    if layout not in LAYOUTS:
        raise ValueError(unknown("layout", layout, LAYOUTS))


def spatial_dims(x: Tensor, d: int, layout: str) -> tuple[int, ...] | None:
    """The axes of a field with d grid axes: (B, C, *spatial), (B, *spatial, C) or tokens (B, N, C); None if it is
    none."""
    if layout == "tokens":
        return (1,) if x.ndim == 3 else None
    if x.ndim != d + 2:
        return None
    return tuple(range(2, d + 2)) if layout == "first" else tuple(range(1, d + 1))


def grid_of_inputs(args: Any, kwargs: Any, d: int, layout: str, grid: Shape | None) -> Shape:
    """The grid of the first field among the arguments; ``grid`` says it where samples come in a row."""
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


def on_fields(value: Any, grid: Shape, layout: str, change: Callable[[Tensor, Dims], Tensor]) -> Any:
    """The nested value with ``change(x, dims)`` in place of every field x on the grid, whose axes are ``dims``.

    Samples in a row are given, and taken back, as a grid.
    """
    d = len(grid)

    def one(x: Tensor) -> Tensor:
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

    return mapped(one, value)


def regridded(value: Any, old: Shape, new: Shape, placements: tuple[str, ...], layout: str, method: str) -> Any:
    """Every field on the grid ``old`` among the arguments, on the grid ``new``; everything else as it is."""
    last = tuple(range(-len(old), 0))

    def change(x: Tensor, dims: Dims) -> Tensor:
        return carry(x.movedim(dims, last), new, placements, method).movedim(last, dims)

    return on_fields(value, old, layout, change)


def arranged(value: Any, old: Shape, nodes: PointNodes, layout: str, values: Tensor | None, count: int) -> Any:
    """Every field on the grid ``old`` among the arguments, at the points, in their arrangement; ``values`` at the first
    ``count`` points, which are the caller's, take the first field's place."""
    rows = nodes.rows(old)
    given = [] if values is None else [values]

    def change(x: Tensor, dims: Dims) -> Tensor:
        y = _filled_up(given.pop(), x, dims, count, len(nodes.points)) if given else taken(x, list(dims), rows)
        return torch.unflatten(y, dims[0], nodes.shape)

    result = on_fields(value, old, layout, change)
    if given:
        raise ValueError("values were given, but no field among the inputs that they could stand for")
    return result


def placed(value: Any, local: Shape, nodes: PointNodes, layout: str) -> Any:
    """Every field whose samples ``local`` are the first of the points, in the points' arrangement."""

    def change(x: Tensor, dims: Dims) -> Tensor:
        flat = x.flatten(dims[0], dims[-1])
        flat = flat if flat.shape[dims[0]] else _one_zero(flat, dims[0])
        y = _filled_up(flat, x, dims, flat.shape[dims[0]], len(nodes.points))
        return torch.unflatten(y, dims[0], nodes.shape)

    return on_fields(value, local, layout, change)


def _one_zero(x: Tensor, dim: int) -> Tensor:
    """A sample of 0 where there is none; the gradient, 0, still finds its way to x."""
    return x.sum(dim, keepdim=True)


def _filled_up(values: Tensor, x: Tensor, dims: Dims, count: int, length: int) -> Tensor:
    """Values at ``count`` points in the place of a field x, the last one repeated up to ``length``."""
    at = dims[0]
    wanted = (*x.shape[:at], count, *x.shape[dims[-1] + 1 :])
    if tuple(values.shape) != wanted:
        raise ValueError(f"values at the points have the shape {wanted}, got {tuple(values.shape)}")
    more = [length - count if k == at else -1 for k in range(values.ndim)]
    return torch.cat([values, values.narrow(at, count - 1, 1).expand(more)], at)


def in_a_row(t: Tensor, forms: Forms, nodes: PointNodes, count: int) -> Tensor:
    """An output in the points' arrangement, with one axis of ``count`` points; one without samples as it is."""
    dims = [k for k, f in enumerate(forms) if f.on_grid]
    if not dims:
        return t
    if len(dims) > 1 and dims != list(range(dims[0], dims[0] + len(nodes.native))):
        raise CannotFollowError("the model returns its samples in a form that scattered points cannot take")
    return t.flatten(dims[0], dims[-1]).narrow(dims[0], 0, count)
