"""Problems whose solution operator is diagonal in the sine basis: drawn as a finite series, exact on every grid.

    f(x, y) = Σ c(m,n) sin(mπx) sin(nπy),   c(m,n) = s · ξ(m,n) · (m²+n²)^(−p/2),  m, n = 1…M,  ξ ~ N(0, 1)

with s such that the mean square of f over the domain is 1 in expectation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quadnorm.problems.base import Array, Problem
from quadnorm.problems.parameters import Decay, Modes
from quadnorm.problems.solvers.fields import sines
from quadnorm.problems.solvers.products import sandwich

F64 = npt.NDArray[np.float64]


def wavenumbers(modes: int) -> tuple[F64, F64]:
    """Columns m (M, 1) and rows n (1, M), from 1 to M."""
    k = np.arange(1, modes + 1, dtype=np.float64)
    return k[:, None], k[None, :]


def forcing_amplitudes(modes: int, decay: float) -> F64:
    """s·(m²+n²)^(−p/2), with mean square ¼ Σ c² = 1."""
    m, n = wavenumbers(modes)
    c = (m**2 + n**2) ** (-decay / 2)
    out: F64 = 2 * c / np.sqrt((c**2).sum())
    return out


@dataclass(frozen=True, kw_only=True)
class SineProblem(Problem):
    """f → u with û(m,n) = f̂(m,n) / symbol(m,n)."""

    placement: str = "endpoint"
    modes: Modes = 32
    decay: Decay = 2.0

    inputs: ClassVar[tuple[str, ...]] = ("f",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell", "interior")
    block: ClassVar[int] = 64

    @abstractmethod
    def _symbol(self, instances: Mapping[str, Array]) -> Array:
        """The symbol in û = f̂ / symbol, (M, M) or (B, M, M)."""

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        amplitude = forcing_amplitudes(self.modes, self.decay)
        c = np.stack([rng.standard_normal((self.modes, self.modes)) for rng in self._streams(indices, seed, "f")])
        return {"f": c * amplitude}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        f = instances["f"]
        both = np.stack([f, f / self._symbol(instances)], axis=1)  # (B, 2, M, M)
        x, y = (sines(self.placement, n, self.modes) for n in shape)
        out = sandwich(x, both, y)  # (B, 2, *shape)
        return out[:, :1], out[:, 1:]
