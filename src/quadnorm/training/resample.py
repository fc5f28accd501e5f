"""From one grid's samples to another grid's: index selection and cubic interpolation, for every node placement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.problems.base import axis_fractions

METHODS = ("index", "bicubic")


def resample(field: Tensor, shape: Sequence[int], placement: str, method: str) -> Tensor:
    """Samples (..., *spatial) of one grid as samples (..., *shape) of another with the same node placement.

    ``index`` takes the nearest sample: values stay those of the field, a binary coefficient stays binary.
    ``bicubic`` is cubic convolution along each axis, of third order and exact for quadratics; it overshoots at jumps.
    Periodic axes wrap around. Keys' kernel with a = −1/2 and his boundary condition: torch's bicubic mode has a = −3/4
    and repeats the end values, which makes it of first order only, no match for the errors of a good model.

    >>> resample(torch.arange(5.0), (3,), "endpoint", "index")
    tensor([0., 2., 4.])
    """
    if method not in METHODS:
        raise ValueError(unknown("way to resample", method, METHODS))
    for axis, n in enumerate(shape, start=-len(shape)):
        if method == "index":
            field = field.index_select(axis, torch.from_numpy(nearest(placement, field.shape[axis], n)))
        else:
            matrix = torch.from_numpy(cubic_matrix(placement, field.shape[axis], n)).to(field.dtype)
            field = (field.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
    return field


def positions(placement: str, source: int, n: int) -> tuple[npt.NDArray[np.int64], int]:
    """Where the n nodes of an axis lie among its ``source`` nodes, in units of the spacing: a[j] / b, exactly."""
    c, d = axis_fractions(placement, n)  # node j is at c[j]/d of the axis
    match placement:
        case "endpoint":
            return c * (source - 1), d
        case "cell":
            return 2 * c * source - d, 2 * d
        case "interior":
            return c * (source + 1) - d, d
        case _:
            return c * source, d


def nearest(placement: str, source: int, n: int) -> npt.NDArray[np.int64]:
    """Index of the sample nearest to each of the n nodes, ties to the even one.

    >>> nearest("endpoint", 9, 5).tolist(), nearest("periodic", 8, 4).tolist(), nearest("cell", 9, 3).tolist()
    ([0, 2, 4, 6, 8], [0, 2, 4, 6], [1, 4, 7])
    """
    if n > source:
        raise ValueError(f"cannot select {n} of {source} samples; choose a source grid at least as fine, or 'bicubic'")
    a, b = positions(placement, source, n)
    low, rest = np.divmod(a, b)
    index: npt.NDArray[np.int64] = low + ((2 * rest > b) | ((2 * rest == b) & (low % 2 == 1)))
    return index % source if placement == "periodic" else index.clip(0, source - 1)


def cubic_matrix(placement: str, source: int, n: int) -> npt.NDArray[np.float64]:
    """The (n, source) matrix of cubic convolution: row j holds the weights of the samples around node j.

    Beyond the ends of an axis that is not periodic stands the parabola through the last three samples.
    """
    if source < 4:
        raise ValueError(f"cubic interpolation needs 4 samples per axis or more, got {source}")
    a, b = positions(placement, source, n)
    low, rest = np.divmod(a, b)
    matrix = np.zeros((n, source))
    for k in (-1, 0, 1, 2):
        weight = _keys(np.abs(rest / b - k))
        for j in range(n):
            at = int(low[j]) + k
            if placement == "periodic":
                matrix[j, at % source] += weight[j]
            elif at < 0:
                matrix[j, :3] += weight[j] * _parabola(at)
            elif at >= source:
                matrix[j, -3:] += weight[j] * _parabola(source - 1 - at)[::-1]
            else:
                matrix[j, at] += weight[j]
    return matrix


def _parabola(s: int) -> npt.NDArray[np.float64]:
    """Weights of f(0), f(1), f(2) in the value at s of the parabola through them."""
    return np.array([(s - 1) * (s - 2) / 2, -s * (s - 2), s * (s - 1) / 2])


def _keys(s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    near, far = 1.5 * s**3 - 2.5 * s**2 + 1, -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2
    kernel: npt.NDArray[np.float64] = np.where(s <= 1, near, np.where(s < 2, far, 0.0))
    return kernel
