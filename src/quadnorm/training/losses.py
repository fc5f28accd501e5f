"""Relative L² errors, one per sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from quadnorm.measures import Grid
from quadnorm.measures.placement import Placements, rules_of
from quadnorm.problems.points import POINTS, volumes


def relative_l2(
    prediction: Tensor,
    truth: Tensor,
    weights: Tensor | None = None,
    over_space: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """‖p − u‖ / ‖u‖ for each sample, where ‖v‖² = Σ_c Σ_i w_i |v_ci|².

    ``prediction`` and ``truth`` are (B, C, *spatial); ``weights`` are (*spatial), or (B, 1, *spatial) if each sample
    has its own, or None for equal weights; returns (B,). The scale of the weights does not matter. ``over_space`` adds
    up the sums of squares of ranks that hold parts of the same fields.

    >>> u = torch.tensor([[[3.0, 4.0]]])
    >>> relative_l2(torch.zeros_like(u), u), relative_l2(u + torch.tensor([5.0, 0.0]), u)
    (tensor([1.]), tensor([1.]))
    """
    if prediction.shape != truth.shape:
        raise ValueError(
            f"the prediction has shape {tuple(prediction.shape)}, the truth {tuple(truth.shape)}; they must agree"
        )
    if over_space is None:
        prediction, truth = _in_range(prediction, truth)
    error = prediction - truth
    if weights is not None:
        root = weights.sqrt()
        error, truth = error * root, truth * root
    if over_space is not None:
        squares = torch.stack([f.flatten(1).square().sum(1) for f in (error, truth)])
        error_square, square = over_space(squares).unbind()
        there = error_square > 0  # a square root has no derivative at 0
        return torch.where(there, torch.where(there, error_square, 1.0).sqrt(), 0.0).div(square.sqrt())
    # vector_norm has gradient 0 where the error is exactly 0, a plain square root has NaN there. If the truth is zero
    # everywhere there is no relative error: the ratio is infinite or NaN, not a silent zero.
    ratio: Tensor = torch.linalg.vector_norm(error.flatten(1), dim=1) / torch.linalg.vector_norm(
        truth.flatten(1), dim=1
    )
    return ratio


def mean_square(
    prediction: Tensor, truth: Tensor, scale: Tensor, over_space: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Mean of ((p − u) / σ_c)² over channels and space for each sample, (B,); ``scale`` σ is (C,).

    >>> mean_square(torch.tensor([[[3.0, 0.0]]]), torch.tensor([[[1.0, 0.0]]]), torch.tensor([2.0]))
    tensor([0.5000])
    """
    error = (prediction - truth) / scale.reshape(-1, *[1] * (truth.ndim - 2))
    squares = error.flatten(1).square().sum(1)
    count = torch.full_like(squares, error[0].numel())
    if over_space is not None:
        squares, count = over_space(torch.stack([squares, count])).unbind()
    return squares / count


def _in_range(prediction: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Both times the same power of 2 for each sample, where squares of the truth would leave the number format's range.

    Elsewhere times 1: no bit changes.
    """
    if truth.numel() == 0:
        return prediction, truth
    largest = truth.detach().abs().flatten(1).amax(1)
    info = torch.finfo(truth.dtype)
    far = ((largest < info.tiny**0.4) | (largest > info.max**0.4)) & (largest > 0) & largest.isfinite()
    scale = torch.where(far, torch.exp2(-torch.where(far, largest, 1.0).log2().round()), 1.0)
    scale = scale.reshape(-1, *[1] * (truth.ndim - 1)).to(truth.dtype)
    return prediction * scale, truth * scale


def weights_of(x: Tensor, grid: Tensor | None) -> Tensor:
    """Quadrature weights for the errors on inputs x: the grid's, or for points the control volumes in channel 0 of x.

    >>> weights_of(torch.tensor([[[0.25, 0.75], [0.0, 1.0]]]), None)
    tensor([[[0.2500, 0.7500]]])
    """
    return volumes(x).unsqueeze(1) if grid is None else grid


def grid_weights(placement: Placements, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor | None:
    """Like :func:`placement_weights`; None for points, whose weights are part of each input."""
    return None if placement == POINTS else placement_weights(placement, shape, dtype)


def placement_weights(placement: Placements, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """Quadrature weights on [0, 1]^d for the nodes of a placement; they sum to 1.

    >>> placement_weights("endpoint", (3,))
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    >>> placement_weights("interior", (3,))
    tensor([0.3750, 0.2500, 0.3750], dtype=torch.float64)
    """
    return Grid(rules_of(placement)).weights(shape, dtype=dtype)
