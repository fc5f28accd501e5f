"""−∇·(a∇u) = f on the unit square, u = 0 on its boundary: conjugate gradients, preconditioned by a fast Poisson solver.

    5-point scheme on n×n endpoint-inclusive nodes; a face's coefficient is the mean of its two nodal values.

The preconditioner is the inverse of the same scheme with a = 1: a sine transform (DST-I) along one axis leaves one
tridiagonal system per mode along the other. Its condition number is bounded by max a / min a whatever n, so the number
of iterations does not grow with the grid. It runs in single precision, where it costs half; the iteration itself
is in double precision and uses the Polak–Ribière form of β, which forgives a preconditioner its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.problems.pool import run
from quadnorm.problems.stencil import F32, F64, Kernels, kernels

MAX_ITERATIONS = 500
_REFRESH = 1e-6


@dataclass(frozen=True)
class Solution:
    """u (B, n, n) with its zero boundary, and per sample the iterations and the true residual ‖f − Au‖ / ‖f‖."""

    u: F64
    iterations: npt.NDArray[np.int64]
    residual: F64


def solve(
    a: npt.NDArray[Any],
    f: float | npt.NDArray[Any] = 1.0,
    *,
    tol: float = 3e-12,
    scaled: bool = False,
    workers: int = 1,
) -> Solution:
    """Solve for every coefficient field of a (B, n, n); f is a number or (B, n, n).

    Stops when the iteration's residual is below ``tol``·‖f‖. ``scaled`` preconditions with a^(−½)·Δ⁻¹·a^(−½), far
    better where a is smooth, far worse where it jumps. Samples are solved one by one, ``workers`` at a time, so that
    the bits of one depend neither on the others nor on ``workers``.

    >>> import numpy as np
    >>> s = solve(np.ones((1, 33, 33)))
    >>> round(float(s.u[0, 16, 16]), 4)  # the torsion function of the square at its centre: 0.0737
    0.0736
    """
    a = np.asarray(a)
    if a.ndim != 3 or a.shape[1] != a.shape[2] or a.shape[1] < 3:
        raise ValueError(f"a must be (B, n, n) with n ≥ 3, nodal values on endpoint-inclusive nodes; got {a.shape}")
    if not np.isfinite(a).all() or a.min() <= 0:
        raise ValueError("a must be positive and finite everywhere: the equation is elliptic only then")
    return solve_each(a.__getitem__, len(a), a.shape[1], f, tol=tol, scaled=scaled, workers=workers)


def solve_each(
    coefficient: Callable[[int], npt.NDArray[Any]],
    count: int,
    n: int,
    f: float | npt.NDArray[Any] = 1.0,
    *,
    tol: float = 3e-12,
    scaled: bool = False,
    workers: int = 1,
) -> Solution:
    """As :func:`solve`, with the i-th coefficient field made by the worker that solves for it."""
    force = np.broadcast_to(np.asarray(f, np.float64), (count, n, n))
    one = _single(n)
    u = np.empty((count, n, n))
    iterations = np.empty(count, np.int64)
    residual = np.empty(count)

    def work(i: int) -> None:
        a = np.ascontiguousarray(coefficient(i), np.float64)
        iterations[i], residual[i] = one(a, force[i], u[i], tol, scaled)

    run([partial(work, i) for i in range(count)], workers)
    return Solution(u, iterations, residual)


@lru_cache(maxsize=4)
def _single(n: int) -> Callable[[F64, F64, F64, float, bool], tuple[int, float]]:
    """The solver of one sample on n×n nodes, with its tables made."""
    try:
        from scipy.fft import dst
    except ImportError as error:
        raise ImportError("the elliptic solver needs scipy: pip install 'quadnorm[bench]'") from error
    k: Kernels = kernels()
    m = n - 2
    pivots = _inverse_pivots(m)

    def precondition(low: F32) -> F32:
        modes: F32 = dst(low, type=1, axis=1, overwrite_x=True)
        k.tridiagonal(modes, pivots)
        back: F32 = dst(modes, type=1, axis=1, overwrite_x=True)
        return back  # times 2(n−1), which conjugate gradients do not see

    def one(a: F64, force: F64, u: F64, tol: float, scaled: bool) -> tuple[int, float]:
        f = force[1:-1, 1:-1] / (n - 1) ** 2
        s = (1 / np.sqrt(a[1:-1, 1:-1])).astype(np.float32) if scaled else None
        p, r, q, low = np.zeros((n, n)), f.copy(), np.zeros((m, m)), f.astype(np.float32)
        u[...] = 0.0
        size = float(np.einsum("ij,ij->", f, f))
        if size == 0.0:
            return 0, 0.0
        rz, alpha, count = 0.0, 0.0, 0
        base: F64 | None = None
        while True:
            if s is not None:
                low *= s
            z = precondition(low)
            if s is not None:
                z *= s
            zr, zq = k.products(z, r, q)
            beta = -alpha * zq / rz if count else 0.0  # Polak–Ribière: z·(r − r_old) = −α z·q
            rz = zr
            alpha = rz / k.direct(p, z, beta, a, q)
            rr = k.advance(u, p, r, q, alpha, low)
            count += 1
            if rr <= tol * tol * size:
                break
            if base is None and rr <= _REFRESH**2 * size:
                # Adding twenty updates to u rounds twenty times. The last ones are gathered apart from the bulk of u,
                # on its true residual, so that u is rounded once and the residual is that of a direct solve.
                rr = k.residual(u, f, a, r, low)
                base = u.copy()
                u[...] = 0.0
            if count == MAX_ITERATIONS or not np.isfinite(rr):
                raise RuntimeError(
                    f"no convergence in {count} iterations on {n}×{n} nodes (residual {np.sqrt(rr / size):.1e}, wanted "
                    f"{tol:.1e}, max a / min a = {a.max() / a.min():.1e}); raise tol or lower the contrast"
                )
        if base is not None:
            u += base
        true = k.residual(u, f, a, r, low)
        return count, float(np.sqrt(true / size))

    return one


def _inverse_pivots(m: int) -> F32:
    """Inverse pivots c(i, k) of the tridiagonal matrices (−1, 2 + λ(k), −1), λ(k) = 2 − 2cos(πk/(m+1)), k = 1…m."""
    s = 4 - 2 * np.cos(np.pi * np.arange(1, m + 1) / (m + 1))
    c = np.empty((m, m))
    c[0] = 1 / s
    for i in range(1, m):
        c[i] = 1 / (s - c[i - 1])
    return c.astype(np.float32)
