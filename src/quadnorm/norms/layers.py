"""BlendQuadNorm, AnchoredNorm and QuadRMSNorm: QuadNorm with other measures, and without centring."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.measures import Anchored, Blend, Grid, Measure, as_measure
from quadnorm.norms.kernels.formula import statistics_dtype
from quadnorm.norms.layout import Layout
from quadnorm.norms.quad import MODES, QuadNorm
from quadnorm.norms.weights import blended

__all__ = ["MODES", "AnchoredNorm", "BlendQuadNorm", "QuadNorm", "QuadRMSNorm"]


class BlendQuadNorm(QuadNorm):
    r"""Layer-mode normalization under α·counting + (1−α)·quadrature.

    .. math:: \mu_b = \alpha\mu_{LN} + (1-\alpha)\mu_{WLN}, \qquad
        v_b = \alpha v_{LN} + (1-\alpha) v_{WLN} + \alpha(1-\alpha)(\mu_{LN} - \mu_{WLN})^2

    are the exact moments of the blended measure, so the blend is a measure and no second formula. α = 1 is LayerNorm
    over (C, \*spatial), α = 0 is :class:`QuadNorm` in layer mode.

    Args:
        alpha: share of counting, in [0, 1].
        measure: the quadrature that is blended with counting.
        learn_alpha: make α = sigmoid(``alpha_logit``) a parameter, starting from ``alpha``, which must then lie
            inside (0, 1).

    The attribute ``measure`` is the blend, ``Blend(alpha, quadrature)``. Setting it to a measure that is no blend takes
    that measure as it is.

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
        if self._parameters.get("alpha_logit") is None or not isinstance(m, Blend):
            return m
        assert self.alpha_logit is not None
        return Blend(float(self.alpha_logit.detach().sigmoid()), m.quadrature)

    @measure.setter
    def measure(self, value: Any) -> None:
        self._measure = as_measure(value)

    def _is_flat(self, spatial: tuple[int, ...], tracing: bool) -> bool:
        m = self._measure
        if isinstance(m, Blend) and self.alpha_logit is None:
            if m.alpha == 1:
                return True
            return isinstance(m.quadrature, Grid) and m.quadrature.flat(spatial)
        return super()._is_flat(spatial, tracing)

    @property
    def _learns(self) -> bool:
        return self.alpha_logit is not None

    def _measure_weights(self, spatial: tuple[int, ...], x: Tensor) -> Tensor:
        m = self._measure
        if self.alpha_logit is None or not isinstance(m, Blend):
            return super()._measure_weights(spatial, x)
        w = m.quadrature.shared_weights(spatial, x.device, statistics_dtype(x)).reshape(1, -1)
        alpha = self.alpha_logit.sigmoid().to(w.dtype)
        return alpha / w.shape[1] + (1 - alpha) * w

    def _given(self, w: Tensor, spatial: tuple[int, ...]) -> Tensor:
        m = self._measure
        if not isinstance(m, Blend):
            return w
        return blended(w, m.alpha if self.alpha_logit is None else self.alpha_logit.sigmoid().to(w.dtype))


class AnchoredNorm(QuadNorm):
    """Normalization under the counting measure of the training grid, at every resolution.

    On the training grid it is LayerNorm (InstanceNorm, GroupNorm) to the last bit; on any other grid it takes the same
    measure up to O(h²). See :class:`quadnorm.Anchored` for the measure and :class:`QuadNorm` for the arguments.

    Args:
        anchor: samples per axis of the training grid, a number or a tuple, or an :class:`quadnorm.Anchored` measure.

    >>> layer = AnchoredNorm(4, anchor=9)
    >>> x = torch.randn(2, 4, 9)
    >>> torch.equal(layer(x), torch.nn.functional.group_norm(x, 1, torch.ones(4), torch.zeros(4)))
    True
    """

    def __init__(
        self,
        num_features: int,
        anchor: int | Sequence[int] | Measure,
        eps: float = 1e-5,
        affine: bool = True,
        mode: str = "layer",
        num_groups: int = 1,
        *,
        layout: Layout = "first",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        measure = anchor if isinstance(anchor, Measure) and not isinstance(anchor, Grid) else Anchored(anchor)
        super().__init__(
            num_features, eps, affine, mode, num_groups, measure=measure, layout=layout, device=device, dtype=dtype
        )


class QuadRMSNorm(QuadNorm):
    r"""Root-mean-square scaling under a measure, without centring and without β.

    .. math:: y = \gamma_c\,x \big/ \sqrt{\tfrac1D\textstyle\sum_{c,i} w_i\,x_{ci}^2 + \varepsilon}

    The default ``mode="instance"`` scales every channel by its own spatial RMS, as the paper's RMSNorm does. Arguments
    as for :class:`QuadNorm`.

    >>> QuadRMSNorm(1, eps=0.0, affine=False)(torch.tensor([[[1.0, -2.0, 1.0]]]))  # mean square ¼ + ½·4 + ¼
    tensor([[[ 0.6325, -1.2649,  0.6325]]])
    """

    centre = False

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        mode: str = "instance",
        num_groups: int = 1,
        *,
        measure: Any = "trapezoid",
        layout: Layout = "first",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_features, eps, affine, mode, num_groups, measure=measure, layout=layout, device=device, dtype=dtype
        )
