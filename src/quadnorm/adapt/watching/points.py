"""Scattered points in place of a grid: where they lie among the training nodes, and fields in the shape of a grid.

A model that expects a grid is given one: the points fill its rows one after the other, and the last point is repeated
until it is full. What acts on single samples does not notice. What mixes them is the native run's, evaluated at each
sample's own place."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm.adapt.watching.forms import Form, Forms
from quadnorm.adapt.watching.layouts import Dims, map_fields
from quadnorm.adapt.watching.nodes import Nodes, interpolation
from quadnorm.adapt.watching.watch import CannotFollowError
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS

CHUNK = 2**12  # points evaluated together


def checked_points(points: Any, d: int) -> np.ndarray:
    """Points (P, d) of the unit cube in float64, or an error that says what was expected."""
    given = torch.as_tensor(points, device="cpu")
    if given.ndim != 2 or given.shape[1] != d or not given.shape[0] or given.is_complex():
        raise ValueError(f"expected points of shape (P, {d}), one row for each, got {tuple(given.shape)}")
    values = given.detach().double().numpy()
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
        raise ValueError(
            f"points lie in the unit cube, whose ends are those of the domain; got coordinates from {values.min():.4g} "
            f"to {values.max():.4g}: subtract the domain's lower end and divide by its length"
        )
    return values


def arrangement(count: int, native: Shape) -> Shape:
    """A grid with room for ``count`` points, finer than the training grid along every axis."""
    inner = tuple(2 * n + 1 for n in native[1:])
    return (max(2 * native[0] + 3, -(-count // prod(inner))), *inner)


def indices(placement: str, n: int, r: np.ndarray) -> np.ndarray:
    """Coordinates r in [0, 1] as fractional indices into n samples.

    >>> indices("endpoint", 5, np.array([0.0, 0.5])), indices("cell", 4, np.array([0.5]))
    (array([0., 2.]), array([1.5]))
    """
    p = PLACEMENTS[placement]
    return r * (n + p.more) - p.first / 2


def values_at_points(t: Tensor, dims: list[int], rows: list[Tensor]) -> Tensor:
    """Values at P points from values t at samples, whose axes ``dims`` become one axis, at the place of the first.

    ``rows`` has a matrix (P, n) for each of these axes: the value at point p is Σ_ab A_pa B_pb t_ab.
    """
    y = t.movedim(dims, tuple(range(-len(dims), 0)))
    lead, parts = y.shape[: -len(dims)], []
    if not (t.is_floating_point() or t.is_complex()):  # labels: the nearest sample's
        at: Any = (..., *(r.argmax(1).to(t.device) for r in rows))
        return y[at].movedim(-1, dims[0])
    dtype = y.dtype if y.dtype in (torch.float64, torch.complex64, torch.complex128) else torch.float32
    y = y.to(dtype).reshape(-1, *y.shape[len(lead) :])
    for k in range(0, len(rows[0]), CHUNK):
        first, *others = (r[k : k + CHUNK].to(y.device, dtype) for r in rows)
        with full_precision(t):
            part = torch.einsum("ba...,pa->bp...", y, first)
            for r in others:
                part = torch.einsum("bpa...,pa->bp...", part, r)
        parts.append(part)
    return torch.cat(parts, 1).reshape(*lead, -1).movedim(-1, dims[0]).to(t.dtype)


@dataclass(frozen=True)
class PointNodes(Nodes):
    """The training grid, and points that fill a grid of ``shape`` one after the other."""

    points: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # (P, d), P = Π shape

    def rows(self, sizes: Shape, wrap: bool = True) -> list[Tensor]:
        """For each axis the matrix (P, n) from ``sizes`` samples of the domain to the points."""
        each = zip(self.placements, sizes, self.points.T, strict=True)
        return [interpolation(indices(p, n, r), n, wrap and PLACEMENTS[p].wraps) for p, n, r in each]

    def carry(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        raise CannotFollowError("the model brings a field to the samples axis by axis, which scattered points have not")

    def restrict(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        raise CannotFollowError("the model sums over single axes of the grid, which scattered points have not")

    def carried(self, t: Tensor, forms: Forms, *, wrap: bool = True) -> Tensor:
        """A field of the training grid at the points, in their arrangement."""
        dims = [k for k, f in enumerate(forms) if f.on_grid and t.shape[k] == f.size(self.native)]
        if not dims:
            return t
        d, form, rows = len(self.native), forms[dims[0]], self.rows(self.native, wrap)
        if any(forms[k].fold != 1 or any(forms[k].extra) for k in dims):
            raise CannotFollowError("the model has a padded or folded field, which cannot be taken to scattered points")
        if form.axes == tuple(range(d)):  # samples in a row
            return values_at_points(torch.unflatten(t, dims[0], self.native), [dims[0] + k for k in range(d)], rows)
        t, dims = self._full(t, forms, dims)
        return torch.unflatten(values_at_points(t, dims, rows), dims[0], self.shape)

    def _full(self, t: Tensor, forms: Forms, dims: list[int]) -> tuple[Tensor, list[int]]:
        """A field with all of the grid's axes side by side, repeated along those for which it has a length of 1."""
        first = dims[0] - forms[dims[0]].axes[0]
        span = list(range(first, first + len(self.native)))
        inside = first >= 0 and span[-1] < t.ndim and all(forms[k].axes == (k - first,) for k in dims)
        if not inside or any(k not in dims and t.shape[k] != 1 for k in span):
            raise CannotFollowError(
                "the model has a field along some of the grid's axes, which scattered points have not"
            )
        return t.expand([self.native[k - first] if k in span else n for k, n in enumerate(t.shape)]), span


def arranged(value: Any, old: Shape, nodes: PointNodes, layout: str, values: Tensor | None, count: int) -> Any:
    """Every field on the grid ``old`` among the arguments, interpolated to the points and arranged as a grid.

    ``values`` at the first ``count`` points, which are the caller's, take the first field's place.
    """
    rows = nodes.rows(old)
    given = [] if values is None else [values]

    def change(x: Tensor, dims: Dims) -> Tensor:
        last = tuple(range(-len(dims), 0))
        if given:
            y = _filled_up(given.pop(), x, dims, count, len(nodes.points)).movedim(dims[0], -1)
        else:
            y = values_at_points(x.movedim(dims, last), [x.ndim + k for k in last], rows)
        return torch.unflatten(y, -1, nodes.shape).movedim(last, dims)

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
