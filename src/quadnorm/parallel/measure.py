"""Weights and nodes of one rank's part: slices of the whole grid's, which are not built where it can be helped."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm.measures import Blend, Masked, Measure, Separable, rule
from quadnorm.measures._cache import CACHE
from quadnorm.measures.placement import Placements, placements_per_axis
from quadnorm.operators.domain import counting
from quadnorm.parallel.split import Part


def local_weights(measure: Measure, part: Part, device: torch.device, dtype: torch.dtype) -> Tensor:
    """One rank's slice of the whole grid's weights, of the part's shape; all ranks' together sum to 1."""
    if torch.compiler.is_compiling():
        return _weights(measure, part).to(device=device, dtype=dtype)
    key = (measure, part, device, dtype)
    return CACHE.get(
        ("weights of a part", *key), lambda: _weights(measure, part).to(device=device, dtype=dtype).contiguous()
    )


def _weights(measure: Measure, part: Part) -> Tensor:
    if isinstance(measure, Separable):
        return outer([f[a:b] for f, (a, b) in zip(measure.factors(part.shape), part.mine, strict=True)])
    share, rest = measure.counting_part()
    if isinstance(rest, Separable):
        return share / part.count + (1 - share) * _weights(rest, part)
    return measure.shared_weights(part.shape)[part.slices]


def outer(factors: list[Tensor]) -> Tensor:
    """w_i · w_j · …"""
    w, *rest = factors
    for f in rest:
        w = w.unsqueeze(-1) * f
    return w


def masses(measure: Measure, part: Part) -> Tensor:
    """The measure of every rank's part, (P,) float64; known to all without a word."""
    if torch.compiler.is_compiling():
        return _masses(measure, part)
    return CACHE.get(("masses of parts", measure, part), lambda: _masses(measure, part))


def _masses(measure: Measure, part: Part) -> Tensor:
    if isinstance(measure, Separable):
        return factor_masses(list(measure.factors(part.shape)), part)
    share, rest = measure.counting_part()
    if isinstance(rest, Separable):
        sizes = torch.tensor([_size(r) for r in part.ranges], dtype=torch.float64, device="cpu")
        return share * sizes / part.count + (1 - share) * masses(rest, part)
    w = measure.shared_weights(part.shape)
    return torch.stack([w[tuple(slice(a, b) for a, b in r)].sum() for r in part.ranges])


def factor_masses(factors: list[Tensor], part: Part) -> Tensor:
    """:func:`masses` of a product measure, from its factors along the whole axes."""
    mass = torch.ones(len(part.ranges), dtype=torch.float64, device="cpu")
    for axis, f in enumerate(factors):
        values = f.detach().cpu().double()
        sums = {r: values[r[0] : r[1]].sum() for r in {ranges[axis] for ranges in part.ranges}}
        mass = mass * torch.stack([sums[ranges[axis]] for ranges in part.ranges])
    return mass


def _size(ranges: tuple[tuple[int, int], ...]) -> int:
    n = 1
    for a, b in ranges:
        n *= b - a
    return n


def local_places(
    measure: Measure, placement: Placements, part: Part, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Coordinates of this rank's samples relative to the whole domain, (d, N); see ``operators.domain.positions``."""
    key = (measure, placement, part, device, dtype)
    if torch.compiler.is_compiling():
        return _places(measure, placement, part).to(device=device, dtype=dtype)
    return CACHE.get(
        ("places of a part", *key), lambda: _places(measure, placement, part).to(device=device, dtype=dtype)
    )


def _places(measure: Measure, placement: Placements, part: Part) -> Tensor:
    while isinstance(measure, (Blend, Masked)):
        measure = measure.quadrature if isinstance(measure, Blend) else measure.base
    if isinstance(measure, Separable) and not counting(measure):
        axes = zip(measure.axes(len(part.shape)), part.shape, strict=True)
        nodes = [(a.nodes(n) - a.lo) / (a.hi - a.lo) for a, n in axes]
    else:
        names = placements_per_axis(placement, len(part.shape))
        nodes = [rule(name).nodes(n) for name, n in zip(names, part.shape, strict=True)]
    cut = [t[a:b] for t, (a, b) in zip(nodes, part.mine, strict=True)]
    return torch.stack([t.reshape(-1) for t in torch.meshgrid(*cut, indexing="ij")])
