"""The blend of a counting and a quadrature measure, anchored."""

from __future__ import annotations

from collections.abc import Hashable

from torch import Tensor

from quadnorm.measures import Anchored, Measure
from quadnorm.measures.base import Shape


class Mixture(Measure):
    """α·μ + (1−α)·ν of two measures: a blend whose counting part stands for the training grid.

    >>> from quadnorm import Anchored, Blend, Grid
    >>> mixed = Mixture(0.5, Anchored(3), Grid("trapezoid"))
    >>> mixed.weights(3) - Blend(0.5, Grid("trapezoid")).weights(3)  # at 3 samples it is the blend
    tensor([0., 0., 0.], dtype=torch.float64)
    """

    alpha: float
    counting: Anchored
    quadrature: Measure

    def __init__(self, alpha: float, counting: Anchored, quadrature: Measure) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be a number from 0 to 1, got {alpha!r}")
        self._set(alpha=float(alpha), counting=counting, quadrature=quadrature)

    def _build(self, shape: Shape) -> Tensor:
        return self.alpha * self.counting._build(shape) + (1 - self.alpha) * self.quadrature._build(shape)

    @property
    def total(self) -> float:
        return self.quadrature.total

    @property
    def shape(self) -> Shape | None:
        return self.counting.shape or self.quadrature.shape

    @property
    def ndim(self) -> int | None:
        return self.counting.ndim if self.counting.ndim is not None else self.quadrature.ndim

    def describe(self) -> str:
        return f"{self.alpha:g}·({self.counting.describe()}) + {1 - self.alpha:g}·({self.quadrature.describe()})"

    def _key(self) -> Hashable:
        return self.alpha, self.counting, self.quadrature

    def __repr__(self) -> str:
        return f"Mixture({self.alpha:g}, {self.counting!r}, {self.quadrature!r})"
