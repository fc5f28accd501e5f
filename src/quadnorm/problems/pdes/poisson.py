"""Poisson's equation with Dirichlet conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quadnorm.problems.base import Array
from quadnorm.problems.pdes.sine import SineProblem, wavenumbers


@dataclass(frozen=True, kw_only=True)
class Poisson(SineProblem):
    """−Δu = f on [0, 1]².

    Boundary: u = 0. Input → output: f → u, one channel each.
    Law: f = Σ c(m,n) sin(mπx) sin(nπy), m, n = 1…32, c = s·ξ·(m²+n²)^(−p/2), p = 2, ξ standard normal; s makes the
    expected mean square of f equal to 1.
    Nodes: endpoint-inclusive by default; cell centres and the interior grid (j+1)/(n+1) as variants.
    Solver: none, û = f̂ / (π²(m²+n²)); the series is summed at the nodes, so all grids have samples of the same f and u
    up to rounding, and u is exactly 0 on boundary nodes. Checked against a sparse direct solve of the 5-point scheme
    (second order as the grid is refined).
    Cost: about 0.5 ms at 256² on one core.
    Left open by the paper: how f is drawn, the number of modes, the grid, the scale. Chosen: as above. Its two
    Poisson tables differ by a factor of 5 in native error (6.1 % and 34.6 %), so they cannot come from one law of
    f.
    """

    name: ClassVar[str] = "poisson"

    def _symbol(self, instances: Mapping[str, Array]) -> Array:
        m, n = wavenumbers(self.modes)
        return np.asarray(np.pi**2 * (m**2 + n**2))
