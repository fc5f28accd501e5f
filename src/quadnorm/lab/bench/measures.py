"""Benchmark of mesh and point weights, against scipy's Voronoi cells, a Python loop, and one pass over the cells."""

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.lab.bench.timing import BenchRow, interleaved, peak_memory, row
from quadnorm.measures.geometry.meshes import lumped_weights
from quadnorm.measures.geometry.points import delaunay_weights, voronoi_weights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def run(scale: float = 1.0) -> list[BenchRow]:
    """All rows; ``scale`` 1 means a million points, a million vertices and a million tetrahedra.

    >>> [row["name"] for row in run(scale=1e-3)][0]
    'voronoi_weights, box'
    """
    if not 0 < scale <= 10:
        raise ValueError(f"scale must be in (0, 10], got {scale}; 1 is a million points")
    return _points(max(int(1e6 * scale), 100)) + _tetrahedra(scale)


def _points(n: int) -> list[BenchRow]:
    from scipy.spatial import Voronoi

    x = np.random.default_rng(0).random((n, 2))
    ours: dict[str, Callable[[], Any]] = {
        "voronoi_weights, box": lambda: voronoi_weights(x, ((0, 1), (0, 1))),
        "voronoi_weights, hull": lambda: voronoi_weights(x),
        "delaunay_weights": lambda: delaunay_weights(x),
    }
    voronoi_weights(x[:100])  # imports
    # Each takes seconds at a million points, so one round is enough for a ratio.
    times = interleaved({**ours, "peer": lambda: Voronoi(x)}, repeats=1 if n > 200_000 else 3)
    peaks = {name: peak_memory(fn) if name.endswith("box") else float("nan") for name, fn in ours.items()}
    peer = "scipy.spatial.Voronoi, no clipping, no volumes"
    rows = [row(name, f"{n} points, 2-D", times[name], peer, times["peer"], peaks[name]) for name in ours]
    peak = peak_memory(lambda: Voronoi(x))
    return [*rows, row("scipy.spatial.Voronoi", f"{n} points, 2-D", times["peer"], peer, times["peer"], peak)]


def _tetrahedra(scale: float) -> list[BenchRow]:
    side = max(round(100 * scale ** (1 / 3)), 4)
    x, mesh = kuhn_mesh(side)
    shuffled = np.random.default_rng(0).permutation(len(mesh))[: max(int(1e6 * scale), 100)]
    rows = []
    for name, cells in ((f"{side}³ vertices", mesh), ("unordered", np.ascontiguousarray(mesh[shuffled]))):
        sample = cells[:: max(len(cells) // 1000, 1)]
        times = interleaved(
            {
                "ours": lambda c=cells: lumped_weights(x, c),
                "gather": lambda c=cells: x[c].sum(),
                "count": lambda c=cells: np.bincount(c.ravel(), minlength=len(x)),
                "loop": lambda c=sample: loop(x, c),
            },
            repeats=3,
        )
        times["loop"] *= len(cells) / len(sample)
        size = f"{len(cells)} tetrahedra, {name}"
        peak = peak_memory(lambda c=cells: lumped_weights(x, c))
        peers = {
            "gather": "one pass that reads all vertices: points[cells].sum()",
            "count": "one pass over the indices alone: bincount(cells)",
            "loop": f"Python loop (timed on {len(sample)} cells)",
        }
        rows += [row("lumped_weights", size, times["ours"], peers[p], times[p], peak) for p in peers]
    return rows


def kuhn_mesh(n: int) -> tuple[Floats, Ints]:
    """The unit cube with n³ vertices and 6(n−1)³ tetrahedra: Kuhn's division of each small cube into six."""
    axis = np.linspace(0, 1, n)
    x = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(n**3).reshape(n, n, n)
    corner = {c: index[tuple(slice(a, n - 1 + a) for a in c)].ravel() for c in product((0, 1), repeat=3)}
    walks = [[tuple(int(a in order[:k]) for a in range(3)) for k in range(4)] for order in permutations(range(3))]
    return x, np.concatenate([np.stack([corner[c] for c in walk], axis=1) for walk in walks])


def loop(x: Floats, cells: Ints) -> Floats:
    """The plain form: a Python loop over the cells."""
    out = np.zeros(len(x))
    for cell in cells:
        out[cell] += abs(np.linalg.det(x[cell[1:]] - x[cell[0]])) / 24
    return out
