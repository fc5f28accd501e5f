"""Lid-driven cavity flow: a square of viscous fluid under a lid that moves with a random profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quadnorm.measures.placement import placement_of
from quadnorm.problems.base import Array, Problem
from quadnorm.problems.fine import cubic
from quadnorm.problems.parameters import Fine, Range
from quadnorm.problems.solvers.streamfunction import solve

_WAVES = 4  # cosines of the lid profile
_SCAN = 2049  # nodes on which the lid's greatest speed is searched, independent of the sampling grid


@dataclass(frozen=True, kw_only=True)
class Cavity(Problem):
    """(u·∇)u + ∇p = Re⁻¹Δu, div u = 0 on [0, 1]²: the steady flow under a moving lid.

    Boundary: u = (g(x), 0) on the lid y = 1, u = 0 on the other walls. Input → output: the lid's velocity g(x), the
    same for all y, → the horizontal velocity u(x, y).
    Law: g = c·x²(1−x)²·(1 + Σ ξ_m cos(mπx)/m), m = 1 … 4, ξ_m normal with deviation 0.8; c makes max|g| uniform in
    [0.5, 1]. Both g and its slope vanish in the corners, so no corner is singular.
    Re = 100 for a lid of speed 1: samples have Reynolds numbers 50 to 100.
    Nodes: endpoint-inclusive by default, cell centres as a variant.
    Solver: streamfunction and vorticity on 257² endpoint-inclusive nodes, second-order differences, Thom's wall
    vorticity; the Stokes part is inverted exactly by sine transforms, convection iterated with Anderson acceleration
    to a relative change of 10⁻¹⁰, about 18 times. Error in u 2 to 5·10⁻⁴ (relative L², from 129² and 257²; order 2
    on a manufactured flow); centreline within 0.005 of Ghia, Ghia and Shin (1982) for the classical lid at Re = 100,
    and within 5·10⁻⁴ of Taylor–Hood finite elements at Re = 40.
    Restriction: bicubic spline through the fine nodes; g is evaluated exactly.
    Cost: about 0.12 s per sample at 257² on one core (0.03 s at 129²), 0.3 MB on disk.
    Left open by the paper: everything but the name "cavity flow". Chosen: the above. The iteration converges up to
    Re of about 300; without convergence an error is raised.
    """

    placement: str = "endpoint"
    reynolds: Annotated[float, Range(0, 1e5, above=True)] = 100.0
    fine: Fine = 257
    tol: Annotated[float, Range(1e-12, 1e-2)] = 1e-10  # rounding lets ψ reach 1e-12

    name: ClassVar[str] = "cavity"
    inputs: ClassVar[tuple[str, ...]] = ("lid velocity",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell")
    stored: ClassVar[Mapping[str, str]] = {"u": "float32"}

    def lids(self, indices: Sequence[int], seed: int = 0) -> Array:
        """Coefficients (B, 5) of the lid profiles g = x²(1−x)²·Σ a_m cos(mπx), m = 0 … 4."""
        result = np.ones((len(indices), _WAVES + 1))
        for row, random in zip(result, self._streams(indices, seed), strict=True):
            row[1:] = 0.8 * random.standard_normal(_WAVES) / np.arange(1, _WAVES + 1)
            speed = random.uniform(0.5, 1.0)
            row *= speed / np.abs(profile(row[None], np.arange(_SCAN) / (_SCAN - 1))).max()
        return result

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        lids = self.lids(indices, seed)
        walls = profile(lids, placement_of("endpoint").nodes(self.fine).numpy())
        u = np.empty((len(indices), self.fine, self.fine))
        counts, changes = np.empty(len(indices), dtype=np.int64), np.empty(len(indices))

        def run(i: int) -> None:
            flow = solve(walls[i], 1 / self.reynolds, tol=self.tol)
            u[i] = flow.velocity(walls[i])[0]
            counts[i], changes[i] = flow.iterations, flow.change

        if workers > 1 and len(indices) > 1:
            with ThreadPoolExecutor(min(workers, len(indices))) as pool:
                list(pool.map(run, range(len(indices))))
        else:
            for i in range(len(indices)):
                run(i)
        return {"lid": lids, "u": u, "iterations": counts, "change": changes}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        g = profile(instances["lid"], placement_of(self.placement).nodes(shape[0]).numpy())
        x: Array = np.broadcast_to(g[:, :, None], (*g.shape, shape[1]))
        return x[:, None], cubic(instances["u"], self.placement, (shape[0], shape[1]))[:, None]


def profile(coefficients: Array, x: Array) -> Array:
    """The lid g = x²(1−x)²·Σ a_m cos(mπx) at the nodes x: (B, 5), (n,) → (B, n).

    >>> profile(np.array([[16.0, 0, 0, 0, 0]]), np.array([0.0, 0.5, 1.0])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    waves = np.cos(np.pi * np.arange(coefficients.shape[1])[:, None] * x)
    # Added term by term: the rounding of a BLAS sum could depend on the batch.
    total = sum(a[:, None] * wave for a, wave in zip(coefficients.T, waves, strict=True))
    result: Array = x**2 * (1 - x) ** 2 * total
    return result
