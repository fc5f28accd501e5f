"""The fields among a model's inputs: which axes of them are the grid's."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.adapt.calls.forms import Forms
from quadnorm.adapt.calls.plan import CannotFollowError
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.extending.points import PointNodes, taken
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

LAYOUTS = ("first", "last", "tokens")


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


def regridded(value: Any, old: Shape, new: Shape, placements: tuple[str, ...], layout: str, method: str) -> Any:
    """Every field on the grid ``old`` among the arguments, on the grid ``new``; everything else as it is."""
    d = len(old)

    def one(x: Tensor) -> Tensor:
        dims = spatial_dims(x, d, layout)
        if dims is None or not x.is_floating_point():
            return x
        if layout == "tokens":
            if x.shape[1] != prod(old):
                return x
            field = x.movedim(1, -1).reshape(x.shape[0], x.shape[2], *old)
            return carry(field, new, placements, method).flatten(-d).movedim(-1, 1)
        if tuple(x.shape[k] for k in dims) != old:
            return x
        last = tuple(range(-d, 0))
        return carry(x.movedim(dims, last), new, placements, method).movedim(last, dims)

    return mapped(one, value)


def arranged(value: Any, old: Shape, nodes: PointNodes, layout: str, values: Tensor | None) -> Any:
    """Every field on the grid ``old`` among the arguments, at the points, in their arrangement; ``values`` take the
    first field's place."""
    d, rows = len(old), nodes.rows(old)
    given = [] if values is None else [values]

    def one(x: Tensor) -> Tensor:
        dims = spatial_dims(x, d, layout)
        if dims is None or not x.is_floating_point():
            return x
        if layout == "tokens":
            if x.shape[1] != prod(old):
                return x
            x, dims = torch.unflatten(x, 1, old), tuple(range(1, d + 1))
        if tuple(x.shape[k] for k in dims) != old:
            return x
        y = taken(x, list(dims), rows) if not given else _filled_up(given.pop(), x, dims, len(rows[0]))
        return y if layout == "tokens" else torch.unflatten(y, dims[0], nodes.shape)

    result = mapped(one, value)
    if given:
        raise ValueError("values were given, but no field among the inputs that they could stand for")
    return result


def placed(value: Any, local: Shape, nodes: PointNodes, layout: str) -> Any:
    """Every field whose samples ``local`` are the first of the points, in the points' arrangement."""
    d = len(local)

    def one(x: Tensor) -> Tensor:
        dims = spatial_dims(x, d, layout)
        if dims is None or not x.is_floating_point() or tuple(x.shape[k] for k in dims) != local:
            return x
        flat = x.flatten(dims[0], dims[-1])
        y = _filled_up(flat if flat.shape[dims[0]] else _one_zero(flat, dims[0]), x, dims, len(nodes.points))
        return torch.unflatten(y, dims[0], nodes.shape)

    return mapped(one, value)


def _one_zero(x: Tensor, dim: int) -> Tensor:
    """A sample of 0 where there is none; the gradient, 0, still finds its way to x."""
    return x.sum(dim, keepdim=True)


def _filled_up(values: Tensor, x: Tensor, dims: tuple[int, ...], count: int) -> Tensor:
    """Values at the points, the last one repeated."""
    at = dims[0]
    wanted = [*x.shape[:at], -1, *x.shape[dims[-1] + 1 :]]
    if values.ndim != len(wanted) or any(n not in (-1, m) for n, m in zip(wanted, values.shape, strict=True)):
        raise ValueError(f"values at the points have the shape {tuple(wanted)}, got {tuple(values.shape)}")
    if values.shape[at] > count:
        raise ValueError(f"got values at {values.shape[at]} points, more than there are points")
    last = values.narrow(at, values.shape[at] - 1, 1)
    more = [count - values.shape[at] if k == at else -1 for k in range(values.ndim)]
    return torch.cat([values, last.expand(more)], at)


def in_a_row(t: Tensor, forms: Forms, nodes: PointNodes, count: int) -> Tensor:
    """An output in the points' arrangement, with one axis of ``count`` points; one without samples as it is."""
    dims = [k for k, f in enumerate(forms) if f.on_grid]
    if not dims:
        return t
    if len(dims) > 1 and dims != list(range(dims[0], dims[0] + len(nodes.native))):
        raise CannotFollowError("the model returns its samples in a form that scattered points cannot take")
    return t.flatten(dims[0], dims[-1]).narrow(dims[0], 0, count)
