"""From the fine grid of a solve to any grid: index selection, or cubic interpolation.

Index selection takes the fine node nearest to each node, ties to the even index. It keeps a binary coefficient binary
and a (coefficient, solution) pair consistent; nodes are off by up to half a fine spacing. Both commute with nesting:
what is selected depends on the node's coordinate as an exact fraction, not on the grid that asks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.problems.base import axis_fractions
from quadnorm.problems.solvers.products import sandwich


def nearest(fine: int, placement: str, n: int) -> npt.NDArray[np.int64]:
    """Index of the fine endpoint-inclusive node (0…fine−1) nearest to each of the n nodes of an axis.

    For endpoint-inclusive nodes this is round(linspace(0, fine−1, n)), without its rounding errors.

    >>> nearest(421, "endpoint", 5).tolist()
    [0, 105, 210, 315, 420]
    """
    numerator, denominator = axis_fractions(placement, n)
    if n > fine:
        raise ValueError(
            f"resolution {n} is finer than the solve on {fine} nodes per axis; make the problem with fine={n} or more"
        )
    low, rest = np.divmod(numerator * (fine - 1), denominator)
    up = (2 * rest > denominator) | ((2 * rest == denominator) & (low % 2 == 1))
    index: npt.NDArray[np.int64] = low + up
    return index


def select(field: npt.NDArray[Any], placement: str, shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Index selection of (B, fine, fine) fields: (B, *shape)."""
    i, j = (nearest(field.shape[axis + 1], placement, n) for axis, n in enumerate(shape))
    return field[:, i[:, None], j]


@lru_cache(maxsize=32)
def spline_matrix(fine: int, placement: str, n: int) -> npt.NDArray[np.float64]:
    """The matrix (n, fine) that evaluates the cubic spline through fine endpoint-inclusive values at the n nodes.

    Not-a-knot ends: exact for cubics, fourth order for smooth functions.
    """
    try:
        from scipy.interpolate import CubicSpline
    except ImportError as error:
        raise ImportError("cubic interpolation needs scipy: pip install 'quadnorm[bench]'") from error
    numerator, denominator = axis_fractions(placement, n)
    # In units of the fine spacing; the fine nodes are then exact integers.
    at = numerator * (fine - 1) / denominator
    matrix: npt.NDArray[np.float64] = CubicSpline(np.arange(fine), np.eye(fine), axis=0)(at)
    on_node = at == np.round(at)
    matrix[on_node] = np.eye(fine)[np.round(at[on_node]).astype(int)]
    matrix.flags.writeable = False
    return matrix


def cubic(field: npt.NDArray[Any], placement: str, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Bicubic spline interpolation of (B, fine, fine) fields: (B, *shape)."""
    left, right = (spline_matrix(field.shape[axis + 1], placement, n) for axis, n in enumerate(shape))
    return sandwich(left, field.astype(np.float64, copy=False), right)


def check_fine(name: str, fine: int, tol: float) -> None:
    """Refuse a fine grid or a tolerance that cannot work."""
    if isinstance(fine, bool) or not isinstance(fine, int) or fine < 5:
        raise ValueError(f"{name}: fine must be an int of at least 5, the nodes per axis of the solve; got {fine!r}")
    if not 1e-14 <= tol <= 1e-2:
        raise ValueError(f"{name}: tol must lie between 1e-14 and 1e-2, the relative residual; got {tol!r}")
