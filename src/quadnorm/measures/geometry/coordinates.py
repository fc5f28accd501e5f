"""Checked coordinates: what meshes and point clouds share before any geometry is done."""

from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


class PointSet(NamedTuple):
    """Distinct points in lexicographic order, and where each given point went: ``given = points[inverse]``."""

    points: FloatArray  # (U, D)
    inverse: IntArray  # (N,)
    eps: float  # relative rounding of the dtype the points came in: a float32 point may miss its wall by that much


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """A numpy view or copy of a tensor, an array or a nested sequence."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        # numpy has no bfloat16; double holds every floating tensor exactly.
        return np.asarray((x.double() if x.is_floating_point() else x).numpy())
    return np.asarray(x)


def as_points(points: Any, *, one_dimensional: bool = False) -> FloatArray:
    """Check coordinates and return them as a contiguous float64 array (N, D), 1 ≤ D ≤ 3.

    ``one_dimensional`` also accepts (N,), the coordinates on a line.
    """
    array = to_numpy(points)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"points must be real numbers, got dtype {array.dtype}")
    if one_dimensional and array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not 1 <= array.shape[1] <= 3:
        hint = "; a 1-D point set may also be (N,)" if one_dimensional else ""
        raise ValueError(f"points must be (N, D) with D = 1, 2 or 3, one row per point, got shape {array.shape}{hint}")
    if array.shape[0] == 0:
        raise ValueError(f"there are no points: got shape {array.shape}, need at least one row")
    out = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        bad = np.flatnonzero(~np.isfinite(out).all(axis=1))
        raise ValueError(
            f"{bad.size} of {len(out)} points have NaN or infinite coordinates, the first is point {bad[0]}: "
            f"{out[bad[0]].tolist()}; remove them, or give them weight 0 afterwards"
        )
    return out


def distinct(points: Any) -> PointSet:
    """Sort the points and merge those that are equal in every coordinate.

    Sorting makes whatever follows independent of the order in which the points were given, to the last bit.
    """
    dtype = points.dtype if isinstance(points, torch.Tensor) else np.asarray(points).dtype
    single = dtype in (torch.float32, torch.float16, torch.bfloat16) or dtype in (np.dtype("f4"), np.dtype("f2"))
    array = as_points(points, one_dimensional=True)
    order = np.lexsort(array.T[::-1])
    ordered = array[order]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    index = np.empty(len(ordered), dtype=np.intp)
    index[order] = np.cumsum(new) - 1
    # Half precision is not treated as such: its rounding (1e-3) would hide points that are really outside.
    return PointSet(ordered[new], index, float(np.finfo("f4" if single else "f8").eps))


def share(weights: FloatArray, index: IntArray) -> torch.Tensor:
    """Give each point its part of the weight it owns together with others: equal parts among equal points."""
    return torch.from_numpy(weights[index] / np.bincount(index, minlength=len(weights))[index])


def as_box(bounds: Any, dim: int) -> FloatArray:
    """Check ``bounds`` and return them as (D, 2); for D = 1 a plain (lo, hi) will do."""
    try:
        box = np.asarray(to_numpy(bounds), dtype=np.float64)
    except (TypeError, ValueError):
        box = np.empty(0)
    if dim == 1 and box.shape == (2,):
        box = box[None]
    if box.shape != (dim, 2):
        raise ValueError(
            f"bounds must be one (lo, hi) per axis, here {dim} of them, e.g. {((0, 1),) * dim}; got {bounds!r}"
        )
    if not np.isfinite(box).all() or (box[:, 0] >= box[:, 1]).any():
        raise ValueError(f"each axis of bounds needs finite lo < hi, got {box.tolist()}")
    return box


def merge_close(x: FloatArray, distance: float) -> tuple[FloatArray, IntArray]:
    """Merge points nearer than ``distance``, also through chains: the kept points (n, D), and who represents each."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    pairs = cKDTree(x).query_pairs(distance, output_type="ndarray")
    if not len(pairs):
        return x, np.arange(len(x))
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(x), len(x)))
    _, label = connected_components(graph, directed=False)
    _, first, owner = np.unique(label, return_index=True, return_inverse=True)
    return x[first], owner


def normalised(x: FloatArray, edge: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Move the middle of the domain's edges (D, 2) to the origin and shrink it to unit size.

    Delaunay tessellation squares coordinates: digits spent on an offset are lost. The scale is a power of two, and
    coordinates are rounded to 2⁻⁵⁰ of it: points that differ in digits far below the domain's own rounding (0 beside
    1e-17, as cosines give) have nearly flat triangles between them, on which tessellation codes go wrong.
    """
    centre, width = edge.mean(1), float(np.ptp(edge, axis=1).max())
    scale = 2.0 ** ceil(log2(width)) if width > 0 else 1.0
    return np.round((x - centre) / scale * 2.0**50) / 2.0**50, centre, scale


def refuse_outside(x: FloatArray, outside: npt.NDArray[np.bool_], what: str) -> None:
    """Raise if any point is marked as outside."""
    if outside.any():
        first = x[outside][0].tolist()
        raise ValueError(
            f"{int(outside.sum())} of {len(x)} distinct points lie outside {what}, e.g. {first}; widen it, or drop them"
        )


def flat(dim: int, n: int) -> ValueError:
    """The error for points whose hull has no volume."""
    what = {2: "lie on a line", 3: "lie in a plane"}[dim]
    return ValueError(
        f"the {n} distinct points {what} (or are fewer than {dim + 1}), so their hull has no {dim}-D volume; "
        "give bounds=, or weigh them in the coordinates of that line or plane"
    )
