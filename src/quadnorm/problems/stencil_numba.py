"""Compiled form of :mod:`quadnorm.problems.stencil`: same meanings, one pass each, the GIL released.

One sample at a time per thread: its seven arrays stay in the cache, and its bits cannot depend on its neighbours.
"""

from typing import Any

import numba
import numpy as np

# Reassociation only reorders the sums, which vectorises them; NaN must still propagate, so not all of fastmath.
_jit = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_jit
def direct(p: Any, z: Any, beta: float, a: Any, q: Any) -> float:
    """Direction p ← z + βp, q ← Ap; returns p·q."""
    n = p.shape[0]
    m = n - 2
    total = 0.0
    for j in range(m):
        p[1, j + 1] = z[0, j] + beta * p[1, j + 1]
    for i in range(m):
        if i + 1 < m:  # the row below must be new before this row reads it
            for j in range(m):
                p[i + 2, j + 1] = z[i + 1, j] + beta * p[i + 2, j + 1]
        row = 0.0
        for j in range(m):
            c = p[i + 1, j + 1]
            ac = a[i + 1, j + 1]
            v = (ac + a[i, j + 1]) * (c - p[i, j + 1]) + (ac + a[i + 2, j + 1]) * (c - p[i + 2, j + 1])
            v += (ac + a[i + 1, j]) * (c - p[i + 1, j]) + (ac + a[i + 1, j + 2]) * (c - p[i + 1, j + 2])
            v *= 0.5
            q[i, j] = v
            row += c * v
        total += row
    return total


@_jit
def advance(u: Any, p: Any, r: Any, q: Any, alpha: float, low: Any) -> float:
    """Step u ← u + αp, r ← r − αq, low ← r; returns r·r."""
    m = r.shape[0]
    total = 0.0
    for i in range(m):
        row = 0.0
        for j in range(m):
            u[i + 1, j + 1] += alpha * p[i + 1, j + 1]
            v = r[i, j] - alpha * q[i, j]
            r[i, j] = v
            low[i, j] = np.float32(v)
            row += v * v
        total += row
    return total


@_jit
def products(z: Any, r: Any, q: Any) -> tuple[float, float]:
    """Products z·r and z·q."""
    m = r.shape[0]
    zr = 0.0
    zq = 0.0
    for i in range(m):
        s = 0.0
        t = 0.0
        for j in range(m):
            v = np.float64(z[i, j])
            s += v * r[i, j]
            t += v * q[i, j]
        zr += s
        zq += t
    return zr, zq


@_jit
def residual(u: Any, f: Any, a: Any, r: Any, low: Any) -> float:
    """True residual r ← f − Au, low ← r; returns r·r."""
    m = r.shape[0]
    total = 0.0
    for i in range(m):
        row = 0.0
        for j in range(m):
            c = u[i + 1, j + 1]
            ac = a[i + 1, j + 1]
            v = (ac + a[i, j + 1]) * (c - u[i, j + 1]) + (ac + a[i + 2, j + 1]) * (c - u[i + 2, j + 1])
            v += (ac + a[i + 1, j]) * (c - u[i + 1, j]) + (ac + a[i + 1, j + 2]) * (c - u[i + 1, j + 2])
            v = f[i, j] - 0.5 * v
            r[i, j] = v
            low[i, j] = np.float32(v)
            row += v * v
        total += row
    return total


@_jit
def tridiagonal(d: Any, c: Any) -> None:
    """Solve −x(i−1) + s(k)·x(i) − x(i+1) = d(i) down each column k in place, given the inverse pivots c."""
    m, n = d.shape
    for k in range(n):
        d[0, k] *= c[0, k]
    for i in range(1, m):
        for k in range(n):
            d[i, k] = (d[i, k] + d[i - 1, k]) * c[i, k]
    for i in range(m - 2, -1, -1):
        for k in range(n):
            d[i, k] += c[i, k] * d[i + 1, k]
