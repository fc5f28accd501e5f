"""Speed of the problem generators compared with scipy doing the same work, taking turns in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.lab.bench.timing import interleaved, median_time, peak_memory
from quadnorm.problems import Problem, problem
from quadnorm.problems.solvers import pcg

THREADS = 2
Array = npt.NDArray[Any]
Figures = dict[str, Any]

ORDERINGS: Mapping[str, Mapping[str, Any]] = {
    "COLAMD": {"permc_spec": "COLAMD"},
    "symmetric MMD": {
        "permc_spec": "MMD_AT_PLUS_A",
        "options": {"SymmetricMode": True},
        "diag_pivot_thresh": 0.0,
    },
}


def run(scale: float = 1.0) -> list[Figures]:
    """All rows; ``scale`` shrinks grids and counts (1: Darcy at 421², batches of 64, series at 256²)."""
    shrink = min(scale, 1.0) ** 0.5
    fine, smooth, series = (max(33, round(n * shrink) + 1) for n in (420, 256, 255))
    batch = max(2, round(64 * shrink))
    return [
        elliptic("darcy", fine, batch),
        elliptic("varcoeff", smooth, batch),
        *darcy_streamed(fine, batch),
        *(sine_series(name, series, batch) for name in ("poisson", "helmholtz", "reaction-diffusion", "elasticity")),
    ]


def elliptic(name: str, fine: int, batch: int) -> Figures:
    """The same linear systems by our conjugate gradients on two threads and by scipy's sparse LU, one by one.

    For scipy the assembly is not counted, and the better of two orderings is taken.
    """
    p = problem(name, fine=fine)
    different = min(batch, 4)
    a = _coefficients(p, different)[np.arange(batch) % different]
    scaled = name == "varcoeff"
    solved = pcg.solve(a[:different], scaled=scaled, workers=THREADS)  # compiles; gives residuals and iterations
    systems = [_matrix(field) for field in a[:2]]
    best = min(ORDERINGS, key=lambda o: median_time(lambda: _lu(systems[0], o), repeats=1))
    seconds = interleaved(
        {
            "ours": lambda: pcg.solve(a, scaled=scaled, workers=THREADS),
            "peer": lambda: [_lu(matrix, best) for matrix in systems],
        },
        repeats=3,
    )
    residuals = [np.linalg.norm(1 - m @ _lu(m, best)) / np.sqrt(m.shape[0]) for m in systems]
    row = _row(f"{name} solve", f"{fine}², batch {batch}", batch / seconds["ours"])
    row |= _peer(row, f"scipy splu ({best}), one by one", len(systems) / seconds["peer"])
    return row | {
        "residual": float(solved.residual.max()),
        "peer residual": float(max(residuals)),
        "iterations": float(solved.iterations.mean()),
    }


def darcy_streamed(fine: int, batch: int) -> list[Figures]:
    """Draw, solve and restrict, block by block: the cost of a sample and the memory do not grow with their number."""
    p = problem("darcy", fine=fine)

    def drain(count: int) -> Callable[[], None]:
        def work() -> None:
            for _ in p.batches(count, fine, workers=THREADS):
                pass

        return work

    drain(batch)()
    rows = []
    for count in (batch, 4 * batch):
        memory: list[float] = []
        seconds = median_time(lambda count=count, memory=memory: memory.append(peak_memory(drain(count))), repeats=1)
        rows.append(_row("darcy streamed", f"{fine}², {count} samples", count / seconds) | {"peak_mb": memory[0]})
    return rows


def sine_series(name: str, n: int, batch: int) -> Figures:
    """Series summed at the nodes of n² grids, against scipy's DST-I alone for the same number of fields."""
    from scipy.fft import dstn

    p = problem(name)
    channels = len(p.inputs) + len(p.outputs) - (name == "helmholtz")  # the wavenumber's channel needs no transform
    fields = np.random.default_rng(0).standard_normal((batch * channels, n - 2, n - 2))
    p.sample(2, n)
    seconds = interleaved(
        {
            "ours": lambda: p.sample(batch, n, workers=THREADS),
            "peer": lambda: dstn(fields, type=1, axes=(1, 2), workers=THREADS),
        },
        repeats=5,
    )
    row = _row(name, f"{n}², batch {batch}", batch / seconds["ours"])
    return row | _peer(row, f"scipy dstn alone, {channels} fields a sample, {THREADS} threads", batch / seconds["peer"])


def _row(name: str, size: str, rate: float) -> Figures:
    return {"name": name, "size": f"{size}, {THREADS} threads", "samples/s": rate}


def _peer(row: Figures, peer: str, rate: float) -> Figures:
    return {"peer": peer, "peer samples/s": rate, "speedup": row["samples/s"] / rate}


def _coefficients(p: Problem, count: int) -> Array:
    """Nodal coefficients (count, fine, fine) of the first samples."""
    fine = p.parameters()["fine"]
    x, _ = p.sample(count, fine)
    a: Array = x[:, 0].double().numpy()
    return np.where(a > 2, 12.0, 3.0) if p.name == "darcy" else a  # log 3 < 2 < log 12


def _lu(matrix: Any, ordering: str) -> Array:
    from scipy.sparse.linalg import splu

    u: Array = splu(matrix, **ORDERINGS[ordering]).solve(np.ones(matrix.shape[0]))
    return u


def _matrix(a: Array) -> Any:
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
