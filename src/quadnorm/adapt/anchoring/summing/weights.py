"""How many training samples each sample of a new grid stands for; padding keeps its length in space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.grids.forms import Form
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.measures import Anchored
from quadnorm.measures.padded import PaddedAxis

OPEN = {"periodic": "left"}  # an axis has ends where a coordinate jumps


@dataclass(frozen=True)
class CountedNodes(Nodes):
    """The two grids, and the training grid's counting measure on the new one.

    ``open_ends``: sum over periodic axes as over an interval from the first to the last training sample, which is what
    a model has learned if a coordinate channel jumps where the axis closes.
    """

    open_ends: bool = False

    def padded(self, k: int, extra: int) -> PaddedAxis:
        """A grid axis with ``extra`` samples padded to it on the training grid."""
        before = self.origins.get((k, extra), 0)
        return PaddedAxis(self.placements[k], self.native[k], before, extra - before)

    def extra(self, k: int, extra: int) -> int:
        """Samples of padding on the new grid for ``extra`` of them on the training grid."""
        return sum(self.padded(k, extra).padding(self.shape[k]))

    def origin(self, k: int, extra: int) -> int:
        """How many of them come before the grid."""
        return self.padded(k, extra).padding(self.shape[k])[0]

    def counts(self, form: Form, like: Tensor) -> Tensor | None:
        """(size,): how many training samples each new sample stands for; None where each stands for itself."""
        axes = []
        for k, e, n in zip(form.axes, form.extra, self.lengths(form), strict=True):
            n0, placement = self.native[k], self.placements[k]
            if e > 0:
                axes.append((n0 + e) * self.padded(k, e).weights(n))
                continue
            if self.open_ends:
                placement = OPEN.get(placement, placement)
            axes.append((n0 + e) * Anchored((n0 + e,), (placement,)).weights(n))
        if all(bool((w == 1).all()) for w in axes):
            return None
        w = axes[0]
        for more in axes[1:]:
            w = (w[:, None] * more).flatten()
        dtype = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
        return w.repeat(form.fold).to(like.device, dtype)


@dataclass
class WeightedStep(Step):
    """A call on the new grid whose sums are to be taken under the training grid's measure."""

    nodes: CountedNodes

    def counts(self, t: Tensor, dims: Any) -> Tensor:
        """Counts of t's samples along ``dims``, broadcast against t."""
        forms = self.forms(t)
        total = torch.ones((), device=t.device, dtype=torch.float64 if t.dtype == torch.float64 else torch.float32)
        for d in dims:
            if forms[d].on_grid and t.shape[d] == self.nodes.size(forms[d]):
                w = self.nodes.counts(forms[d], t)
                if w is not None:
                    total = total * w.reshape([-1 if k == d else 1 for k in range(t.ndim)])
        return total

    def native_count(self, t: Tensor, dims: Any) -> int:
        """Elements of t along ``dims`` on the training grid."""
        forms = self.forms(t)
        return int(np.prod([f.size(self.nodes.native) if f.on_grid else t.shape[d] for d in dims for f in [forms[d]]]))
