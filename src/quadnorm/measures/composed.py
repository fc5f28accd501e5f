"""Measures given by their weights, and measures made from others: blends, masks, crops, subsamples."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from quadnorm.measures.base import Measure, Shape
from quadnorm.measures.grid import Separable


class Weights(Measure):
    """Explicit weights of one fixed discretization: cell volumes, control volumes, or any weights of one's own.

    ``weights`` has the samples' shape, is nonnegative and has a positive sum, which is :attr:`total`; zero means that
    the sample is not there.

    >>> import torch
    >>> Weights(torch.tensor([1.0, 2.0, 1.0])).weights(3)
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """

    _values: Tensor
    _total: float
    _digest: str

    def __init__(self, weights: Any, *, total: float | None = None) -> None:
        w = torch.as_tensor(weights, dtype=torch.float64, device="cpu").detach().clone().contiguous()
        if w.ndim == 0 or w.numel() == 0:
            raise ValueError(f"weights must hold one number per sample, got shape {tuple(w.shape)}")
        if not torch.isfinite(w).all():
            raise ValueError(
                "weights hold NaN or infinite values; expected finite numbers, zero where a sample is absent"
            )
        if (w < 0).any():
            raise ValueError(
                f"weights must not be negative, got {w.min().item():g}; a negative weight can make a variance negative"
            )
        scale = w.sum().item()
        if scale <= 0:
            raise ValueError("all weights are zero: there is nothing to average over")
        if scale == float("inf"):
            raise ValueError(
                f"the sum of the weights is beyond float64 (the largest is {w.max().item():g}); divide them by it first"
            )
        digest = hashlib.blake2b(w.numpy().tobytes(), digest_size=16).hexdigest()
        self._set(_values=w / scale, _total=scale if total is None else float(total), _digest=digest)

    def _build(self, shape: Shape) -> Tensor:
        return self._values

    @property
    def total(self) -> float:
        return self._total

    @property
    def shape(self) -> Shape | None:
        return tuple(self._values.shape)

    def describe(self) -> str:
        return f"explicit weights of {self._values.numel()} samples, shape {self.shape}, total {self.total:g}"

    def _key(self) -> Hashable:
        return self.shape, self._total, self._digest

    def __repr__(self) -> str:
        return f"Weights(<shape {self.shape}, total {self.total:g}>)"


class Blend(Measure):
    """α·counting + (1−α)·quadrature: the measure of BlendQuadNorm.

    Its mean and variance are exactly the blended ones of the paper (eq:blend-mu, eq:blend-var), by the law of total
    variance. Samples that the quadrature leaves out (a mask, weights of 0) are not counted either.

    Args:
        alpha: share of counting, in [0, 1].
        quadrature: the other part.
        counting: what stands for counting; default: the samples at hand, each alike. ``Anchored(33)`` keeps counting
            that of a training grid of 33 samples, at every resolution.

    >>> from quadnorm import Anchored, Grid
    >>> Blend(0.5, Grid("trapezoid")).weights(3)
    tensor([0.2917, 0.4167, 0.2917], dtype=torch.float64)
    >>> Blend(0.5, Grid("trapezoid"), Anchored(3)).weights(5)  # 1/6 at each end are the training grid's
    tensor([0.1875, 0.2083, 0.2083, 0.2083, 0.1875], dtype=torch.float64)
    """

    alpha: float
    quadrature: Measure
    counting: Measure | None

    def __init__(self, alpha: float, quadrature: Measure, counting: Measure | None = None) -> None:
        if not isinstance(quadrature, Measure):
            raise TypeError(f"Blend needs a measure to blend with, such as Grid('trapezoid'), got {quadrature!r}")
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be a number from 0 (pure quadrature) to 1 (pure counting), got {alpha!r}")
        if counting is not None and not isinstance(counting, Measure):
            raise TypeError(f"counting must be a measure, such as Anchored((33, 33)), or None, got {counting!r}")
        self._set(alpha=float(alpha), quadrature=quadrature, counting=counting)

    def _build(self, shape: Shape) -> Tensor:
        q = self.quadrature._build(shape)
        if self.counting is not None:
            return self.alpha * self.counting._build(shape) + (1 - self.alpha) * q
        if isinstance(self.quadrature, Separable):  # every sample of a grid is there
            return self.alpha / q.numel() + (1 - self.alpha) * q
        present = (q > 0).to(q.dtype)
        return self.alpha * present / present.sum() + (1 - self.alpha) * q

    @property
    def total(self) -> float:
        return self.quadrature.total

    @property
    def shape(self) -> Shape | None:
        return self.quadrature.shape if self.counting is None else self.counting.shape or self.quadrature.shape

    @property
    def ndim(self) -> int | None:
        own = None if self.counting is None else self.counting.ndim
        return self.quadrature.ndim if own is None else own

    def counting_part(self) -> tuple[float, Measure]:
        return (self.alpha, self.quadrature) if self.counting is None else (0.0, self)

    def describe(self) -> str:
        counting = "counting" if self.counting is None else f"({self.counting.describe()})"
        return f"{self.alpha:g}·{counting} + {1 - self.alpha:g}·({self.quadrature.describe()})"

    def _key(self) -> Hashable:
        return self.alpha, self.quadrature, self.counting

    def __repr__(self) -> str:
        counting = "" if self.counting is None else f", {self.counting!r}"
        return f"Blend({self.alpha:g}, {self.quadrature!r}{counting})"


class Masked(Measure):
    """A measure restricted to the samples where a mask is True; made by :meth:`Measure.masked`."""

    base: Measure
    mask: Tensor
    _values: Tensor
    _share: float
    _digest: str

    def __init__(self, base: Measure, mask: Tensor) -> None:
        present = torch.as_tensor(mask, device="cpu")
        if present.dtype != torch.bool:
            raise TypeError(
                f"the mask must be boolean (True = the sample is there), got {present.dtype}; use mask.bool()"
            )
        present = present.detach().clone()
        base._checked(tuple(present.shape))  # a mask of the wrong shape is told so by the measure it restricts
        w = base.shared_weights(tuple(present.shape)) * present
        share = w.sum().item()
        if share <= 0:
            raise ValueError(
                f"the mask keeps {int(present.sum())} of {present.numel()} samples and none of the measure; "
                f"nothing is left to average over"
            )
        digest = hashlib.blake2b(present.numpy().tobytes(), digest_size=16).hexdigest()
        self._set(base=base, mask=present, _values=w / share, _share=share, _digest=digest)

    def _build(self, shape: Shape) -> Tensor:
        return self._values

    @property
    def total(self) -> float:
        """Volume of what the mask keeps."""
        return self.base.total * self._share

    @property
    def shape(self) -> Shape | None:
        return tuple(self.mask.shape)

    def describe(self) -> str:
        kept = f"{int(self.mask.sum())} of {self.mask.numel()} samples"
        return f"{kept} ({self._share:.1%} of the measure) of {self.base.describe()}"

    def _key(self) -> Hashable:
        return self.base, self.shape, self._digest

    def __repr__(self) -> str:
        return f"{self.base!r}.masked(<{int(self.mask.sum())} of {self.mask.numel()}>)"


def subsample(
    measure: Measure, index: Tensor, probability: Tensor | None, shape: int | Sequence[int] | None
) -> Weights:
    """See :meth:`Measure.subsample`."""
    full = measure.shape if shape is None else measure._checked(shape)
    if full is None:
        raise ValueError(
            f"{measure!r} serves every resolution, so it cannot know the full grid; "
            f"pass shape=, the shape before subsampling"
        )
    w = measure.shared_weights(full).reshape(-1)
    index = torch.as_tensor(index, device="cpu")
    if index.ndim != 1 or index.numel() == 0 or index.dtype.is_floating_point or index.dtype == torch.bool:
        raise ValueError(
            f"index must be a nonempty 1-D tensor of flat sample indices, got shape {tuple(index.shape)} and "
            f"{index.dtype}; for a boolean mask use masked(), or mask.flatten().nonzero()[:, 0]"
        )
    index = index.long()
    if int(index.min()) < 0 or int(index.max()) >= w.numel():
        raise ValueError(f"index spans [{int(index.min())}, {int(index.max())}], but there are {w.numel()} samples")
    picked = w[index]
    if probability is not None:
        p = torch.as_tensor(probability, dtype=torch.float64, device="cpu").detach()
        if p.numel() != w.numel():
            raise ValueError(f"probability has {p.numel()} entries, expected one for each of the {w.numel()} samples")
        p = p.reshape(-1)[index]
        if not (torch.isfinite(p) & (p > 0)).all():
            raise ValueError(
                "a drawn sample has an inclusion probability that is not a positive number; it could not be drawn"
            )
        picked = picked / p
    return Weights(picked, total=measure.total)
