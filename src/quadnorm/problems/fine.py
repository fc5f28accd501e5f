"""From the fine grid of a solve to any grid: index selection, cubic interpolation, or the field's low waves alone.

Index selection takes the fine node nearest to each node, ties to the even index. It keeps a binary coefficient binary
and a (coefficient, solution) pair consistent; nodes are off by up to half a fine spacing. The value at a node depends
on its exact coordinate only, so that nested grids have the same values at common nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.carry.lines import Axis1D, matrix, nearest
from quadnorm.problems.solvers.fields import cosines
from quadnorm.problems.solvers.products import sandwich


def select(field: npt.NDArray[Any], placement: str, shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Index selection of (B, fine, fine) fields on endpoint-inclusive nodes: (B, *shape).

    >>> select(np.arange(25).reshape(1, 5, 5), "endpoint", (3, 2)).tolist()
    [[[0, 4], [10, 14], [20, 24]]]
    """
    for fine, n in zip(field.shape[1:], shape, strict=True):
        if n > fine:
            raise ValueError(
                f"resolution {n} is finer than the solve on {fine} nodes per axis; make the problem with fine={n} or "
                f"more"
            )
    i, j = (nearest(Axis1D("endpoint", m, placement, n)).numpy() for m, n in zip(field.shape[1:], shape, strict=True))
    return field[:, i[:, None], j]


def cubic(field: npt.NDArray[Any], placement: str, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Bicubic spline interpolation of (B, fine, fine) fields on endpoint-inclusive nodes: (B, *shape)."""
    left, right = (_spline(Axis1D("endpoint", m, placement, n)) for m, n in zip(field.shape[1:], shape, strict=True))
    return sandwich(left, field.astype(np.float64, copy=False), right)


def low_passed(field: npt.NDArray[Any], placement: str, shape: tuple[int, int], band: int) -> npt.NDArray[np.float64]:
    """The cosine series of (B, fine, fine) fields on endpoint-inclusive nodes up to ``band`` periods per length, on a
    grid: (B, *shape).

    >>> wave = np.cos(2 * np.pi * np.arange(9) / 8)  # one period
    >>> np.round(low_passed(np.outer(wave, wave**4)[None], "periodic", (4, 2), 1), 12)[0, :, 0] + 0
    array([ 0.375,  0.   , -0.375,  0.   ])
    """
    left, right = (_low_pass(m, placement, n, band) for m, n in zip(field.shape[1:], shape, strict=True))
    return sandwich(left, field.astype(np.float64, copy=False), right)


@lru_cache(maxsize=32)
def _low_pass(fine: int, placement: str, n: int, band: int) -> npt.NDArray[np.float64]:
    """(n, fine): onto cos(kπx), k = 0 … 2·band, by the trapezoid rule, exact for the product of two."""
    count = min(2 * band + 1, fine)
    series = cosines("endpoint", fine, count).T / (fine - 1)
    series[1:] *= 2
    series[:, [0, -1]] /= 2
    if count == fine:
        series[-1] /= 2  # the last wave takes ±1 in turn, its mean square is 1
    values: npt.NDArray[np.float64] = cosines(placement, n, count) @ series
    values.flags.writeable = False
    return values


@lru_cache(maxsize=32)
def _spline(axis: Axis1D) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = matrix(axis, "cubic").numpy()
    values.flags.writeable = False
    return values
