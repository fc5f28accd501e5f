"""An axis of a training grid with samples padded to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quadnorm.measures.mass import Mass, hat_moments
from quadnorm.measures.placement import among, placement_of
from quadnorm.measures.rules import counting


@dataclass(frozen=True)
class PaddedAxis:
    """The counting measure of n₀ samples and the ``before`` and ``after`` padded to them, on grids padded alike.

    A field jumps where padding begins, between two training samples. So the samples and the padding on each side count
    for themselves: each gap inside has the mass of a sample, half of that more sits at both ends of each part, and what
    a finer grid has between the parts counts nothing. A grid of n samples has the padding's length in space, to the
    nearest sample, or with ``in_samples`` as many samples as in training, whatever length they have. Counting cell
    centres is the integral on every grid.
    """

    placement: str
    n0: int
    before: int
    after: int
    in_samples: bool = False

    lo, hi, size = 0.0, 1.0, None

    @property
    def native(self) -> int:
        """Training samples, padding included."""
        return self.n0 + self.before + self.after

    @property
    def _placement(self) -> str:
        return "left" if self.placement == "periodic" else self.placement

    def ratio(self, n: int) -> float:
        """New samples per training sample."""
        more = placement_of(self.placement).more
        return (n + more) / max(self.n0 + more, 1)

    def padding(self, n: int) -> tuple[int, int]:
        """Samples padded to a grid of n, before and after."""
        if self.in_samples:
            return self.before, self.after
        first, both = round(self.ratio(n) * self.before), round(self.ratio(n) * (self.before + self.after))
        return first, both - first

    def samples(self, m: int) -> int:
        """The grid that has m samples with its padding.

        >>> PaddedAxis("endpoint", 33, 8, 8).samples(97), PaddedAxis("endpoint", 33, 8, 8, in_samples=True).samples(97)
        (65, 81)
        """
        guess = m - self.before - self.after if self.in_samples else round(m * self.n0 / self.native)
        near = range(max(guess - 3, 1), guess + 4)
        return min(near, key=lambda n: (abs(n + sum(self.padding(n)) - m), abs(n - guess)))

    def places(self, m: int) -> Tensor:
        """The m samples as indices into the training samples, padding included."""
        n = self.samples(m)
        a, b = among(self.placement, self.n0, self.placement, n, np.arange(m) - self.padding(n)[0])
        return torch.from_numpy(np.asarray(a / b + self.before, dtype=np.float64))

    def nodes(self, m: int) -> Tensor:
        """The same on [0, 1], from the first training sample to the last."""
        return self.places(m) / max(self.native - 1, 1)

    def flat(self, m: int) -> bool:
        return m in (1, self.native) or self.placement == "cell"

    def weights(self, m: int) -> Tensor:
        if self.flat(m):
            return counting(m)
        ends = [(0, self.before), (self.before, self.before + self.n0), (self.before + self.n0, self.native)]
        parts = [(first, last - 1) for first, last in ends if last > first]
        index = torch.arange(self.native, dtype=torch.float64, device="cpu")
        spread = torch.ones(self.native - 1, dtype=torch.float64, device="cpu")
        for first, _ in parts[1:]:
            spread[first - 1] = 0
        atoms = tuple((index[j : j + 1], 0.5) for part in parts for j in part)
        return hat_moments(self.places(m), Mass(index, spread, atoms)) / self.native

    def __str__(self) -> str:
        return f"{self.placement}, {self.before} and {self.after} padded"
