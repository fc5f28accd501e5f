"""Fields at scattered points, in the arrangement of a grid that a model expects, and outputs back in a row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.inputs.layouts import Dims, map_fields
from quadnorm.adapt.extending.points.nodes import PointNodes, values_at_points
from quadnorm.measures.base import Shape


def arranged(value: Any, old: Shape, nodes: PointNodes, layout: str, values: Tensor | None, count: int) -> Any:
    """Every field on the grid ``old`` among the arguments, interpolated to the points and arranged as a grid.

    ``values`` at the first ``count`` points, which are the caller's, take the first field's place.
    """
    rows = nodes.rows(old)
    given = [] if values is None else [values]

    def change(x: Tensor, dims: Dims) -> Tensor:
        if given:
            y = _filled_up(given.pop(), x, dims, count, len(nodes.points))
        else:
            y = values_at_points(x, list(dims), rows)
        return torch.unflatten(y, dims[0], nodes.shape)

    result = map_fields(value, old, layout, change)
    if given:
        raise ValueError("values were given, but no field among the inputs that they could stand for")
    return result


def arranged_shard(value: Any, local: Shape, nodes: PointNodes, layout: str) -> Any:
    """Every field among the arguments whose ``local`` samples are the first of the points, arranged as a grid."""

    def change(x: Tensor, dims: Dims) -> Tensor:
        flat = x.flatten(dims[0], dims[-1])
        flat = flat if flat.shape[dims[0]] else _one_zero(flat, dims[0])
        y = _filled_up(flat, x, dims, flat.shape[dims[0]], len(nodes.points))
        return torch.unflatten(y, dims[0], nodes.shape)

    return map_fields(value, local, layout, change)


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
    """An output that is arranged as a grid, with one axis of ``count`` points; one without samples as it is."""
    dims = [k for k, f in enumerate(forms) if f.on_grid]
    if not dims:
        return t
    if len(dims) > 1 and dims != list(range(dims[0], dims[0] + len(nodes.native))):
        raise CannotFollowError("the model returns its samples in a form that scattered points cannot take")
    return t.flatten(dims[0], dims[-1]).narrow(dims[0], 0, count)
