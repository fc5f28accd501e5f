"""The (coercive) Helmholtz equation with Dirichlet conditions and a random wavenumber."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quadnorm.problems.base import Array
from quadnorm.problems.parameters import Range
from quadnorm.problems.pdes.sine import SineProblem, wavenumbers


@dataclass(frozen=True, kw_only=True)
class Helmholtz(SineProblem):
    """−Δu + k²u = f on [0, 1]², one random k per sample.

    Boundary: u = 0. Input → output: (f, k) → u; k is a constant channel. Without k, u would not be a function of the
    input.
    Law: f = Σ c(m,n) sin(mπx) sin(nπy), m, n = 1…32, c = s·ξ·(m²+n²)^(−p/2), p = 2, ξ standard normal; s makes the
    expected mean square of f equal to 1. k uniform on [1, 10], independent of f.
    Nodes: endpoint-inclusive by default; cell centres and the interior grid (j+1)/(n+1) as variants. The paper's sine
    transform implies the interior grid, and its studies are run on it. Interior grids do not nest, but all of them
    sample the same instances.
    Solver: none, û = f̂ / (π²(m²+n²) + k²), summed at the nodes: exact to rounding, u exactly 0 on boundary nodes.
    Checked against a sparse direct solve of the 5-point scheme (second order).
    Cost: about 0.5 ms at 256² on one core.
    Left open by the paper: how f is drawn, the law of k, whether the model sees k. Chosen: as above. The sign makes
    the operator coercive for every k: no resonance, no waves.
    """

    k_min: Annotated[float, Range(0, 1e4)] = 1.0
    k_max: Annotated[float, Range(0, 1e4)] = 10.0

    name: ClassVar[str] = "helmholtz"
    inputs: ClassVar[tuple[str, ...]] = ("f", "k")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k_min > self.k_max:
            raise ValueError(
                f"{self.name}: expected 0 ≤ k_min ≤ k_max, the range of the wavenumber; "
                f"got k_min={self.k_min!r}, k_max={self.k_max!r}"
            )

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        k = np.array([rng.uniform(self.k_min, self.k_max) for rng in self._streams(indices, seed, "k")])
        return {**super()._instances(indices, seed, workers), "k": k}

    def _symbol(self, instances: Mapping[str, Array]) -> Array:
        m, n = wavenumbers(self.modes)
        return np.asarray(np.pi**2 * (m**2 + n**2) + instances["k"][:, None, None] ** 2)

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        f, u = super()._on_grid(instances, shape)
        k = np.broadcast_to(instances["k"][:, None, None, None], f.shape)
        return np.concatenate([f, k], axis=1), u
