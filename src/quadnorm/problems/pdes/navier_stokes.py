"""Two-dimensional Navier–Stokes flow on the torus, in vorticity form, with the law of the public FNO benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from quadnorm.problems.base import Array, Problem
from quadnorm.problems.parameters import Range
from quadnorm.problems.solvers.spectral import Stepper, band_of, evaluate, state_of

_MODES = 42  # largest wavenumber of the initial field: the band of 128 points, also for solves on more points
_COURANT = 1.7  # stability limit of the time stepping on the imaginary axis, √3
_HALVINGS = 4  # of the step, for a sample that moves faster than the default step allows


@dataclass(frozen=True, kw_only=True)
class NavierStokes(Problem):
    """∂ω/∂t + u·∇ω = νΔω + f on the periodic unit square, ω = curl u, div u = 0.

    Boundary: periodic. Input → output: ω(start) → ω(start + horizon), one pair per trajectory.
    Law: ω(0) a Gaussian field without mean, covariance 7³(−Δ+49)^(−2.5), wavenumbers up to 42 in each direction;
    f = 0.1·(sin 2π(x+y) + cos 2π(x+y)), constant in time.
    Nodes: periodic, j/n.
    Solver: Fourier pseudo-spectral on 128² points, 2/3 dealiasing; third-order Runge–Kutta convection with a
    Crank–Nicolson step of diffusion beside each of its three stages, dt = 1/32. At the default viscosity ω(5) is
    within 10⁻⁵ of a run with a third of the step and within 10⁻⁵ of a run on 192² points (relative L²); a sample
    whose Courant number leaves the stable range is run again with half the step; number and steps are recorded.
    Restriction: none. A sample is a trigonometric polynomial and is evaluated exactly at the nodes of any grid;
    where n divides 128 that is taking every (128/n)-th point. With ``band`` K both fields keep the waves up to K alone.
    Cost: about 0.3 s per sample on one core, flat in the number of samples; 0.12 MB on disk.
    Left open by the paper: it calls its data real Navier–Stokes one-step data, 8000 + 2000 pairs, and names neither
    viscosity, times nor solver. Chosen: the FNO benchmark's law, viscosity 10⁻⁴, pairs at times 2 and 5, one per
    trajectory, so that samples are independent. (The FNO article prints 7^(3/2) for the covariance; its public
    code has 7^(3/2) for the amplitude, which is what is taken here.)
    """

    placement: str = "periodic"
    viscosity: Annotated[float, Range(0, 10)] = 1e-4
    start: Annotated[float, Range(0, 1000)] = 2.0
    horizon: Annotated[float, Range(0, 1000, above=True)] = 3.0
    forcing: Annotated[float, Range(-100, 100)] = 0.1
    points: Annotated[int, Range(3 * _MODES + 1, 4096)] = 128  # of the solve; coarser grids sample its result
    dt: Annotated[float, Range(0, 1, above=True)] = 1 / 32
    band: Annotated[int, Range(0, _MODES)] = 0  # sharp low-pass of both fields: waves kept along each axis; 0: all

    name: ClassVar[str] = "navier-stokes"
    inputs: ClassVar[tuple[str, ...]] = ("ω(t)",)
    outputs: ClassVar[tuple[str, ...]] = ("ω(t+Δ)",)
    placements: ClassVar[tuple[str, ...]] = ("periodic",)
    block: ClassVar[int] = 16
    views: ClassVar[tuple[str, ...]] = ("placement", "band")

    def initial(self, indices: Sequence[int], seed: int = 0) -> Array:
        """Coefficients (B, 85, 43) of ω(0), rows k₁ = −42 … 42, columns k₂ = 0 … 42."""
        k1, k2 = np.arange(-_MODES, _MODES + 1)[:, None], np.arange(_MODES + 1)[None]
        amplitude = 7**1.5 * (4 * np.pi**2 * (k1**2 + k2**2) + 49.0) ** -1.25
        amplitude[_MODES, 0] = 0
        drawn = [g.standard_normal((2 * _MODES + 1, _MODES + 1, 2)) for g in self._streams(indices, seed)]
        pairs = np.stack(drawn) * (amplitude * math.sqrt(0.5))[..., None]  # E|ω̂ₖ|² = amplitude²
        band: Array = pairs.view(np.complex128)[..., 0]
        band[:, :_MODES, 0] = np.conj(band[:, :_MODES:-1, 0])  # k₂ = 0 holds both k and −k: real fields are Hermitian
        return band

    def force(self) -> Array:
        """Coefficients (1, N, K+1) of f."""
        wave = np.zeros((1, 3, 2), dtype=np.complex128)
        wave[0, 2, 1] = self.forcing * (0.5 - 0.5j)  # cos θ + sin θ = Re((1 − i)·exp(iθ)), θ = 2π(x + y)
        return state_of(wave, self.points)

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        initial, force = self.initial(indices, seed), self.force()

        times = self._starts(indices)

        def run(i: int) -> tuple[Array, Array, float, int]:
            # One sample at a time: its arrays stay in a core's cache, and its bits do not depend on the batch.
            state = state_of(initial[i : i + 1], self.points)
            for halvings in range(_HALVINGS + 1):
                steps = [math.ceil(t * 2**halvings / self.dt - 1e-9) for t in (times[i], self.horizon)]
                before, _ = self._advance(state, force, times[i], steps[0])
                after, courant = self._advance(before, force, self.horizon, steps[1])
                if courant < _COURANT:
                    return band_of(before)[0], band_of(after)[0], courant, sum(steps)
            raise RuntimeError(
                f"{self.name}: sample {indices[i]} of seed {seed} is unstable even with a step of "
                f"{self.dt / 2**_HALVINGS:.3g}; make the problem with a smaller dt, or a larger viscosity"
            )

        if workers > 1 and len(indices) > 1:
            with ThreadPoolExecutor(min(workers, len(indices))) as pool:
                runs = list(pool.map(run, range(len(indices))))
        else:
            runs = [run(i) for i in range(len(indices))]
        before, after, courant, steps = zip(*runs, strict=True)
        return {
            "before": np.stack(before),
            "after": np.stack(after),
            "courant": np.array(courant),
            "steps": np.array(steps),
        }

    def _starts(self, indices: Sequence[int]) -> list[float]:
        """The time of each sample's input."""
        return [self.start] * len(indices)

    def _advance(self, state: Array, force: Array, time: float, steps: int) -> tuple[Array, float]:
        """The state after ``time``, and its Courant number: NaN or huge where the step was too long."""
        stepper = Stepper(self.points, self.viscosity, time / steps if steps else self.dt)
        with np.errstate(over="ignore", invalid="ignore"):
            after = stepper.advance(state, steps, force)
            return after, float(stepper.courant(after)[0])

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        before, after = instances["before"], instances["after"]
        if K := self.band:
            zero = before.shape[-1] - 1  # the row of k₁ = 0
            before, after = (c[:, zero - K : zero + K + 1, : K + 1] for c in (before, after))
        return evaluate(before, shape)[:, None], evaluate(after, shape)[:, None]


@dataclass(frozen=True, kw_only=True)
class NavierStokesSteps(NavierStokes):
    """∂ω/∂t + u·∇ω = νΔω + f as in navier-stokes, in steps that a model can be rolled out over.

    Boundary: periodic. Input → output: ω(t) → ω(t + horizon), one pair per trajectory, at t = start + k·horizon with
    k = the sample's index modulo ``starts``: a model that is trained on them meets the whole span of a rollout.
    Law, nodes, solver, restriction: those of navier-stokes.
    With ``starts=1`` and a horizon of N steps the same indices give ω(start) and what N steps of a rollout should give.
    Cost: about 0.8 s per sample on one core, flat in the number of samples; 0.12 MB on disk.
    Chosen: viscosity 3·10⁻⁴, with which ω holds more than 32 samples per axis resolve and a trained model's 50 steps
    are still a forecast; steps of 0.25 from time 2.
    """

    viscosity: Annotated[float, Range(0, 10)] = 3e-4
    horizon: Annotated[float, Range(0, 1000, above=True)] = 0.25
    starts: Annotated[int, Range(1, 10_000)] = 50

    name: ClassVar[str] = "navier-stokes-steps"

    def after(self, steps: int) -> NavierStokesSteps:
        """The problem whose outputs are where a rollout of so many steps from time ``start`` should end."""
        return replace(self, horizon=steps * self.horizon, starts=1)

    def _starts(self, indices: Sequence[int]) -> list[float]:
        return [self.start + (i % self.starts) * self.horizon for i in indices]
