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
    ``bicubic`` is cubic convolution along each axis (Keys' kernel with a = −3/4, as torch's): smooth, with overshoots
    at jumps. Periodic axes wrap around; elsewhere the end values continue outwards.

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
    """The (n, source) matrix of cubic convolution: row j holds the weights of the four samples around node j."""
    a, b = positions(placement, source, n)
    low, rest = np.divmod(a, b)
    t = rest / b
    matrix = np.zeros((n, source))
    for k in (-1, 0, 1, 2):
        at = low + k
        at = at % source if placement == "periodic" else at.clip(0, source - 1)
        np.add.at(matrix, (np.arange(n), at), _keys(np.abs(t - k)))
    return matrix


def _keys(s: npt.NDArray[np.float64], a: float = -0.75) -> npt.NDArray[np.float64]:
    near = (a + 2) * s**3 - (a + 3) * s**2 + 1
    far = a * (s**3 - 5 * s**2 + 8 * s - 4)
    kernel: npt.NDArray[np.float64] = np.where(s <= 1, near, np.where(s < 2, far, 0.0))
    return kernel
