"""The flows of ``examples/crop_puzzle.py``: periodic Navier–Stokes, one snapshot in each unit of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from quadnorm.problems.pdes.navier_stokes import NavierStokes
from quadnorm.problems.solvers.spectral import Complex, Stepper, band_of, evaluate, state_of

POINTS, STEPS_OF_SOLVER, TESTS = 64, 32, 4  # points of the solve per axis, its steps in a unit of time, other flows


class Flow(NamedTuple):
    """What is learned, and for how long."""

    viscosity: float
    first: int  # the time of the first snapshot
    steps: int  # of the roll-out, each one unit of time
    samples: int  # trajectories to learn from
    updates: int  # of the training


FLOWS = {
    "young": Flow(4e-3, 0, 6, 192, 800),
    "developed": Flow(1e-3, 10, 10, 64, 800),  # viscosity and first time of the report
}


def trajectories(flow: Flow) -> Complex:
    """Fourier coefficients (samples + tests, steps + 1, 43, 22), wavenumbers up to 21: the band of 64 points."""
    problem, stepper = NavierStokes(viscosity=flow.viscosity), Stepper(POINTS, flow.viscosity, 1 / STEPS_OF_SOLVER)
    initial, k = problem.initial(range(flow.samples + TESTS)), stepper.band
    middle = initial.shape[-1] - 1
    state = state_of(initial[:, middle - k : middle + k + 1, : k + 1], POINTS)
    force = state_of(band_of(problem.force())[:, middle - k : middle + k + 1, : k + 1], POINTS)
    state = stepper.advance(state, STEPS_OF_SOLVER * flow.first, force)
    snapshots = [band_of(state)]
    for _ in range(flow.steps):
        state = stepper.advance(state, STEPS_OF_SOLVER, force)
        snapshots.append(band_of(state))
    return np.stack(snapshots, 1)


def on_grid(coefficients: Complex, n: int) -> Tensor:
    """Values (B, T, n, n), exact at the nodes j/n of any grid."""
    return torch.tensor(np.stack([evaluate(c, (n, n)) for c in coefficients]), dtype=torch.float32)
