"""The norms the paper compares with, under the calling convention of :class:`quadnorm.QuadNorm`.

All take (B, C, *spatial) and accept ``weights=`` and ``mask=``. Those that average over space count samples: of given
weights they use only which samples are there (w > 0). They are the same core with the counting measure, so that
anchoring can set their ``measure`` too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import sum_dtype
from quadnorm.measures.base import Shape
from quadnorm.norms.layout import Layout, checked_layout, from_channels_first, to_channels_first
from quadnorm.norms.quad import PROXY, QuadNorm, leaf_call
from quadnorm.norms.weights import blended


class NoNorm(nn.Module):
    """The identity, y = x; takes and ignores what a norm takes.

    >>> NoNorm(4)(torch.ones(1, 4, 2), weights=torch.ones(2)).sum().item()
    8.0
    """

    def __init__(self, num_features: int | None = None, **ignored: Any) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Return x itself."""
        return x


class CountingNorm(QuadNorm):
    """:class:`QuadNorm` with the counting measure: every sample that is there counts the same, whatever its weight."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        mode: str = "layer",
        num_groups: int = 1,
        *,
        measure: Any = "counting",
        **options: Any,
    ) -> None:
        super().__init__(num_features, eps, affine, mode, num_groups, measure=measure, **options)

    def _given(self, w: Tensor, spatial: Shape) -> Tensor:
        return blended(w, 1.0)


class LayerNorm(CountingNorm):
    """LayerNorm over (C, *spatial) with one γ and β per channel, constant in space: the paper's LayerNorm.

    >>> x = torch.randn(2, 4, 5, 5)
    >>> torch.allclose(LayerNorm(4)(x), torch.nn.functional.layer_norm(x, (4, 5, 5)), atol=1e-6)
    True
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True, **options: Any) -> None:
        super().__init__(num_features, eps, affine, "layer", **options)


class InstanceNorm(CountingNorm):
    """InstanceNorm: each channel by its own spatial mean and variance.

    >>> x = torch.randn(2, 4, 5, 5)
    >>> torch.allclose(InstanceNorm(4)(x), torch.nn.functional.instance_norm(x), atol=1e-6)
    True
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True, **options: Any) -> None:
        super().__init__(num_features, eps, affine, "instance", **options)


class GroupNorm(CountingNorm):
    """GroupNorm with ``num_groups`` groups of channels, eight as in the paper.

    >>> x = torch.randn(2, 16, 5, 5)
    >>> torch.allclose(GroupNorm(16)(x), torch.nn.functional.group_norm(x, 8), atol=1e-6)
    True
    """

    def __init__(
        self, num_features: int, num_groups: int = 8, eps: float = 1e-5, affine: bool = True, **options: Any
    ) -> None:
        super().__init__(num_features, eps, affine, "group", num_groups, **options)


class RMSNorm(CountingNorm):
    """Each channel divided by its spatial root mean square; no centring, no β.

    >>> RMSNorm(1, affine=False, eps=0.0)(torch.tensor([[[3.0, -4.0, 5.0, 0.0]]]))
    tensor([[[ 0.8485, -1.1314,  1.4142,  0.0000]]])
    """

    centre = False

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True, **options: Any) -> None:
        super().__init__(num_features, eps, affine, "instance", **options)


class TokenNorm(nn.Module):
    """Token-wise LayerNorm: each sample by the mean and variance of its own C channels.

    There is no average over space, so weights and masks do not matter.

    >>> x = torch.randn(2, 8, 5, 5)
    >>> y = TokenNorm(8)(x)
    >>> torch.allclose(y.movedim(1, -1), torch.nn.functional.layer_norm(x.movedim(1, -1), (8,)), atol=1e-6)
    True
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        layout: Layout = "first",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = float(eps)
        self.layout = checked_layout(layout)
        ones = torch.ones(num_features, device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(ones) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros_like(ones)) if affine else None)

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Normalize over the channels."""
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        shape = x.shape
        y = to_channels_first(x, self.layout).movedim(1, -1)
        if y.shape[-1] != self.num_features:
            raise ValueError(
                f"the layer has {self.num_features} channels, the input of shape {tuple(shape)} has {y.shape[-1]}"
            )
        dtype = sum_dtype(x)
        weight, bias = (None if p is None else p.to(dtype) for p in (self.weight, self.bias))
        y = nn.functional.layer_norm(y.to(dtype), (self.num_features,), weight, bias, self.eps).to(x.dtype)
        return from_channels_first(y.movedim(-1, 1), shape, self.layout)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"{self.num_features}, eps={self.eps:g}, affine={self.weight is not None}"
