"""BlendQuadNorm: part counting, part quadrature."""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.measures import Blend, Measure, Separable, as_measure
from quadnorm.measures.base import Shape
from quadnorm.norms.layout import Layout
from quadnorm.norms.quad import QuadNorm
from quadnorm.norms.weights import blended, measure_weights


class BlendQuadNorm(QuadNorm):
    r"""Layer-mode normalization under α·counting + (1−α)·quadrature.

    .. math:: \mu_b = \alpha\mu_{LN} + (1-\alpha)\mu_{WLN}, \qquad
        v_b = \alpha v_{LN} + (1-\alpha) v_{WLN} + \alpha(1-\alpha)(\mu_{LN} - \mu_{WLN})^2

    are the exact moments of the blended measure, so the blend is one more measure and needs no formula of its own.
    α = 1 is LayerNorm over (C, \*spatial), α = 0 is :class:`QuadNorm` in layer mode. Samples that the quadrature leaves
    out are not counted either.

    Args:
        alpha: share of counting, in [0, 1].
        measure: the quadrature that is blended with counting.
        learn_alpha: make α = sigmoid(``alpha_logit``) a parameter, starting from ``alpha``, which must then lie
            inside (0, 1).

    The attribute ``measure`` is the blend, ``Blend(alpha, quadrature)``; any other measure can be set instead.

    >>> layer = BlendQuadNorm(4, alpha=1.0)
    >>> x = torch.randn(2, 4, 9)
    >>> torch.allclose(layer(x), torch.nn.functional.layer_norm(x, (4, 9)), atol=1e-6)
    True
    """

    alpha_logit: nn.Parameter | None

    def __init__(
        self,
        num_features: int,
        alpha: float = 0.3,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        measure: Any = "trapezoid",
        learn_alpha: bool = False,
        layout: Layout = "first",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        blend = Blend(alpha, as_measure(measure))
        super().__init__(num_features, eps, affine, measure=blend, layout=layout, device=device, dtype=dtype)
        self.register_parameter("alpha_logit", None)
        if learn_alpha:
            if not 0 < alpha < 1:
                raise ValueError(f"a learned alpha starts strictly between 0 and 1, got {alpha!r}")
            start = log(alpha / (1 - alpha))
            self.alpha_logit = nn.Parameter(torch.tensor(start, device=device, dtype=dtype))

    @property
    def alpha(self) -> float:
        """The share of counting, also when it is learned."""
        blend = self.measure
        return blend.alpha if isinstance(blend, Blend) else 0.0

    @property
    def measure(self) -> Measure:
        """The blend as it stands."""
        m = self._measure
        logit = getattr(self, "alpha_logit", None)  # none yet while the base class is made
        if logit is None or not isinstance(m, Blend) or logit.is_meta:  # without numbers: the share it starts from
            return m
        return Blend(float(logit.detach().sigmoid()), m.quadrature, m.counting)

    @measure.setter
    def measure(self, value: Any) -> None:
        self._measure = as_measure(value)

    @property
    def _learns(self) -> bool:
        return self.alpha_logit is not None

    def _counts(self, spatial: Shape) -> bool:
        learned = self.alpha_logit is not None and isinstance(self._measure, Blend)
        return not learned and super()._counts(spatial)

    def _weights(self, x: Tensor, spatial: Shape) -> Tensor:
        m = self._measure
        if self.alpha_logit is None or not isinstance(m, Blend):
            return super()._weights(x, spatial)
        w = measure_weights(m.quadrature, x, spatial)
        alpha = self.alpha_logit.sigmoid().to(w.dtype)
        if m.counting is not None:
            return alpha * measure_weights(m.counting, x, spatial) + (1 - alpha) * w
        if isinstance(m.quadrature, Separable):  # every sample of a grid is there
            return alpha / w.shape[1] + (1 - alpha) * w
        return blended(w, alpha)

    def _given(self, w: Tensor, spatial: Shape) -> Tensor:
        m = self._measure
        if not isinstance(m, Blend) or m.counting is not None or self.alpha_logit is None:
            return super()._given(w, spatial)
        return blended(w, self.alpha_logit.sigmoid().to(w.dtype))
