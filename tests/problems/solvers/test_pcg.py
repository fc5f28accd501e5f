"""The elliptic solver: calculus, a sparse direct solve, residuals, boundary values, and both sets of kernels."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from quadnorm.problems.solvers import pcg
from quadnorm.problems.solvers.stencil import NumpyKernels, apply, inverse_pivots, kernels


def matrix(a):
    """The 5-point scheme entry by entry: the slow, obvious assembly."""
    n = len(a)
    at = {(i, j): (i - 1) * (n - 2) + j - 1 for i in range(1, n - 1) for j in range(1, n - 1)}
    rows, columns, values = [], [], []
    for (i, j), row in at.items():
        for ni, nj in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            face = (a[i, j] + a[ni, nj]) / 2 * (n - 1) ** 2
            rows.append(row), columns.append(row), values.append(face)
            if (ni, nj) in at:
                rows.append(row), columns.append(at[ni, nj]), values.append(-face)
    return sp.csc_array((values, (rows, columns)), shape=(len(at), len(at)))


def two_valued(n, seed=0, count=1):
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n)
    out = []
    for _ in range(count):
        k = rng.uniform(2, 9, 4)
        out.append(np.where(np.sin(k[0] * x[:, None] + k[1] * x) + np.cos(k[2] * x[:, None] - k[3] * x) > 0, 12.0, 3.0))
    return np.stack(out)


def test_agrees_with_a_sparse_direct_solve():
    rng = np.random.default_rng(0)
    n = 30
    a = np.exp(rng.standard_normal((3, n, n)))
    f = rng.standard_normal((3, n, n))
    got = pcg.solve(a, f)
    for i in range(3):
        want = spsolve(matrix(a[i]), f[i, 1:-1, 1:-1].ravel()).reshape(n - 2, n - 2)
        assert np.abs(got.u[i, 1:-1, 1:-1] - want).max() < 1e-10 * np.abs(want).max()


def test_residual_and_boundary():
    """The recorded residual is the true one, computed here with the assembled matrix; the ring is exactly zero."""
    n = 65
    a = two_valued(n, count=2)
    got = pcg.solve(a)
    for i in range(2):
        b = np.ones((n - 2) ** 2)
        true = np.linalg.norm(b - matrix(a[i]) @ got.u[i, 1:-1, 1:-1].ravel()) / np.linalg.norm(b)
        assert true < 1e-11
        assert got.residual[i] < 4e-12
    for ring in (got.u[:, 0], got.u[:, -1], got.u[:, :, 0], got.u[:, :, -1]):
        assert (ring == 0).all()
    assert (got.u[:, 1:-1, 1:-1] > 0).all()  # maximum principle: f = 1


@pytest.mark.parametrize("scaled", [False, True])
def test_second_order_for_a_manufactured_solution(scaled):
    """u = sin(πx) sin(2πy), a = 2 + sin(3x) cos(2y): f = −a_x u_x − a_y u_y + 5π² a u."""
    errors = []
    for n in (17, 33, 65, 129):
        x = np.linspace(0, 1, n)[:, None]
        y = np.linspace(0, 1, n)[None]
        u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        a = 2 + np.sin(3 * x) * np.cos(2 * y)
        ux, uy = (
            np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y),
            2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y),
        )
        f = -3 * np.cos(3 * x) * np.cos(2 * y) * ux + 2 * np.sin(3 * x) * np.sin(2 * y) * uy + 5 * np.pi**2 * a * u
        errors.append(np.abs(pcg.solve(a[None], f[None], scaled=scaled).u[0] - u).max())
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(rates - 2) < 0.1).all()
    assert errors[-1] < 1e-3


def test_iterations_do_not_grow_with_the_grid():
    """κ ≤ 12/3 = 4, so the error falls by (√4−1)/(√4+1) = 1/3 per iteration: ln(10¹²)/ln 3 ≈ 25, plus a few."""
    counts = [int(pcg.solve(two_valued(n)).iterations[0]) for n in (33, 65, 129, 257)]
    assert max(counts) <= 32
    assert counts[-1] - counts[0] <= 6


def test_constant_coefficient_is_solved_at_once():
    got = pcg.solve(np.full((1, 65, 65), 5.0))
    assert got.iterations[0] <= 4  # one would do, were the preconditioner not in single precision


def test_torsion_of_the_square():
    """−Δu = 1: u(½, ½) = Σ over odd m, n of 16 sin(mπ/2) sin(nπ/2) / (π⁴ mn (m²+n²)) = 0.0736713…"""
    u = [pcg.solve(np.ones((1, n, n))).u[0, n // 2, n // 2] for n in (33, 65)]
    extrapolated = u[1] + (u[1] - u[0]) / 3
    assert abs(extrapolated - 0.0736713532) < 1e-7


def test_compiled_and_plain_kernels_agree(monkeypatch):
    a = two_valued(40, count=2)
    f = np.random.default_rng(1).standard_normal(a.shape)
    compiled = pcg.solve(a, f)
    monkeypatch.setitem(sys.modules, "quadnorm.problems.solvers.stencil_numba", None)  # as if numba were not installed
    monkeypatch.delattr("quadnorm.problems.solvers.stencil_numba", raising=False)
    pcg._tables.cache_clear()
    assert isinstance(kernels(), NumpyKernels)
    plain = pcg.solve(a, f)
    pcg._tables.cache_clear()
    assert np.abs(compiled.u - plain.u).max() < 1e-11 * np.abs(plain.u).max()
    assert np.abs(compiled.iterations - plain.iterations).max() <= 1
    assert plain.residual.max() < 1e-11


@pytest.mark.parametrize("n", [3, 4, 9, 10, 33, 64])
def test_preconditioners_invert_the_laplacian(n):
    """Up to a factor: the 5-point −Δ of the result, on nodes whose ring is zero, is a multiple of what went in."""
    r = np.random.default_rng(n).standard_normal((n - 2, n - 2)).astype(np.float32)
    outputs = [k.precondition(r.copy(), inverse_pivots(n - 2)).astype(np.float64) for k in (NumpyKernels(), kernels())]
    for z, factor in zip(
        outputs, (2 * (n - 1), (n - 1) / 2), strict=True
    ):  # DST-I twice; without its 2, four times less
        back = apply(np.ones((n, n)), np.pad(z, 1)) / factor
        assert np.abs(back - r).max() < 2e-4 * np.abs(r).max()


def test_tolerance_below_rounding_stops_at_rounding():
    got = pcg.solve(two_valued(129), tol=1e-14)
    assert got.iterations[0] <= 35
    assert got.residual[0] < 1e-12


def test_a_force_that_is_not_finite_is_said():
    with pytest.raises(ValueError, match="f holds NaN"):
        pcg.solve(np.ones((1, 9, 9)), np.nan)


def test_same_bits_on_any_number_of_workers():
    a = two_valued(65, count=6)
    alone = pcg.solve(a[4:5]).u[0]
    for workers in (1, 2, 4):
        assert (pcg.solve(a, workers=workers).u[4] == alone).all()


@pytest.mark.parametrize("scale", [1e-60, 1e-6, 3e40])
def test_linear_in_the_force_at_any_scale(scale):
    a = two_valued(33)
    f = np.random.default_rng(2).standard_normal(a.shape)
    want, got = pcg.solve(a, f), pcg.solve(a, scale * f)
    assert np.abs(got.u / scale - want.u).max() < 1e-11 * np.abs(want.u).max()
    assert got.residual[0] < 4e-12


def test_zero_force():
    got = pcg.solve(two_valued(17), 0.0)
    assert (got.u == 0).all()
    assert got.iterations[0] == 0


def test_no_convergence_is_said(monkeypatch):
    monkeypatch.setattr(pcg, "MAX_ITERATIONS", 3)
    with pytest.raises(
        RuntimeError, match=r"no convergence in 3 iterations on 33×33 nodes .* max a / min a = 4.0e\+00"
    ):
        pcg.solve(two_valued(33))


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.ones((9, 9)), r"a must be \(B, n, n\)"),
        (np.ones((1, 9, 8)), r"a must be \(B, n, n\)"),
        (np.zeros((1, 9, 9)), "positive and finite"),
        (np.full((1, 9, 9), np.nan), "positive and finite"),
    ],
)
def test_bad_coefficients_are_refused(a, message):
    with pytest.raises(ValueError, match=message):
        pcg.solve(a)


def test_smallest_grids():
    """One interior node: 4u/h² = 1 with h = ½; two by two: 2u/h² = 1 with h = ⅓."""
    assert np.isclose(pcg.solve(np.ones((1, 3, 3))).u[0, 1, 1], 1 / 16, rtol=1e-13)
    np.testing.assert_allclose(pcg.solve(np.ones((1, 4, 4))).u[0, 1:3, 1:3], 1 / 18, rtol=1e-13)


def test_missing_scipy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.fft", None)
    pcg._tables.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'quadnorm\[bench\]'"):
        pcg.solve(np.ones((1, 5, 5)))
