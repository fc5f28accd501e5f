"""The inner loops of the elliptic solver, in two forms: with numba (extra ``fast``) and with numpy alone.

Functions on the n×n endpoint-inclusive grid are (n, n) arrays with zeros on the boundary where neighbours are needed,
and (m, m), m = n−2, where only interior values matter. Lengths are in units of the spacing, so h² does not appear.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]


class Kernels(Protocol):
    """The parts of a conjugate gradient iteration, each in one pass over the arrays."""

    def direct(self, p: F32, z: F32, beta: float, a: F32, r: F32, q: F32) -> tuple[float, float]:
        """Direction p ← z + βp, q ← Ap; returns p·q and p·r."""

    def advance(self, u: F64, p: F32, r: F32, q: F32, alpha: float, low: F32) -> float:
        """Step u ← u + αp, r ← r − αq, low ← r; returns r·r."""

    def products(self, z: F32, r: F32, q: F32) -> tuple[float, float]:
        """Products z·r and z·q."""

    def residual(self, u: F64, f: F64, a: F64, r: F32, low: F32) -> tuple[float, float]:
        """True residual r ← f − Au, low ← r; returns r·r, and |diag(A)u|², which times ε² is the rounding in r·r."""

    def precondition(self, low: F32, pivots: F32) -> F32:
        """A multiple of (−Δ)⁻¹ low, which is overwritten; ``pivots`` are those of :func:`inverse_pivots`."""


def inverse_pivots(m: int) -> F32:
    """Inverse pivots c(i, k) of the tridiagonal matrices (−1, 2 + λ(k), −1), λ(k) = 2 − 2cos(πk/(m+1)), k = 1…m."""
    s = 4 - 2 * np.cos(np.pi * np.arange(1, m + 1) / (m + 1))
    c = np.empty((m, m))
    c[0] = 1 / s
    for i in range(1, m):
        c[i] = 1 / (s - c[i - 1])
    return c.astype(np.float32)


def apply(a: npt.NDArray[Any], u: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Au in the interior: ½ Σ (a + a') (u − u') over the four neighbours, the 5-point scheme with averaged faces."""
    c, ac = u[1:-1, 1:-1], a[1:-1, 1:-1]
    q: npt.NDArray[Any] = (ac + a[:-2, 1:-1]) * (c - u[:-2, 1:-1])
    q += (ac + a[2:, 1:-1]) * (c - u[2:, 1:-1])
    q += (ac + a[1:-1, :-2]) * (c - u[1:-1, :-2])
    q += (ac + a[1:-1, 2:]) * (c - u[1:-1, 2:])
    q *= 0.5
    return q


class NumpyKernels:
    """The kernels with numpy alone."""

    def direct(self, p: F32, z: F32, beta: float, a: F32, r: F32, q: F32) -> tuple[float, float]:
        inner = p[1:-1, 1:-1]
        inner *= np.float32(beta)
        inner += z
        q[...] = apply(a, p)
        return _dot(inner, q), _dot(inner, r)

    def advance(self, u: F64, p: F32, r: F32, q: F32, alpha: float, low: F32) -> float:
        u += alpha * p.astype(np.float64)
        r -= np.float32(alpha) * q
        low[...] = r
        return _dot(r, r)

    def products(self, z: F32, r: F32, q: F32) -> tuple[float, float]:
        return _dot(z, r), _dot(z, q)

    def residual(self, u: F64, f: F64, a: F64, r: F32, low: F32) -> tuple[float, float]:
        exact = f - apply(a, u)
        r[...] = low[...] = exact
        c = a[1:-1, 1:-1]
        faces = 2 * c + (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 2
        scale = faces * u[1:-1, 1:-1]
        return _dot(exact, exact), _dot(scale, scale)

    def precondition(self, low: F32, pivots: F32) -> F32:
        from scipy.fft import dst

        d: F32 = dst(low, type=1, axis=1, overwrite_x=True)
        d[0] *= pivots[0]
        for i in range(1, len(d)):
            d[i] += d[i - 1]
            d[i] *= pivots[i]
        for i in range(len(d) - 2, -1, -1):
            d[i] += pivots[i] * d[i + 1]
        back: F32 = dst(d, type=1, axis=1, overwrite_x=True)
        return back


def _dot(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    return float(np.einsum("ij,ij->", x, y, dtype=np.float64))


def kernels() -> Kernels:
    """The compiled kernels if numba is installed (extra ``fast``), else the numpy kernels."""
    try:
        from quadnorm.problems.solvers import stencil_numba
    except ImportError:
        return NumpyKernels()
    compiled: Any = stencil_numba  # a module of functions with the protocol's signatures
    return compiled  # type: ignore[no-any-return]
