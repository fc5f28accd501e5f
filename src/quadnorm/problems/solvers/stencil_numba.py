"""Compiled form of the functions in :mod:`quadnorm.problems.solvers.stencil`; they release the GIL.

Each thread works on one sample at a time: its arrays stay in the cache, and its bits do not depend on other samples.
Sums run in single precision along a row and in double precision over the rows.
"""

from typing import Any

import numba
import numpy as np

# Reassociation only reorders the sums, which vectorises them; NaN must still propagate, so not all of fastmath.
_jit = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
f32, f64 = np.float32, np.float64


@_jit
def direct(p: Any, z: Any, beta: float, a: Any, r: Any, q: Any) -> tuple[float, float]:
    """Direction p ← z + βp, q ← Ap; returns p·q and p·r."""
    m = q.shape[0]
    b, half = f32(beta), f32(0.5)
    pq = 0.0
    pr = 0.0
    for j in range(m):
        p[1, j + 1] = z[0, j] + b * p[1, j + 1]
    for i in range(m):
        if i + 1 < m:  # the next row must be updated before this row reads it
            for j in range(m):
                p[i + 2, j + 1] = z[i + 1, j] + b * p[i + 2, j + 1]
        s = f32(0.0)
        t = f32(0.0)
        for j in range(m):
            # Differences of neighbouring values are exact even in single precision.
            c = p[i + 1, j + 1]
            ac = a[i + 1, j + 1]
            v = (ac + a[i, j + 1]) * (c - p[i, j + 1]) + (ac + a[i + 2, j + 1]) * (c - p[i + 2, j + 1])
            v += (ac + a[i + 1, j]) * (c - p[i + 1, j]) + (ac + a[i + 1, j + 2]) * (c - p[i + 1, j + 2])
            v *= half
            q[i, j] = v
            s += c * v
            t += c * r[i, j]
        pq += f64(s)
        pr += f64(t)
    return pq, pr


@_jit
def advance(u: Any, p: Any, r: Any, q: Any, alpha: float, low: Any) -> float:
    """Step u ← u + αp, r ← r − αq, low ← r; returns r·r."""
    m = r.shape[0]
    step = f32(alpha)
    total = 0.0
    for i in range(m):
        row = f32(0.0)
        for j in range(m):
            u[i + 1, j + 1] += alpha * f64(p[i + 1, j + 1])
            v = r[i, j] - step * q[i, j]
            r[i, j] = v
            low[i, j] = v
            row += v * v
        total += f64(row)
    return total


@_jit
def products(z: Any, r: Any, q: Any) -> tuple[float, float]:
    """Products z·r and z·q."""
    m = r.shape[0]
    zr = 0.0
    zq = 0.0
    for i in range(m):
        s = f32(0.0)
        t = f32(0.0)
        for j in range(m):
            s += z[i, j] * r[i, j]
            t += z[i, j] * q[i, j]
        zr += f64(s)
        zq += f64(t)
    return zr, zq


@_jit
def residual(u: Any, f: Any, a: Any, r: Any, low: Any) -> tuple[float, float]:
    """True residual r ← f − Au, low ← r; returns r·r and |diag(A)u|²."""
    m = r.shape[0]
    total = 0.0
    scale = 0.0
    for i in range(m):
        row = 0.0
        size = 0.0
        for j in range(m):
            c = u[i + 1, j + 1]
            n, s, w, e = a[i, j + 1], a[i + 2, j + 1], a[i + 1, j], a[i + 1, j + 2]
            ac = a[i + 1, j + 1]
            v = (ac + n) * (c - u[i, j + 1]) + (ac + s) * (c - u[i + 2, j + 1])
            v += (ac + w) * (c - u[i + 1, j]) + (ac + e) * (c - u[i + 1, j + 2])
            v = f[i, j] - 0.5 * v
            r[i, j] = f32(v)
            low[i, j] = f32(v)
            row += v * v
            g = 0.5 * (4 * ac + n + s + w + e) * c
            size += g * g
        total += row
        scale += size
    return total, scale


def precondition(low: Any, pivots: Any) -> Any:
    """A multiple of (−Δ)⁻¹ low: sine transform of the rows, tridiagonal solves down the columns, and back."""
    from scipy.fft import rfft

    n = len(low) + 1
    sine = np.sin(np.pi * np.arange(n) / n).astype(f32)
    folded = np.empty((n - 1, n), f32)
    _fold(low, sine, folded)
    _unfold(rfft(folded), low)
    _tridiagonal(low, pivots)
    _fold(low, sine, folded)
    _unfold(rfft(folded), low)
    return low


@_jit
def _fold(x: Any, sine: Any, y: Any) -> None:
    """Rows whose real FFT of length N = m+1 holds the DST-I of x, which as an odd sequence has length 2N.

    y(j) = sin(πj/N) (x(j) + x(N−j)) + ½ (x(j) − x(N−j)), y(0) = 0. With S(k) = Σ x(j) sin(πjk/N), its transform is
    Y(k) = S(2k+1) − S(2k−1) − i S(2k).
    """
    m = x.shape[0]
    half = f32(0.5)
    for i in range(m):
        y[i, 0] = f32(0.0)
        for j in range(1, m + 1):
            a, b = x[i, j - 1], x[i, m - j]
            y[i, j] = sine[j] * (a + b) + half * (a - b)


@_jit
def _unfold(y: Any, s: Any) -> None:
    """The sine transforms S(1…m) of the rows from the transforms Y(0…N/2) of the folded rows."""
    m = s.shape[0]
    for i in range(m):
        odd = f32(0.5) * y[i, 0].real  # S(1) = −S(−1)
        s[i, 0] = odd
        for k in range(1, m // 2 + 1):
            s[i, 2 * k - 1] = -y[i, k].imag
            if 2 * k < m:
                odd += y[i, k].real
                s[i, 2 * k] = odd


@_jit
def _tridiagonal(d: Any, c: Any) -> None:
    """Solve −x(i−1) + s(k)·x(i) − x(i+1) = d(i) down each column k in place, given the inverse pivots c."""
    m = d.shape[0]
    for k in range(m):
        d[0, k] *= c[0, k]
    for i in range(1, m):
        for k in range(m):
            d[i, k] = (d[i, k] + d[i - 1, k]) * c[i, k]
    for i in range(m - 2, -1, -1):
        for k in range(m):
            d[i, k] += c[i, k] * d[i + 1, k]
