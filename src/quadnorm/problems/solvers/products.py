"""Matrix products in pieces that are so small that the BLAS library computes them on the calling thread.

A threaded BLAS splits even small products over all cores and waits for them by spinning; on a busy machine that is tens
to hundreds of times slower than one thread. Here threads are used for different samples instead. The shape of a piece
depends on the operands' shapes only, so the bits do not depend on the batch.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
_PIECE = 2**18  # multiply–adds; OpenBLAS threads a product above this many


def product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> F64:
    """``a @ b`` for a (…, m, k) and b (…, k, n) whose leading axes agree or are absent: (…, m, n).

    >>> product(np.ones((3, 2)), np.ones((5, 2, 4))).shape
    (5, 3, 4)
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = min(m, max(1, _PIECE // (k * n)))
    whole = m - m % rows
    pieces = a[..., :whole, :].reshape(*a.shape[:-2], whole // rows, rows, k)
    parts: F64 = np.matmul(pieces, b[..., None, :, :])  # (…, pieces, rows, n)
    if whole == m:
        return parts.reshape(*lead, m, n)
    out: F64 = np.empty((*lead, m, n))
    out[..., :whole, :] = parts.reshape(*lead, whole, n)
    np.matmul(a[..., whole:, :], b, out=out[..., whole:, :])
    return out


def sandwich(left: F64, c: npt.NDArray[Any], right: F64) -> F64:
    """``left @ c @ right.T``: left (m, j), c (…, j, k), right (n, k) to (…, m, n)."""
    return product(product(left, c), np.ascontiguousarray(right.T))
