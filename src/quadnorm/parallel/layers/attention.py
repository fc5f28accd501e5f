"""Galerkin and slice attention on shards: their small matrices in one all-reduce each way."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.operators.domain import counting, training_count
from quadnorm.operators.galerkin import GalerkinAttention
from quadnorm.operators.transolver import SliceAttention
from quadnorm.parallel import given, measure
from quadnorm.parallel.collectives import spread, total
from quadnorm.parallel.split import Split


class GalerkinAttentionOnShards(GalerkinAttention):
    """G = Σ_r (rank r's KᵀV), B·h·(d + dim)² numbers each way."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def moments(self, x: Tensor, places: Tensor, weights: Tensor | None, *rest: Any, **more: Any) -> Tensor:
        """G of the whole field, on every rank."""
        G = total(super().moments(x, places, weights, *rest, **more), self._split.group)
        return spread(G, group=self._split.group)[0]

    def forward(
        self,
        x: Tensor,
        places: Tensor,
        weights: Tensor | None = None,
        residual: bool = False,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:
        """y, or x + y, at this rank's samples."""
        part = self._split.resolve(shape or (x.shape[2],))
        if weights is None:
            weights = measure.local_weights(self._measure, part, x.device, sum_dtype(x)).reshape(1, -1)
        return super().forward(x, places, weights, residual, None)


class SliceAttentionOnShards(SliceAttention):
    """Σ w s x and Σ w s of all ranks: B·G·(C + 1) numbers forward, B·G·C backward."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = tuple(
        f"{m}.{p}" for m in ("query", "key", "value", "out") for p in ("weight", "bias")
    )

    def tokens(self, x: Tensor, s: Tensor, weights: Tensor | None, ndim: int) -> Tensor:
        """T of the whole field, on every rank."""
        assert weights is not None
        split = self._split
        count: Tensor | float
        known = split.memo.get(id(weights))
        if not counting(self._measure):
            count = float(training_count(self._measure, ndim) or 1000)
        elif known is not None and known[0] is weights:
            count = known[1][:, 1].sum(0).to(sum_dtype(x)).view(-1, 1, 1)
        else:
            count = float(self._count)
        exact = sum_dtype(x)
        ws = s.to(exact) * weights.to(exact).unsqueeze(1)
        local = torch.cat([torch.bmm(x.to(exact), ws.transpose(1, 2)).transpose(1, 2), ws.sum(2, keepdim=True)], 2)
        whole = total(local, split.group)
        return (whole[..., :-1] / (whole[..., -1:] + 1e-5 / count)).to(x.dtype)

    def attend(self, t: Tensor) -> Tensor:
        """Multi-head attention among the slices, the same on every rank."""
        return spread(super().attend(t), group=self._split.group)[0]

    def forward(
        self,
        x: Tensor,
        weights: Tensor | None = None,
        onto: Tensor | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:
        """Y + onto at this rank's samples."""
        part = self._split.resolve(shape or (x.shape[2],))
        self._count = part.count
        if weights is None:
            weights = measure.local_weights(self._measure, part, x.device, sum_dtype(x)).reshape(1, -1)
        elif counting(self._measure):
            given.shares(weights, self._split)
        return super().forward(x, weights, onto, shape)
