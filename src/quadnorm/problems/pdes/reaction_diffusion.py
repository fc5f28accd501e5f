"""Steady reaction–diffusion with Dirichlet conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quadnorm.problems.base import Array
from quadnorm.problems.parameters import Nonnegative, Positive
from quadnorm.problems.pdes.sine import SineProblem, wavenumbers


@dataclass(frozen=True, kw_only=True)
class ReactionDiffusion(SineProblem):
    """−DΔu + ru = f on [0, 1]², D = 0.05, r = 1.

    Boundary: u = 0. Input → output: f → u, one channel each.
    Law: f = Σ c(m,n) sin(mπx) sin(nπy), m, n = 1…32, c = s·ξ·(m²+n²)^(−p/2), p = 2, ξ standard normal; s makes the
    expected mean square of f equal to 1.
    Nodes: endpoint-inclusive by default; cell centres and the interior grid (j+1)/(n+1) as variants.
    Solver: none, û = f̂ / (Dπ²(m²+n²) + r), summed at the nodes: exact to rounding, u exactly 0 on boundary nodes.
    Checked against a sparse direct solve of the 5-point scheme (second order).
    Cost: about 0.5 ms at 256² on one core.
    Left open by the paper: how f is drawn, the number of modes, the grid. It gives D and r. Its errors fall from 64² to
    128², which does not happen with the same test instances at both grids; here the instances are the same.
    """

    diffusion: Positive = 0.05
    reaction: Nonnegative = 1.0  # for negative values the equation may have no solution

    name: ClassVar[str] = "reaction-diffusion"

    def _symbol(self, instances: Mapping[str, Array]) -> Array:
        m, n = wavenumbers(self.modes)
        return np.asarray(self.diffusion * np.pi**2 * (m**2 + n**2) + self.reaction)
