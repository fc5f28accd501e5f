"""The inner loops of the elliptic solver, twice: with numba (extra ``fast``) and with numpy alone.

Grid functions of the n×n endpoint-inclusive grid are (n, n) with a zero boundary ring where neighbours are read, and
(m, m), m = n−2, where only interior values matter. Lengths are in units of the spacing, so h² is nowhere below.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]


class Kernels(Protocol):
    """What a conjugate gradient iteration is made of, each fused into one pass over the arrays."""

    def direct(self, p: F64, z: F32, beta: float, a: F64, q: F64) -> float:
        """Direction p ← z + βp, q ← Ap; returns p·q."""

    def advance(self, u: F64, p: F64, r: F64, q: F64, alpha: float, low: F32) -> float:
        """Step u ← u + αp, r ← r − αq, low ← r; returns r·r."""

    def products(self, z: F32, r: F64, q: F64) -> tuple[float, float]:
        """Products z·r and z·q."""

    def residual(self, u: F64, f: F64, a: F64, r: F64, low: F32) -> float:
        """True residual r ← f − Au, low ← r; returns r·r."""

    def tridiagonal(self, d: F32, c: F32) -> None:
        """Solve in place, down each column k, −x(i−1) + s(k)·x(i) − x(i+1) = d(i); c(i, k) are the pivots' inverses."""


def apply(a: F64, u: F64) -> F64:
    """Au in the interior: ½ Σ (a + a') (u − u') over the four neighbours, the 5-point scheme with averaged faces."""
    c, ac = u[1:-1, 1:-1], a[1:-1, 1:-1]
    q = (ac + a[:-2, 1:-1]) * (c - u[:-2, 1:-1])
    q += (ac + a[2:, 1:-1]) * (c - u[2:, 1:-1])
    q += (ac + a[1:-1, :-2]) * (c - u[1:-1, :-2])
    q += (ac + a[1:-1, 2:]) * (c - u[1:-1, 2:])
    q *= 0.5
    return q


class NumpyKernels:
    """The plain form."""

    def direct(self, p: F64, z: F32, beta: float, a: F64, q: F64) -> float:
        inner = p[1:-1, 1:-1]
        inner *= beta
        inner += z
        q[...] = apply(a, p)
        return float(np.einsum("ij,ij->", inner, q))

    def advance(self, u: F64, p: F64, r: F64, q: F64, alpha: float, low: F32) -> float:
        u += alpha * p
        r -= alpha * q
        low[...] = r
        return float(np.einsum("ij,ij->", r, r))

    def products(self, z: F32, r: F64, q: F64) -> tuple[float, float]:
        return float(np.einsum("ij,ij->", z, r)), float(np.einsum("ij,ij->", z, q))

    def residual(self, u: F64, f: F64, a: F64, r: F64, low: F32) -> float:
        np.subtract(f, apply(a, u), out=r)
        low[...] = r
        return float(np.einsum("ij,ij->", r, r))

    def tridiagonal(self, d: F32, c: F32) -> None:
        d[0] *= c[0]
        for i in range(1, len(d)):
            d[i] += d[i - 1]
            d[i] *= c[i]
        for i in range(len(d) - 2, -1, -1):
            d[i] += c[i] * d[i + 1]


def kernels() -> Kernels:
    """The compiled kernels if numba is installed (extra ``fast``), the plain ones if not."""
    try:
        from quadnorm.problems import stencil_numba
    except ImportError:
        return NumpyKernels()
    compiled: Any = stencil_numba  # a module of functions with the protocol's signatures
    return compiled  # type: ignore[no-any-return]
