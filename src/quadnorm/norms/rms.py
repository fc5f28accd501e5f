"""QuadRMSNorm: scaling without centring."""

from __future__ import annotations

from typing import Any

from quadnorm.norms.quad import QuadNorm


class QuadRMSNorm(QuadNorm):
    r"""Root-mean-square scaling under a measure, without centring and without β.

    .. math:: y = \gamma_c\,x \big/ \sqrt{\tfrac1D\textstyle\sum_{c,i} w_i\,x_{ci}^2 + \varepsilon}

    The default ``mode="instance"`` scales every channel by its own spatial RMS, as the paper's RMSNorm does. Arguments
    as for :class:`QuadNorm`.

    >>> import torch
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
        **options: Any,
    ) -> None:
        super().__init__(num_features, eps, affine, mode, num_groups, measure=measure, **options)
