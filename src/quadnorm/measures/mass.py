"""Mass spread over intervals and gathered at points, and what the hat functions of other nodes make of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# The share of a sample's weight that may be moved to each end of the axis; two of them must leave something.
MOVABLE = 0.45


@dataclass(frozen=True)
class Mass:
    """``spread[j]`` evenly over [edges[j], edges[j+1]], and point masses (place, mass) at ``atoms``."""

    edges: Tensor
    spread: Tensor
    atoms: tuple[tuple[Tensor, float], ...] = ()

    def left_of(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mass and first moment (about 0) of the spread part to the left of each t."""
        if self.spread.shape[0] == 0:
            return torch.zeros_like(t), torch.zeros_like(t)
        t = t.clamp(self.edges[0], self.edges[-1])
        j = (torch.searchsorted(self.edges, t, right=True) - 1).clamp(0, self.spread.shape[0] - 1)
        centres = (self.edges[1:] + self.edges[:-1]) / 2
        zero = self.spread.new_zeros(1)
        before = torch.cat([zero, self.spread.cumsum(0)])[j]
        moment = torch.cat([zero, (self.spread * centres).cumsum(0)])[j]
        inside = (self.spread / self.edges.diff())[j] * (t - self.edges[j])
        return before + inside, moment + inside * (t + self.edges[j]) / 2


def hat_moments(nodes: Tensor, mass: Mass) -> Tensor:
    """∫ φ_i dμ for the hat functions φ_i of two or more increasing ``nodes``; never negative.

    On one interval [a, b] of the nodes with mass M and first moment S about a, the hat of b collects S/(b−a) and the
    hat of a the rest. Mass beyond the outermost nodes goes to these; what lines miss by that is made good by
    :func:`_pulled`, as far as positive weights can. O(n + n₀).
    """
    total, moment = mass.left_of(torch.cat([nodes, nodes.new_full((1,), float("inf"))]))
    M = total[1:-1] - total[:-2]
    S = (moment[1:-1] - moment[:-2]) - nodes[:-1] * M
    first, last = torch.zeros_like(nodes), torch.zeros_like(nodes)
    first[0], last[-1] = 1, 1
    w = total[0] * first + (total[-1] - total[-2]) * last
    low = nodes[0] * total[0] - moment[0]  # moments of what lies beyond the ends, about the ends
    high = (moment[-1] - moment[-2]) - nodes[-1] * (total[-1] - total[-2])
    for place, m in mass.atoms:
        low = low + m * (nodes[0] - place).clamp_min(0)
        high = high + m * (place - nodes[-1]).clamp_min(0)
        at = place.clamp(nodes[0], nodes[-1])
        k = (torch.searchsorted(nodes, at, right=True) - 1).clamp(0, nodes.shape[0] - 2)
        M = M.index_add(0, k, torch.full_like(at, m))
        S = S.index_add(0, k, m * (at - nodes[k]))
    right = S / nodes.diff()
    zero = nodes.new_zeros(1)
    w = w + torch.cat([M - right, zero]) + torch.cat([zero, right])
    pulled = _pulled(w, nodes - nodes[0], low) + _pulled(w.flip(0), (nodes[-1] - nodes).flip(0), high).flip(0)
    return w + pulled


def _pulled(w: Tensor, arms: Tensor, moment: Tensor) -> Tensor:
    """What to add to the weights so that their first moment about the first node falls by ``moment``.

    The nearest nodes give to the first one, none more than ``MOVABLE`` of its weight; as far as that suffices.
    """
    lever = w * arms
    reach = lever.cumsum(0)
    near = (MOVABLE * (reach - lever) < moment) & (arms > 0)
    share = (moment / (lever * near).sum().clamp_min(1e-300)).clamp(0, MOVABLE)
    given = w * near * share
    return torch.cat([given.sum()[None], -given[1:]])
