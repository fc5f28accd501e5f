"""Norms with something to learn beyond γ and β: the paper's learnable baselines.

The paper names ResConditioned and LearnableQuad without defining them; the definitions here are ours, chosen from the
names and from how they behave in its table. The learned blend is :class:`quadnorm.BlendQuadNorm` with
``learn_alpha=True``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.measures import Separable
from quadnorm.measures.base import Shape
from quadnorm.norms.baselines.uniform import LayerNorm
from quadnorm.norms.quad import PROXY, QuadNorm, leaf_call
from quadnorm.norms.weights import measure_weights


class ResConditioned(LayerNorm):
    r"""LayerNorm whose affine map depends on the resolution.

    .. math:: y = (1 + s_c(\bar n))\,LN(x)_c + t_c(\bar n), \qquad (s, t) = \mathrm{MLP}(\log_2 \bar n / 8)

    n̄ is the geometric mean of the samples per axis, LN the LayerNorm over (C, \*spatial) with its own γ and β. The MLP
    has one hidden layer of ``hidden`` units (tanh) and starts at s = t = 0. Training at one resolution teaches it
    nothing about another.

    >>> x = torch.randn(2, 4, 8, 8)
    >>> torch.equal(ResConditioned(4)(x), LayerNorm(4)(x))
    True
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = True, *, hidden: int = 16, **options: Any
    ) -> None:
        super().__init__(num_features, eps, affine, **options)
        place = {k: options[k] for k in ("device", "dtype") if k in options}
        last = nn.Linear(hidden, 2 * num_features, **place)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.condition = nn.Sequential(nn.Linear(1, hidden, **place), nn.Tanh(), last)

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Normalize, then scale and shift as the resolution asks."""
        if isinstance(x, PROXY):
            return leaf_call(self, x, weights=weights, mask=mask)
        y = super().forward(x, weights, mask)
        first = self.layout == "first"
        spatial = self.layout if isinstance(self.layout, tuple) else (x.shape[2:] if first else x.shape[1:-1])
        return conditioned(self.condition, y, spatial, first)


def conditioned(condition: nn.Sequential, y: Tensor, spatial: Shape, first: bool) -> Tensor:
    """(1 + s) y + t, with s and t from the resolution; channels are the ``first`` axis after the batch, or the last."""
    like: Tensor = condition[0].weight  # type: ignore[assignment]
    size = torch.zeros(1, dtype=like.dtype, device=like.device)
    for n in spatial:
        size = size + torch.log2(torch.full_like(size, n)) / (8 * len(spatial))
    s, t = condition(size).to(y.dtype).chunk(2)
    if first:
        s, t = (v.reshape(-1, *[1] * (y.ndim - 2)) for v in (s, t))
    return torch.addcmul(y + t, s, y)


class LearnableQuad(QuadNorm):
    r"""Layer-mode QuadNorm whose measure has a learned density.

    .. math:: w_i \propto q_i \prod_k \rho(r_{ik}), \qquad \rho = e^{\theta(r)}

    q are the quadrature weights of ``measure`` and θ is piecewise linear on [0, 1] between ``knots`` learned values,
    the same on every axis, starting at 0, where the layer is QuadNorm. The density is a function of position, not of
    the index, so the layer serves every resolution. Weights given at call time take q's place; ρ is still evaluated at
    the positions of an endpoint-inclusive grid with that many samples per axis.

    >>> x = torch.randn(2, 4, 8, 8)
    >>> torch.allclose(LearnableQuad(4)(x), QuadNorm(4)(x), atol=1e-6)
    True
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = True, *, knots: int = 16, **options: Any
    ) -> None:
        super().__init__(num_features, eps, affine, **options)
        if knots < 2:
            raise ValueError(f"a piecewise linear density needs 2 knots or more, got {knots}")
        self.theta = nn.Parameter(torch.zeros(knots, device=options.get("device"), dtype=options.get("dtype")))

    def density(self, r: Tensor) -> Tensor:
        """ρ at positions r in [0, 1]."""
        at = r.to(self.theta.device) * (self.theta.numel() - 1)
        left = at.detach().floor().clamp(0, self.theta.numel() - 2).long()
        return torch.exp(torch.lerp(self.theta[left], self.theta[left + 1], (at - left).to(self.theta.dtype)))

    def _with_density(self, w: Tensor, spatial: Shape) -> Tensor:
        grid = w.reshape(-1, *spatial)
        for k, n in enumerate(spatial):
            step = torch.arange(n, dtype=torch.float64, device=w.device)
            r = step / (n - 1) if n > 1 else step + 0.5
            grid = grid * self.density(r).to(w).reshape(-1, *[1] * (len(spatial) - 1 - k))
        flat = grid.reshape(w.shape)
        return flat / flat.sum(1, keepdim=True)

    @property
    def _learns(self) -> bool:
        return True

    def _counts(self, spatial: Shape) -> bool:
        return False

    def _weights(self, x: Tensor, spatial: Shape) -> Tensor:
        if not isinstance(self._measure, Separable):
            raise TypeError(f"LearnableQuad needs a measure on a grid, got {self._measure!r}")
        return self._with_density(measure_weights(self._measure, x, spatial), spatial)

    def _given(self, w: Tensor, spatial: Shape) -> Tensor:
        return self._with_density(w, spatial)
