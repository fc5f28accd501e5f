"""AnchoredNorm: the training grid's average, at every resolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from quadnorm.measures import Anchored, Grid, Measure
from quadnorm.norms.layout import Layout
from quadnorm.norms.quad import QuadNorm


class AnchoredNorm(QuadNorm):
    """Normalization under the counting measure of the training grid, at every resolution.

    On the training grid it is LayerNorm (InstanceNorm, GroupNorm), for contiguous float32 and float64 to the last bit;
    on any other grid it takes the same measure up to O(h²).
    See :class:`quadnorm.Anchored` for the measure and :class:`QuadNorm` for the arguments.

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
