"""Fields level by level: how much detail a grid holds over its half, and where nodes lie outside of other nodes.

Energies are means of squares relative to the output's own, sample by sample, so that large samples do not outvote small
ones. Fields are (B, C, *spatial); results have one value per channel, (C,).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from quadnorm._tensors import constant
from quadnorm.adapt.watching.layouts import Dims, map_fields
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import spline
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS, among

WORTH = 3e-3  # a part that would change the error's energy by a smaller share is left out
FLOOR = 1e-3  # of the mean energy: smaller samples are weighed as if they had it


def energy(f: Tensor, scale: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over samples of the mean square of f over the nodes (in ``mask``), over the sample's ``scale`` (B, C)."""
    return product(f, f, scale, mask)


def product(a: Tensor, b: Tensor, scale: Tensor, mask: Tensor | None = None) -> Tensor:
    """As :func:`energy`, of the product of two fields."""
    p = (a.conj() * b).real.double().flatten(2)
    if mask is not None:
        p = p[..., mask.flatten().to(p.device)]
    if not p.shape[-1]:
        return torch.zeros(p.shape[1], dtype=torch.float64, device=p.device)
    return (p.mean(-1) / scale).mean(0)


def own_scale(f: Tensor, floor: float = FLOOR) -> Tensor:
    """Each sample's mean square, (B, C), never less than a small share of the mean over all samples."""
    e = f.abs().double().square().flatten(2).mean(-1)
    return torch.maximum(e, floor * e.mean(0)).clamp_min(1e-280)


def over_half(f: Tensor, placements: Sequence[str]) -> tuple[Tensor, Tensor]:
    """A field's detail over every second of its samples (what interpolation between these misses), and these samples.

    Axes that are not periodic lose a last sample that has none on its right.
    """
    names, index = [], []
    for n, p in zip(f.shape[2:], placements, strict=True):
        wraps = p == "periodic" and n % 2 == 0
        names.append("periodic" if wraps else "endpoint")
        index.append(slice(None, None if wraps or n % 2 else n - 1))
    f = f[(slice(None), slice(None), *index)]
    half = f[(slice(None), slice(None), *(slice(None, None, 2) for _ in names))]
    return f - carry(half, tuple(f.shape[2:]), names, "cubic"), half


def followed(u: Tensor, x: Tensor, placements: Sequence[str]) -> Tensor:
    """How much of the detail of u is that of a channel of x times a factor, sample by sample, (C,) from 0 to 1.

    The squared correlation of the two details over a sample's nodes, for the channel that has the largest.
    """
    du, dx = (over_half(f, placements)[0].flatten(2).to(torch.complex128) for f in (u, x))
    joint = torch.einsum("bcn,bkn->bck", du.conj(), dx).abs().square()
    own, other = (d.abs().square().sum(-1) for d in (du, dx))
    explained = joint / other.clamp_min(1e-280).unsqueeze(1) / own_scale(u).unsqueeze(-1)
    total = (own / own_scale(u)).sum(0).clamp_min(1e-280)
    return (explained.sum(0) / total.unsqueeze(-1)).amax(-1).clamp(0.0, 1.0)


def next_samples(x: Tensor, dim: int, step: int, wraps: bool, odd: bool) -> Tensor:
    """Every sample's neighbour along an axis, ``step`` = 1 to the right, −1 to the left; beyond the last sample of an
    axis that does not wrap around the field goes on by ``odd`` reflection, else with the last sample's value."""
    n = x.shape[dim]
    if wraps or n < 2:
        return x.roll(-step, dim)
    if step < 0:
        return next_samples(x.flip(dim), dim, 1, wraps, odd).flip(dim)
    last = x.narrow(dim, n - 1, 1)
    after = 2 * last - x.narrow(dim, n - 2, 1) if odd else last
    return torch.cat([x.narrow(dim, 1, n - 1), after], dim)


def blend_law(native: Shape, shape: Shape, placements: Sequence[str]) -> float:
    """Mean over the nodes inside the training nodes of the energy of a blend's error, over that of whole spacings.

    What depends on where the training grid lies bends by θ(1 − θ)/2 of its second difference when the runs shifted by θ
    and θ − 1 are blended, and by 1/2 of it for the runs shifted by 1 and −1.
    """
    total = torch.zeros(shape, dtype=torch.float64)
    for axis, (n0, n, p) in enumerate(zip(native, shape, placements, strict=True)):
        a, b = among(p, n0, p, n)
        part = torch.from_numpy(a % b).double() / b
        total = total + (part * (1 - part)).view([-1 if k == axis else 1 for k in range(len(shape))]) / len(shape)
    inside = ~outside_nodes(native, shape, placements)
    return float(total[inside].square().mean()) if bool(inside.any()) else 0.0


def detail_levels(f: Tensor, placements: Sequence[str], scale: Tensor) -> tuple[Tensor, Tensor]:
    """Energy of the detail of a grid over its half, and of the half over the quarter, (C,) each."""
    first, half = over_half(f, placements)
    second, _ = over_half(half, placements)
    return energy(first, scale), energy(second, scale)


def beyond(n0: int, n: int, placement: str) -> Tensor:
    """How far each node lies outside the training nodes of an axis, in training spacings; negative at the left end.

    >>> beyond(4, 8, "cell").tolist()
    [-0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25]
    """
    if placement == "periodic":
        return torch.zeros(n, dtype=torch.float64)
    old, new = PLACEMENTS[placement].nodes(n0), PLACEMENTS[placement].nodes(n)
    steps = ((new - old[-1]).clamp_min(0) + (new - old[0]).clamp_max(0)) / PLACEMENTS[placement].spacing(max(n0, 2))
    return torch.where(steps.abs() < 1e-9, 0.0, steps)


@constant
def outside_nodes(native: Shape, shape: Shape, placements: Sequence[str]) -> Tensor:
    """Which nodes of a grid lie outside the training nodes along some axis, a mask (*shape)."""
    mask = torch.zeros(shape, dtype=torch.bool)
    for steps in _per_axis(native, shape, placements):
        mask = mask | (steps != 0)
    return mask


def _per_axis(native: Shape, shape: Shape, placements: Sequence[str]) -> list[Tensor]:
    """:func:`beyond` of every axis, along that axis of a grid."""
    steps = [beyond(*axis) for axis in zip(native, shape, placements, strict=True)]
    return [s.view([-1 if k == axis else 1 for k in range(len(shape))]) for axis, s in enumerate(steps)]


def finest_scales(v: Tensor, placements: Sequence[str]) -> tuple[Tensor, Tensor]:
    """What two rounds of smoothing, with spacing 1 and 2, change in a field: minus its two finest scales."""
    once = _smoothed(v, placements, 1)
    return once - v, _smoothed(once, placements, 2) - once


def _smoothed(v: Tensor, placements: Sequence[str], step: int) -> Tensor:
    """The field under (1/4, 1/2, 1/4) along every axis, for neighbours that are ``step`` samples apart.

    Beyond its ends a field is continued by odd reflection, so that straight lines stay what they are.
    """
    for axis, p in enumerate(placements, start=2):
        o = v.movedim(axis, -1)
        n = o.shape[-1]
        if p == "periodic":
            o = (o.roll(step, -1) + 2 * o + o.roll(-step, -1)) / 4
        elif n > 2 * step:
            left = 2 * o[..., :1] - o[..., 1 : step + 1].flip(-1)
            right = 2 * o[..., -1:] - o[..., n - step - 1 : n - 1].flip(-1)
            e = torch.cat([left, o, right], -1)
            o = (e[..., :n] + 2 * o + e[..., 2 * step :]) / 4
        v = o.movedim(-1, axis)
    return v


def smoothing_shares(u: Tensor, v: Tensor, placements: Sequence[str]) -> Tensor:
    """How much of its two finest scales a network's output is better without, (2, C): least squares, not negative.

    A share counts only if the shares of either half of the samples make the error of the other half smaller.
    """
    scale, error = own_scale(u), u - v
    scales = finest_scales(v, placements)
    halves = [slice(None, None, 2), slice(1, None, 2)] if len(u) > 1 else [slice(None)]
    sums = []
    for part in halves:
        gram = torch.stack([torch.stack([product(a[part], b[part], scale[part]) for b in scales]) for a in scales])
        right = torch.stack([product(a[part], error[part], scale[part]) for a in scales])
        sums.append((gram.cpu(), right.cpu(), energy(error[part], scale[part]).cpu()))
    shares = torch.zeros(2, u.shape[1], dtype=torch.float64)
    for c in range(u.shape[1]):
        each = [(g[..., c], r[..., c], float(e[c])) for g, r, e in sums]
        for kept in ([0], [0, 1]):
            if all(
                _change(g, r, _least_squares(*each[k - 1][:2], kept)) < -WORTH * e for k, (g, r, e) in enumerate(each)
            ):
                gram = torch.stack([g for g, _, _ in each]).sum(0)
                right = torch.stack([r for _, r, _ in each]).sum(0)
                one, both = _least_squares(gram, right, [0]), _least_squares(gram, right, kept)
                worth = WORTH * sum(e for *_, e in each)
                better = _change(gram, right, both) < _change(gram, right, one) - worth
                shares[:, c] = both if kept == [0] or better else shares[:, c]
    return shares


def _least_squares(gram: Tensor, right: Tensor, kept: list[int]) -> Tensor:
    """The shares (2,) that make the error smallest, of the ``kept`` scales, between 0 and 1.2."""
    shares = torch.zeros(2, dtype=torch.float64)
    g = gram[kept][:, kept]
    if float(g.diagonal().min()) > 1e-14:
        solution = torch.linalg.solve(g + 1e-6 * torch.diag(g.diagonal()), right[kept])
        shares[kept] = solution.clamp(0.0, 1.2)
    return shares


def _change(gram: Tensor, right: Tensor, shares: Tensor) -> float:
    """By how much shares change the error's energy."""
    return float(shares @ gram @ shares - 2 * (shares @ right))


def left_out_energy(v: Tensor, axis: int, end: int, scale: Tensor) -> Tensor:
    """Energy of the error of extrapolating a field by a spacing to its own first (``end`` 0) or last samples, (C,)."""
    g = v.movedim(axis, -1) if end else v.movedim(axis, -1).flip(-1)
    m = g.shape[-1] - 1
    row = spline(torch.tensor([m - 1]), torch.tensor([1.0], dtype=torch.float64), m)[0].to(g.device)
    return energy(((g[..., :-1] * row).sum(-1) - g[..., -1]).unsqueeze(-1), scale)


@constant
def open_ends(native: Shape, shape: Shape, placements: Sequence[str]) -> list[tuple[int, int]]:
    """The ends (axis of the field, 0 or 1) at which nodes of the grid lie outside the training nodes."""
    ends = []
    for axis, each in enumerate(zip(native, shape, placements, strict=True)):
        steps = beyond(*each)
        ends += [(axis + 2, 0)] * bool((steps < 0).any()) + [(axis + 2, 1)] * bool((steps > 0).any())
    return ends


def smooth_law(native: Shape, shape: Shape, placements: Sequence[str]) -> float:
    """Mean over the outside nodes of the energy that extrapolation misses, over that one spacing outside.

    A cubic that is extrapolated by θ spacings misses θ(1+θ)(2+θ)(3+θ)/24 of the fourth difference.
    """
    law = torch.zeros(shape, dtype=torch.float64)
    for steps in _per_axis(native, shape, placements):
        t = steps.abs()
        law = law + (t * (1 + t) * (2 + t) * (3 + t) / 24) ** 2
    return float(law[outside_nodes(native, shape, placements)].mean())


def variance_of(x: Tensor) -> Tensor:
    """The variance of each channel over samples and nodes, (C,); infinite for constant channels, which have no part."""
    f = x.abs().double() if x.is_complex() else x.double()
    f = f.transpose(0, 1).flatten(1)
    var = f.var(1, correction=0)
    return torch.where(var > 1e-12 * f.square().mean(1).clamp_min(1e-300), var, torch.inf)


def is_piecewise_constant(x: Tensor) -> bool:
    """Whether most neighbours in a field (B, C, *spatial) have the same value, and not all."""
    pairs = equal = 0
    for axis in range(2, x.ndim):
        a, b = x.narrow(axis, 1, x.shape[axis] - 1), x.narrow(axis, 0, x.shape[axis] - 1)
        pairs, equal = pairs + a.numel(), equal + int((a == b).sum())
    return pairs > equal > 0.5 * pairs


def fields_of(value: Any, grid: Shape, layout: str, outputs: bool = False) -> list[Tensor]:
    """The fields of real or complex numbers on a grid in a nested value, each as (B, C, *grid).

    The first axis beside the grid's is the batch; all others, such as channels and times, are channels here.
    """
    found: list[Tensor] = []

    def keep(x: Tensor, dims: Dims) -> Tensor:
        if x.is_floating_point() or x.is_complex():
            y = x.movedim(dims, tuple(range(-len(dims), 0)))
            batch = y.shape[0] if y.ndim > len(grid) else 1
            found.append(y.reshape(batch, prod(y.shape[1 : y.ndim - len(grid)]), *grid))
        return x

    map_fields(value, grid, layout, keep, outputs)
    return found


def with_fields(value: Any, grid: Shape, layout: str, fields: Iterator[Tensor]) -> Any:
    """The nested value with other fields (B, C, *grid) in place of its own."""

    def replace(x: Tensor, dims: Dims) -> Tensor:
        if not (x.is_floating_point() or x.is_complex()):
            return x
        last = tuple(range(-len(dims), 0))
        return next(fields).reshape(x.movedim(dims, last).shape).movedim(last, dims)

    return map_fields(value, grid, layout, replace, outputs=True)
