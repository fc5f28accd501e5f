"""−∇·(a∇u) = f on the unit square, u = 0 on its boundary: conjugate gradients, preconditioned by a fast Poisson solver.

    5-point scheme on n×n endpoint-inclusive nodes; a face's coefficient is the mean of its two nodal values.

The preconditioner is the inverse of the same scheme with a = 1: a sine transform (DST-I) along one axis leaves one
tridiagonal system per mode along the other. The condition number is bounded by max a / min a whatever n, so the number
of iterations does not grow with the grid.

The iteration runs in single precision, where it costs half, with the Polak–Ribière form of β, which forgives rounding.
Whenever its residual has fallen a thousandfold, the gathered step is added to u in double precision and the true
residual takes the place of the iterated one: the result is as accurate as in double precision throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm.problems.solvers.pool import run
from quadnorm.problems.solvers.stencil import F32, F64, Kernels, inverse_pivots, kernels

MAX_ITERATIONS = 500
_REFRESH = 1e-3
_ROUNDING = 0.7 * 2.0**-53  # times |diag(A)u|: the residual that comes from rounding u; half of it was never reached


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

    Stops when the true residual is below ``tol``·‖f‖, or is no more than the rounding of u. ``scaled`` preconditions
    with a^(−½)·Δ⁻¹·a^(−½), far better where a is smooth, far worse where it jumps. Samples are solved one by one,
    ``workers`` at a time, so that the bits of one depend neither on the others nor on ``workers``.

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
    """Like :func:`solve`; the i-th coefficient field is made by the worker that solves for it."""
    force = np.broadcast_to(np.asarray(f, np.float64), (count, n, n))
    _tables(n)  # made once, before workers ask for them
    u = np.empty((count, n, n))
    iterations = np.empty(count, np.int64)
    residual = np.empty(count)

    def work(i: int) -> None:
        a = np.ascontiguousarray(coefficient(i), np.float64)
        iterations[i], residual[i] = _solve_one(a, force[i], u[i], tol, scaled)

    run([partial(work, i) for i in range(count)], workers)
    return Solution(u, iterations, residual)


@lru_cache(maxsize=4)
def _tables(n: int) -> tuple[Kernels, F32]:
    """The kernels, and the pivots of the preconditioner on n×n nodes."""
    try:
        import scipy.fft  # noqa: F401
    except ImportError as error:
        raise ImportError("the elliptic solver needs scipy: pip install 'quadnorm[bench]'") from error
    return kernels(), inverse_pivots(n - 2)


def _solve_one(a: F64, force: F64, u: F64, tol: float, scaled: bool) -> tuple[int, float]:
    """Write the solution of one sample into u (n, n); returns the iterations and the relative residual."""
    u[...] = 0.0
    f = force[1:-1, 1:-1] / (len(a) - 1) ** 2
    largest = float(np.abs(f).max())
    if not np.isfinite(largest):
        raise ValueError("f holds NaN or infinite values; expected finite numbers")
    if largest == 0.0:
        return 0, 0.0
    # Brought near 1 by a power of two, which is exact: squares must neither underflow nor overflow.
    unit = 2.0 ** np.round(np.log2(largest))
    f /= unit
    count, residual = _iterate(a, f, u, tol, scaled)
    u *= unit
    return count, residual


def _iterate(a: F64, f: F64, u: F64, tol: float, scaled: bool) -> tuple[int, float]:
    """Conjugate gradients from u = 0, for f of about 1 in the interior."""
    k, pivots = _tables(len(a))
    size = float(np.einsum("ij,ij->", f, f))
    coefficient = a.astype(np.float32)
    s = 1 / np.sqrt(coefficient[1:-1, 1:-1]) if scaled else None
    step, p = np.zeros(a.shape), np.zeros(a.shape, np.float32)
    r, q = f.astype(np.float32), np.zeros(f.shape, np.float32)
    low = r.copy()
    rz, alpha, count, fresh = 0.0, 0.0, 0, True
    true, target = size, tol * tol * size
    while true > target:
        if count == MAX_ITERATIONS:
            raise _no_convergence(a, np.sqrt(true / size), tol)
        if s is not None:
            low *= s
        z = k.precondition(low, pivots)
        if s is not None:
            z *= s
        zr, zq = k.products(z, r, q)
        beta = 0.0 if fresh else -alpha * zq / rz  # Polak–Ribière: z·(r − r_old) = −α z·q
        rz = zr
        pq, pr = k.direct(p, z, beta, coefficient, r, q)
        alpha = pr / pq  # not z·r/p·q: a refreshed residual is not quite orthogonal to the last direction
        rr = k.advance(step, p, r, q, alpha, low)
        count += 1
        fresh = False
        if not rr > max(_REFRESH**2 * true, target):  # also when it is not a number
            u += step
            step[...] = 0.0
            true, scale = k.residual(u, f, a, r, low)
            # If rounding dominates, the new residual has nothing to do with the old directions.
            fresh = not true < 2 * rr < 4 * true
            if not np.isfinite(true):
                raise _breakdown(a, count)
            # Below this, the residual is the rounding of u itself; no solver can ask for less.
            target = max(tol * tol * size, _ROUNDING**2 * scale)
    return count, float(np.sqrt(true / size))


def _no_convergence(a: F64, residual: float, tol: float) -> RuntimeError:
    n = len(a)
    return RuntimeError(
        f"no convergence in {MAX_ITERATIONS} iterations on {n}×{n} nodes (residual {residual:.1e}, wanted {tol:.1e}, "
        f"max a / min a = {a.max() / a.min():.1e}); raise tol or lower the contrast"
    )


def _breakdown(a: F64, count: int) -> RuntimeError:
    n = len(a)
    return RuntimeError(f"the iteration broke down after {count} steps on {n}×{n} nodes; lower the contrast")
