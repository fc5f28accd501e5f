"""Norms on shards: the same layers, their statistics taken over all ranks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from quadnorm._precision import sum_dtype
from quadnorm.measures import Blend, Grid, Measure, Separable
from quadnorm.norms import QuadNorm
from quadnorm.norms.baselines.bands import RIBandNorm, SpectralNorm
from quadnorm.norms.baselines.learned import LearnableQuad, ResConditioned, conditioned
from quadnorm.norms.baselines.uniform import CountingNorm
from quadnorm.norms.kernels.inputs import without_fill_values
from quadnorm.norms.layout import from_channels_first, to_channels_first
from quadnorm.parallel import given, measure
from quadnorm.parallel.layers.formula import Options
from quadnorm.parallel.layers.statistics import normalize
from quadnorm.parallel.split import Part, Split

COUNTING = Grid("counting")


class NormOnShards(QuadNorm):
    """:class:`QuadNorm` and its subclasses, on one rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ("weight", "bias")  # parameters whose gradients come out summed

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Normalize this rank's samples; ``weights`` and ``mask`` are this rank's too."""
        shape, layout = x.shape, self.layout
        if isinstance(layout, tuple):  # tokens in a row: the layout is the whole grid's
            layout = self._split.part_of(layout).local
        if layout != "first" and x.numel() == 0:
            y = x.movedim(-1, 1).reshape(
                x.shape[0], x.shape[-1], *(layout if isinstance(layout, tuple) else x.shape[1:-1])
            )
        else:
            y = to_channels_first(x, layout)
        part = self._split.resolve(y.shape[2:])
        self._check(y)
        w, masses, holes = self._weights_here(y, part, weights, mask)
        if holes:
            y = without_fill_values(y, w)
        options = Options(self.groups, self.eps, self.centre, masses, self._split.group)
        y = normalize(y, w, self.weight, self.bias, options)
        return y if layout == "first" else from_channels_first(y, shape, layout)

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise TypeError(f"expected a real floating-point tensor, got {x.dtype}")
        if x.ndim < 3 or x.shape[1] != self.num_features:
            raise ValueError(f"the layer has {self.num_features} channels, got an input of shape {tuple(x.shape)}")

    def _weights_here(self, x: Tensor, part: Part, weights: Any, mask: Any) -> tuple[Tensor, Tensor, bool]:
        """Weights (1 or B, N), every rank's mass (P, 1 or B), and whether a sample may be absent."""
        dtype, m = sum_dtype(x), self._measure
        if weights is None and mask is None:
            return self._of_measure(x, part, dtype)
        _, base = m.counting_part()
        raw = self._raw(base, x, part, weights)
        if mask is not None:
            raw = given.masked(raw, given.flattened(mask, x, part.local, self._split, "the mask"), self._split)
        here = given.normalised(raw, self._counting_share(), self._split, dtype)
        return here.weights, here.masses, True

    def _raw(self, base: Measure, x: Tensor, part: Part, weights: Any) -> Tensor:
        if weights is None:
            return measure.local_weights(base, part, x.device, sum_dtype(x)).reshape(1, -1)
        return given.flattened(weights, x, part.local, self._split)

    def _counting_share(self) -> float | Tensor:
        """α, the share of counting when weights are given."""
        if isinstance(self, CountingNorm):
            return 1.0
        share, rest = self._measure.counting_part()
        logit: nn.Parameter | None = self._parameters.get("alpha_logit")
        return share if rest is self._measure or logit is None else logit.sigmoid()

    def _of_measure(self, x: Tensor, part: Part, dtype: torch.dtype) -> tuple[Tensor, Tensor, bool]:
        m, logit = self._measure, self._parameters.get("alpha_logit")
        masses = measure.masses(self.measure, part)[:, None]
        if logit is not None and isinstance(m, Blend):
            q = measure.local_weights(m.quadrature, part, x.device, dtype).reshape(1, -1)
            alpha = logit.sigmoid().to(dtype)
            counted: Tensor | float = 1 / part.count
            if m.counting is not None:
                counted = measure.local_weights(m.counting, part, x.device, dtype).reshape(1, -1)
            return alpha * counted + (1 - alpha) * q, masses, False
        w = measure.local_weights(m, part, x.device, dtype).reshape(1, -1)
        return w, masses, _may_leave_out(m)


def _may_leave_out(m: Measure) -> bool:
    """Whether a measure may give a sample the weight 0; rules on grids do not."""
    return not isinstance(m.counting_part()[1], Separable)


class LearnableQuadOnShards(NormOnShards):
    """:class:`LearnableQuad`: every rank takes the density along the whole axes, and its own slice of it."""

    density: Any

    def _factors(self, shape: tuple[int, ...], device: torch.device) -> list[Tensor]:
        factors = []
        for n in shape:
            ends = (0.0, 1.0) if n > 1 else (0.5, 0.5)
            r = torch.linspace(*ends, n, dtype=torch.float64, device="cpu")
            factors.append(self.density(r).to(device=device, dtype=torch.float64))
        return factors

    def _of_measure(self, x: Tensor, part: Part, dtype: torch.dtype) -> tuple[Tensor, Tensor, bool]:
        if not isinstance(self._measure, Separable):
            raise TypeError(f"LearnableQuad needs a measure on a grid, got {self._measure!r}")
        rules = self._measure.factors(part.shape, x.device)
        whole = [q * rho for q, rho in zip(rules, self._factors(part.shape, x.device), strict=True)]
        whole = [f / f.sum() for f in whole]
        w = measure.outer([f[a:b] for f, (a, b) in zip(whole, part.mine, strict=True)])
        return w.reshape(1, -1).to(dtype), measure.factor_masses(whole, part)[:, None], False

    def _raw(self, base: Measure, x: Tensor, part: Part, weights: Any) -> Tensor:
        raw = super()._raw(base, x, part, weights)
        rho = [f[a:b] for f, (a, b) in zip(self._factors(part.shape, x.device), part.mine, strict=True)]
        return raw * measure.outer(rho).reshape(1, -1)


class ResConditionedOnShards(NormOnShards):
    """:class:`ResConditioned`: told the resolution of the whole."""

    condition: nn.Sequential

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Normalize, then scale and shift by what the whole grid's resolution says."""
        y = super().forward(x, weights, mask)
        first = self.layout == "first"
        if isinstance(self.layout, tuple):
            spatial = self.layout
        else:
            spatial = self._split.resolve(x.shape[2:] if first else x.shape[1:-1]).shape
        return conditioned(self.condition, y, spatial, first)


class TorchNormOnShards(nn.Module):
    """``nn.GroupNorm`` and ``nn.InstanceNorm``, also anchored ones: under their ``measure``, by default counting."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ("weight", "bias")
    weight: nn.Parameter | None
    bias: nn.Parameter | None
    eps: float

    def forward(self, x: Tensor) -> Tensor:
        """Normalize this rank's samples, (B, C, *local)."""
        m: Measure = getattr(self, "measure", COUNTING)
        part = self._split.resolve(x.shape[2:])
        w = measure.local_weights(m, part, x.device, sum_dtype(x)).reshape(1, -1)
        groups = int(getattr(self, "num_groups", x.shape[1]))
        options = Options(groups, self.eps, True, measure.masses(m, part)[:, None], self._split.group)
        return normalize(x, w, self.weight, self.bias, options)


NORMS: dict[type[nn.Module], type[nn.Module] | str] = {
    SpectralNorm: "it whitens all modes of the whole field, which no rank holds",
    RIBandNorm: "it filters the whole field into bands, which no rank holds",
    LearnableQuad: LearnableQuadOnShards,
    ResConditioned: ResConditionedOnShards,
    QuadNorm: NormOnShards,
    nn.GroupNorm: TorchNormOnShards,
    nn.InstanceNorm1d: TorchNormOnShards,
    nn.InstanceNorm2d: TorchNormOnShards,
    nn.InstanceNorm3d: TorchNormOnShards,
}
