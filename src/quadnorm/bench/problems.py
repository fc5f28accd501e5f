"""Speed of the problem generators, as ratios to scipy doing the same work in the same process."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from quadnorm.problems import pcg, problem

THREADS = 2
Row = dict[str, Any]


def run(scale: float = 1.0) -> list[Row]:
    """All rows; ``scale`` shrinks grids and counts (1: Darcy at 421², batches of 64, series at 256²)."""
    fine = max(33, round(420 * scale**0.5) + 1)
    series = max(17, round(256 * scale**0.5))
    batch = max(2, round(64 * scale**0.5))
    return [
        darcy_solve(fine, batch),
        *darcy_streamed(fine, batch),
        *(sine_series(name, series, batch) for name in ("poisson", "helmholtz", "reaction-diffusion", "elasticity")),
        varcoeff(max(33, round(256 * scale**0.5) + 1), batch),
    ]


def darcy_solve(fine: int, batch: int) -> Row:
    """The same linear systems: batched PCG with two threads against one sparse LU after another."""
    p = problem("darcy", fine=fine)
    wet = np.stack([p.instances([i])["wet"][0] for i in range(min(batch, 8))])
    a = np.where(wet, 12.0, 3.0)[np.arange(batch) % len(wet)]
    pcg.solve(a[:2], workers=THREADS)  # compile
    seconds, made = _time(lambda: pcg.solve(a, workers=THREADS))
    peers = 3
    peer_seconds, peer_residual = _direct(a[:peers])
    ours, theirs = batch / seconds, peers / peer_seconds
    return {
        "case": f"darcy solve, {fine}², batch {batch}, {THREADS} threads",
        "samples/s": ours,
        "peer": "scipy splu, one by one, better of two orderings",
        "peer samples/s": theirs,
        "ratio": ours / theirs,
        "residual": float(made.residual.max()),
        "peer residual": peer_residual,
        "iterations": float(made.iterations.mean()),
    }


def darcy_streamed(fine: int, batch: int) -> list[Row]:
    """Draw, solve and restrict, block by block: the cost of a sample and the memory must not grow with their number."""
    p = problem("darcy", fine=fine)
    rows = []
    for count in (batch, 4 * batch):
        before = _peak_megabytes()
        seconds, _ = _time(lambda count=count: [None for _ in p.batches(count, fine, workers=THREADS)])
        rows.append(
            {
                "case": f"darcy streamed at {fine}², {count} samples, {THREADS} threads",
                "samples/s": count / seconds,
                "peak memory growth MB": _peak_megabytes() - before,
            }
        )
    return rows


def sine_series(name: str, n: int, batch: int) -> Row:
    """Series summed at the nodes of n² grids, against scipy's DST-I of the same number of fields (endpoint nodes)."""
    from scipy.fft import dstn

    p = problem(name)
    count = 4 * batch
    p.sample(2, n)
    seconds, _ = _time(lambda: p.sample(count, n, workers=THREADS), repeats=3)
    channels = len(p.inputs) + len(p.outputs) - (name == "helmholtz")  # the wavenumber's channel needs no transform
    fields = np.random.default_rng(0).standard_normal((batch * channels, n - 2, n - 2))
    peer, _ = _time(lambda: dstn(fields, type=1, axes=(1, 2), workers=THREADS), repeats=3)
    return {
        "case": f"{name}, {n}², {count} samples",
        "samples/s": count / seconds,
        "peer": f"scipy dstn alone, {channels} fields a sample, {THREADS} threads",
        "peer samples/s": batch / peer,
        "ratio": (count / seconds) / (batch / peer),
    }


def varcoeff(fine: int, batch: int) -> Row:
    """Draw, solve and restrict with a smooth coefficient, against one sparse LU after another on its systems."""
    p = problem("varcoeff", fine=fine)
    n = (fine + 1) // 2
    p.sample(2, n)
    seconds, _ = _time(lambda: p.sample(batch, n, workers=THREADS))
    a = problem("varcoeff", fine=fine).sample(3, fine)[0][:, 0].double().numpy()
    peer_seconds, peer_residual = _direct(a)
    made = p.instances(3)
    return {
        "case": f"varcoeff, {fine}² to {n}², {batch} samples, {THREADS} threads",
        "samples/s": batch / seconds,
        "peer": "scipy splu, one by one, better of two orderings",
        "peer samples/s": 3 / peer_seconds,
        "ratio": (batch / seconds) / (3 / peer_seconds),
        "residual": float(made["residual"].max()),
        "peer residual": peer_residual,
        "iterations": float(made["iterations"].mean()),
    }


def _direct(a: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Seconds for all fields (assembly not counted) with the better ordering, and the largest residual ‖b − Au‖/‖b‖."""
    from scipy.sparse.linalg import splu

    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}, "diag_pivot_thresh": 0.0}
    best, worst = np.inf, 0.0
    systems = [_matrix(field) for field in a]
    for options in ({"permc_spec": "COLAMD"}, symmetric):
        seconds = 0.0
        for matrix in systems:
            b = np.ones(matrix.shape[0])
            t, u = _time(lambda matrix=matrix, b=b, options=options: splu(matrix, **options).solve(b))
            seconds += t
            worst = max(worst, float(np.linalg.norm(b - matrix @ u) / np.linalg.norm(b)))
        best = min(best, seconds)
    return best, worst


def _matrix(a: np.ndarray[Any, Any]) -> Any:
    """The sparse matrix of the 5-point scheme with averaged faces on the interior nodes of one (n, n) field."""
    from scipy.sparse import csc_array, diags_array

    n = len(a)
    x, y = (a[1:, 1:-1] + a[:-1, 1:-1]) / 2, (a[1:-1, 1:] + a[1:-1, :-1]) / 2  # faces, (n−1, n−2) and (n−2, n−1)
    diagonal = (x[1:] + x[:-1] + y[:, 1:] + y[:, :-1]).ravel()
    across = y[:, 1:].copy()
    across[:, -1] = 0.0  # the last node of a row and the first of the next are no neighbours
    side, down = -across.ravel()[:-1], -x[1:-1].ravel()
    bands = diags_array([diagonal, side, side, down, down], offsets=[0, 1, -1, n - 2, 2 - n])
    return csc_array(bands) * float((n - 1) ** 2)


def _time(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    best, value = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        value = work()
        best = min(best, time.perf_counter() - start)
    return best, value


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
