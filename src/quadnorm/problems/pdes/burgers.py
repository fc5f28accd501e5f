"""Viscous Burgers flow in one and two dimensions, periodic or held at zero at the boundary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from quadnorm.problems.base import Array, Problem
from quadnorm.problems.parameters import Range
from quadnorm.problems.solvers.fields import cosines, sines
from quadnorm.problems.solvers.products import product, sandwich

F64 = npt.NDArray[np.float64]
_COURANT = 1.5  # dt·max|u|·Σ k; the limit of the scheme on the imaginary axis is about 2.8
_DRAWN = 42  # waves of the initial field along each axis; periods, if it is periodic


@dataclass(frozen=True, kw_only=True)
class Burgers(Problem):
    """∂u/∂t + u·∂u/∂x = ν ∂²u/∂x² on [0, 1], ν = 0.01.

    Boundary: u = 0 for endpoint, cell and interior nodes; periodic for periodic nodes: the placement decides.
    Input → output: u(·, 0) → u(·, T), T = 0.25, by when steep layers of width 4ν/|jump| have formed.
    Law: a Gaussian series without mean, u₀ = Σ c(k)·ξ·wave(k), ξ standard normal, c ∝ 1/(k² + 9) for k periods per
    length, expected mean square 1. Waves: √2 sin(mπx), m = 1 … 42, so that k = m/2; on periodic nodes √2 cos(2πkx) and
    √2 sin(2πkx), k = 1 … 42.
    Nodes: endpoint-inclusive by default; cell centres, the interior grid (j+1)/(n+1) and periodic j/n as variants.
    Solver: Galerkin in the same waves, 256 of them, products on 3/2 as many nodes, which makes them
    exact; in time exponential Runge–Kutta of order 4, diffusion exact. Checked against the exact solution by Cole and
    Hopf: within 2·10⁻⁶ in relative L²; 400 waves change 10⁻⁸. The step follows from max|u₀|, which is never exceeded.
    Restriction: none. A sample is a finite series and is evaluated exactly at the nodes of any grid. With ``band`` K
    both fields keep the waves of at most K periods alone.
    Cost: about 0.05 s per sample on one core.
    Not in the paper: it is the problem of critics of resolution transfer. Their data have other laws and viscosities
    (0.001 to 0.1); here layers are resolved on 128 nodes and not on 16.
    """

    placement: str = "endpoint"
    viscosity: Annotated[float, Range(1e-4, 10)] = 0.01
    horizon: Annotated[float, Range(0, 100, above=True)] = 0.25
    modes: Annotated[int, Range(2 * _DRAWN + 1, 4096)] = 256  # of the solve, along each axis
    band: Annotated[int, Range(0, 4096)] = 0  # sharp low-pass of both fields: periods per length kept; 0: all

    name: ClassVar[str] = "burgers"
    inputs: ClassVar[tuple[str, ...]] = ("u(0)",)
    outputs: ClassVar[tuple[str, ...]] = ("u(T)",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell", "interior", "periodic")
    dim: ClassVar[int] = 1
    block: ClassVar[int] = 32
    views: ClassVar[tuple[str, ...]] = ("band",)  # the placement decides the boundary, and so the instances

    def initial(self, indices: Sequence[int], seed: int = 0) -> Array:
        """Coefficients (B, M, …) of u(0) in the waves of :func:`waves`, zero above 42 waves (periodic: 42 periods)."""
        periodic = self.placement == "periodic"
        drawn = 2 * _DRAWN + 1 if periodic else _DRAWN
        k = _frequencies(periodic, drawn)
        square = k**2 if self.dim == 1 else k[:, None] ** 2 + k**2
        c = np.where(square > 0, 1 / (square + 9), 0)  # no mean
        c /= np.sqrt((c**2).sum())
        out = np.zeros((len(indices), *[self.modes] * self.dim))
        for row, rng in zip(out, self._streams(indices, seed, "periodic" if periodic else "zero"), strict=True):
            row[(slice(drawn),) * self.dim] = rng.standard_normal((drawn,) * self.dim) * c
        return out

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        before = self.initial(indices, seed)

        def solve(i: int) -> Array:
            # One sample at a time: its bits do not depend on the batch.
            return advance(before[i], self.placement == "periodic", self.viscosity, self.horizon)

        with ThreadPoolExecutor(max(1, min(workers, len(indices)))) as pool:
            return {"before": before, "after": np.stack(list(pool.map(solve, range(len(indices)))))}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        count = min(self.modes, 2 * self.band + (self.placement == "periodic")) if self.band else self.modes
        x = [waves(self.placement, n, count)[0] for n in shape]
        kept = (slice(None), *[slice(count)] * self.dim)
        before, after = (_values(instances[name][kept], x) for name in ("before", "after"))
        return before[:, None], after[:, None]


@dataclass(frozen=True, kw_only=True)
class Burgers2d(Burgers):
    """∂u/∂t + u·(∂u/∂x + ∂u/∂y) = νΔu on [0, 1]², ν = 0.02.

    Boundary: u = 0 for endpoint, cell and interior nodes; periodic for periodic nodes: the placement decides.
    Input → output: u(·, 0) → u(·, T), T = 0.25.
    Law: as ``burgers``, with products of waves along the axes and c ∝ 1/(k₁² + k₂² + 9); periodic fields have waves
    along one axis alone too.
    Nodes: endpoint-inclusive by default; cell centres, the interior grid (j+1)/(n+1) and periodic j/n as variants.
    Solver: as ``burgers``, 96 waves along each axis; u(T) is within 10⁻⁶ of a solve with 144 in relative L², also where
    u = 0 at the boundary and the product u·∂u/∂x is no finite series of sines along y. It agrees with finite
    differences to their order.
    Restriction: none. A sample is a finite series and is evaluated exactly at the nodes of any grid.
    Cost: about 1.2 s per sample on one core.
    Not in the paper: see ``burgers``.
    """

    viscosity: Annotated[float, Range(1e-4, 10)] = 0.02
    modes: Annotated[int, Range(2 * _DRAWN + 1, 1024)] = 96

    name: ClassVar[str] = "burgers-2d"
    dim: ClassVar[int] = 2
    block: ClassVar[int] = 16


def _frequencies(periodic: bool, modes: int) -> F64:
    """Periods per length of each wave: 0, 1, 1, 2, 2, … for cosines and sines in turn, ½, 1, 1½, … for sin(mπx)."""
    m = np.arange(1, modes + 1)
    return np.asarray(m // 2 if periodic else m / 2, dtype=np.float64)


def waves(placement: str, n: int, modes: int) -> tuple[F64, F64]:
    """The waves at the n nodes of an axis and their derivatives, (n, modes) each; all have mean square 1.

    √2 sin(mπx), m = 1, 2, …; on periodic nodes 1, √2 cos(2πx), √2 sin(2πx), √2 cos(4πx), …
    """
    root = math.sqrt(2)
    if placement != "periodic":
        slope = root * np.pi * np.arange(1, modes + 1)
        return root * sines(placement, n, modes), cosines(placement, n, modes, first=1) * slope
    k = np.arange(1, modes // 2 + 1)
    c, s = cosines("periodic", n, 2 * len(k), first=1)[:, 1::2], sines("periodic", n, 2 * len(k))[:, 1::2]
    values, slopes = np.ones((n, 2 * len(k) + 1)), np.zeros((n, 2 * len(k) + 1))
    values[:, 1::2], values[:, 2::2] = root * c, root * s
    slopes[:, 1::2], slopes[:, 2::2] = -2 * np.pi * k * root * s, 2 * np.pi * k * root * c
    return np.ascontiguousarray(values[:, :modes]), np.ascontiguousarray(slopes[:, :modes])


@lru_cache(maxsize=8)
def _at_solve_nodes(periodic: bool, modes: int) -> tuple[F64, F64, F64]:
    """Waves and slopes at the nodes of the solve, (N, M), and the projection back, (M, N).

    There are 3/2 as many nodes as waves, which makes the projection of a product of two waves exact.
    """
    n = 3 * modes // 2 + 2
    values, slopes = waves("periodic" if periodic else "interior", n, modes)
    return values, slopes, np.ascontiguousarray(values.T / (n if periodic else n + 1))


def _values(c: F64, x: Sequence[F64]) -> F64:
    """The fields with coefficients c (…, M) or (…, M, M) at nodes, given the waves there, (n, M) for each axis."""
    return product(x[0], c[..., None])[..., 0] if len(x) == 1 else sandwich(x[0], c, x[1])


def advance(c: F64, periodic: bool, viscosity: float, horizon: float) -> F64:
    """The coefficients after ``horizon``: exponential Runge–Kutta of order 4 (Cox and Matthews), diffusion exact."""
    modes, dim = len(c), c.ndim
    values, slopes, project = _at_solve_nodes(periodic, modes)
    k = _frequencies(periodic, modes)
    decay = -viscosity * (2 * np.pi) ** 2 * (k**2 if dim == 1 else k[:, None] ** 2 + k**2)

    def rate(c: F64) -> F64:
        if dim == 1:
            return product(project, -_values(c, [values])[..., None] * product(slopes, c[:, None]))[..., 0]
        u = sandwich(values, c, values)
        return sandwich(project, -u * (sandwich(slopes, c, values) + sandwich(values, c, slopes)), project)

    speed = float(np.abs(_values(c, [values] * dim)).max())
    steps = max(16, math.ceil(horizon * speed * dim * 2 * np.pi * k[-1] / _COURANT))
    full, half, single, first, middle, last = _exponentials(decay, horizon / steps)
    for _ in range(steps):
        now = rate(c)
        a = half * c + single * now
        at_a = rate(a)
        b = half * c + single * at_a
        at_b = rate(b)
        d = half * a + single * (2 * at_b - now)
        c = full * c + first * now + middle * (at_a + at_b) + last * rate(d)
    return c


def _exponentials(decay: F64, dt: float) -> tuple[F64, ...]:
    """Factors of a step for each decay rate.

    (eᶻ − 1)/z and its kin lose all digits near z = 0: they are means over a circle around z (Kassam and Trefethen).
    """
    z = decay * dt
    circle = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)  # the upper half: the mean's real part is the whole's
    sums = [np.zeros_like(z) for _ in range(4)]
    for point in circle:
        w = z + point
        e = np.exp(w)
        sums[0] += ((np.exp(w / 2) - 1) / w).real
        sums[1] += ((-4 - w + e * (4 - 3 * w + w**2)) / w**3).real
        sums[2] += (2 * (2 + w + e * (w - 2)) / w**3).real
        sums[3] += ((-4 - 3 * w - w**2 + e * (4 - w)) / w**3).real
    return np.exp(z), np.exp(z / 2), *(dt * total / len(circle) for total in sums)
