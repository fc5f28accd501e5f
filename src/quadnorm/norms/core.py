"""The one entrance to the weighted core: traces and forward-mode AD see the formula, everything else the kernels."""

import torch
from torch import Tensor

from quadnorm.norms import formula


def normalize(
    x: Tensor,
    w: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    centre: bool = True,
) -> Tensor:
    """γ·(x − μ)·rstd + β for x (B, C, *spatial) and weights w (1 or B, N) that sum to 1; ``centre=False`` leaves μ out."""
    dtype = formula.statistics_dtype(x)
    weight = weight if weight is None or weight.dtype == dtype else weight.to(dtype)
    bias = bias if bias is None or bias.dtype == dtype else bias.to(dtype)
    return formula.forward(x, w, weight, bias, groups, eps, centre)
