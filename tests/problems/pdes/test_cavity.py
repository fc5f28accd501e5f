"""Cavity flow: manufactured flow, Ghia's table, finite elements, residuals, and the sampling contract."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.polynomial import Polynomial

from quadnorm.problems import problem
from quadnorm.problems.solvers.streamfunction import solve

# Ghia, Ghia and Shin (1982), table I: u on the vertical centreline, Re = 100; y in units of 1/128
GHIA = {
    125: 0.84123,
    124: 0.78871,
    123: 0.73722,
    122: 0.68717,
    109: 0.23151,
    94: 0.00332,
    79: -0.13641,
    64: -0.20581,
    58: -0.21090,
    36: -0.15662,
    22: -0.10150,
    13: -0.06434,
    9: -0.04775,
    8: -0.04192,
    7: -0.03717,
}


def bump(n):
    x = np.arange(n + 1) / n
    return 16 * x**2 * (1 - x) ** 2


def inner_residual(psi, lid, nu):
    """νΔω − u·∇ω at every inner node, by loops over the formulas of the scheme (Thom's walls, central differences)."""
    n = len(psi) - 1
    h = 1 / n
    w = np.zeros_like(psi)
    for i in range(1, n):
        for j in range(1, n):
            w[i, j] = (4 * psi[i, j] - psi[i + 1, j] - psi[i - 1, j] - psi[i, j + 1] - psi[i, j - 1]) / h**2
        w[i, 0] = -2 * psi[i, 1] / h**2
        w[i, n] = -2 * (psi[i, n - 1] + h * lid[i]) / h**2
        w[0, i] = -2 * psi[1, i] / h**2
        w[n, i] = -2 * psi[n - 1, i] / h**2
    diffusion, transport = np.zeros((n - 1, n - 1)), np.zeros((n - 1, n - 1))
    for i in range(1, n):
        for j in range(1, n):
            around = w[i + 1, j] + w[i - 1, j] + w[i, j + 1] + w[i, j - 1]
            diffusion[i - 1, j - 1] = nu * (around - 4 * w[i, j]) / h**2
            u, v = (psi[i, j + 1] - psi[i, j - 1]) / (2 * h), (psi[i - 1, j] - psi[i + 1, j]) / (2 * h)
            transport[i - 1, j - 1] = u * (w[i + 1, j] - w[i - 1, j]) / (2 * h)
            transport[i - 1, j - 1] += v * (w[i, j + 1] - w[i, j - 1]) / (2 * h)
    return np.abs(diffusion - transport).max(), np.abs(transport).max()


@pytest.mark.parametrize("reynolds", [1, 100, 200])
@pytest.mark.parametrize("n", [20, 33])
def test_the_discrete_equations_hold(n, reynolds):
    flow = solve(bump(n), 1 / reynolds)
    residual, scale = inner_residual(flow.psi, bump(n), 1 / reynolds)
    assert residual < 1e-8 * max(scale, 1)
    for wall in (flow.psi[0], flow.psi[-1], flow.psi[:, 0], flow.psi[:, -1]):
        assert (wall == 0).all()
    u, v = flow.velocity(bump(n))
    np.testing.assert_array_equal(u[:, -1], bump(n))
    assert (u[:, 0] == 0).all()
    assert (u[[0, -1], :-1] == 0).all()
    assert (v[:, [0, -1]] == 0).all()
    assert (v[[0, -1]] == 0).all()


def test_the_stokes_solve_is_a_sparse_direct_solve():
    """Re → 0: ψ and the wall vorticities as one sparse system, assembled entry by entry."""
    from scipy.sparse import lil_matrix
    from scipy.sparse.linalg import spsolve

    n = 14
    h, lid = 1 / n, np.cos(np.arange(n + 1))
    number = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(n + 1) for j in range(n + 1))}
    size = len(number)
    matrix, right = lil_matrix((2 * size, 2 * size)), np.zeros(2 * size)  # ψ first, then ω
    for (i, j), k in number.items():
        near = [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        edge = i in (0, n) or j in (0, n)
        if edge:
            matrix[k, k] = matrix[size + k, size + k] = 1
            corner = i in (0, n) and j in (0, n)
            if not corner:
                inside = (min(max(i, 1), n - 1), min(max(j, 1), n - 1))
                matrix[size + k, number[inside]] = 2 / h**2
                right[size + k] = -2 * lid[i] / h if j == n else 0
            continue
        matrix[k, k], matrix[k, size + k], matrix[size + k, size + k] = 4 / h**2, -1, 4 / h**2
        for other in near:
            matrix[k, number[other]] = matrix[size + k, size + number[other]] = -1 / h**2
    reference = spsolve(matrix.tocsr(), right)[:size].reshape(n + 1, n + 1)
    np.testing.assert_allclose(solve(lid, 1e9).psi, reference, atol=1e-11 * np.abs(reference).max())


def test_manufactured_flow_to_second_order():
    """ψ = X(x)·Y(y), X = 3x²(1−x)², Y = y²(y−1): at rest on three walls, u = X·Y′(1) = X on the lid.

    s = u·∇ω − νΔω with ω = −(X″Y + XY″), everything by polynomial differentiation.
    """
    X, Y, nu = Polynomial([0, 0, 3, -6, 3]), Polynomial([0, 0, -1, 1]), 0.01

    def product(p, q, x):
        return p(x)[:, None] * q(x)

    errors = []
    for n in (24, 48, 96):
        x = np.arange(n + 1) / n
        d = [[product(X.deriv(i) if i else X, Y.deriv(j) if j else Y, x) for j in range(5)] for i in range(5)]
        u, v = d[0][1], -d[1][0]
        omega_x, omega_y = -(d[3][0] + d[1][2]), -(d[2][1] + d[0][3])
        laplacian = -(d[4][0] + 2 * d[2][2] + d[0][4])
        source = (u * omega_x + v * omega_y - nu * laplacian)[1:-1, 1:-1]
        flow = solve(X(x), nu, source)
        velocity = flow.velocity(X(x))
        errors.append([np.abs(flow.psi - d[0][0]).max() / np.abs(d[0][0]).max(), np.abs(velocity[0] - u).max()])
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.max(errors[-1]) < 2e-3
    np.testing.assert_allclose(orders, 2, atol=0.2)


def test_ghia_centreline():
    """The classical lid, u = 1: published values, themselves of a 129² grid and of three good digits."""
    flow = solve(np.ones(129), 1 / 100)
    u = flow.velocity(np.ones(129))[0, 64]
    for j, value in GHIA.items():
        assert abs(u[j] - value) < 0.005
    assert flow.psi.min() == pytest.approx(-0.10342, abs=5e-4)  # their primary vortex


def test_against_finite_elements():
    """Taylor–Hood P2–P1 and Picard's iteration by scikit-fem, with nothing in common but the equations."""
    import skfem
    from scipy.sparse import bmat
    from skfem.helpers import ddot, div, dot, grad, mul

    reynolds = 40
    mesh = skfem.MeshTri.init_tensor(np.linspace(0, 1, 25), np.linspace(0, 1, 25))
    velocity = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTriP2()), intorder=5)
    pressure = velocity.with_element(skfem.ElementTriP1())
    stiffness = skfem.BilinearForm(lambda u, v, _: ddot(grad(u), grad(v)) / reynolds).assemble(velocity)
    divergence = skfem.BilinearForm(lambda u, q, _: -div(u) * q).assemble(velocity, pressure)
    transport = skfem.BilinearForm(lambda u, v, w: dot(mul(grad(u), w["wind"]), v))
    walls = velocity.get_dofs()
    lid = velocity.get_dofs(lambda x: x[1] == 1.0).all("u^1")
    x = np.zeros(velocity.N + pressure.N)
    at = velocity.doflocs[0, lid]
    x[lid] = 16 * at**2 * (1 - at) ** 2
    fixed = np.concatenate([walls.all(), [velocity.N]])  # one pressure value is free to choose
    for _ in range(25):
        wind = velocity.interpolate(x[: velocity.N])
        convection = transport.assemble(velocity, wind=wind)
        system = bmat([[stiffness + convection, divergence.T], [divergence, None]], "csr")
        new = skfem.solve(*skfem.condense(system, np.zeros(len(x)), x=x, D=fixed))
        done = np.abs(new - x).max() < 1e-9
        x = new
        if done:
            break
    assert done
    n = 192
    u = solve(bump(n), 1 / reynolds).velocity(bump(n))[0][8:-8:8, 8:-8:8]
    nodes = np.arange(1, 24) / 24
    places = np.stack(np.meshgrid(nodes, nodes, indexing="ij")).reshape(2, -1)
    # vertices of the mesh are degrees of freedom: read u there
    order = {(round(a, 6), round(b, 6)): k for k, (a, b) in enumerate(mesh.p.T)}
    vertices = [order[round(a, 6), round(b, 6)] for a, b in places.T]
    reference = x[velocity.nodal_dofs[0, vertices]].reshape(23, 23)
    assert np.linalg.norm(u - reference) < 5e-4 * np.linalg.norm(reference)


def test_no_steady_flow_is_an_error():
    with pytest.raises(RuntimeError, match=r"no steady flow within 200 iterations.*Reynolds number 5000"):
        solve(bump(32), 1 / 5000)


@pytest.fixture(scope="module")
def p():
    return problem("cavity", fine=65)


@pytest.fixture(scope="module")
def instances(p):
    return p.instances(range(4), seed=2)


def test_lid_law(p):
    lids = p.lids(range(300), seed=1)
    x = np.linspace(0, 1, 401)
    g = x**2 * (1 - x) ** 2 * sum(lids[:, m, None] * np.cos(m * np.pi * x) for m in range(5))
    speed = np.abs(g).max(axis=1)
    assert speed.min() > 0.49
    assert speed.max() < 1.0001
    assert abs(speed.mean() - 0.75) < 0.03
    ratio = lids[:, 1:] / lids[:, :1] * np.arange(1, 5)
    np.testing.assert_allclose(ratio.std(axis=0), 0.8, rtol=0.12)
    assert np.abs(ratio.mean(axis=0)).max() < 0.15


def test_input_boundary_values_and_record(p, instances):
    x, y = p.sample(range(4), resolution=33, seed=2, dtype=torch.float64)
    nodes = np.arange(33) / 32
    a = instances["lid"]
    g = nodes**2 * (1 - nodes) ** 2 * sum(a[:, m, None] * np.cos(m * np.pi * nodes) for m in range(5))
    np.testing.assert_allclose(x[:, 0].numpy(), np.repeat(g[:, :, None], 33, axis=2), atol=1e-14)
    np.testing.assert_allclose(y[:, 0, :, -1].numpy(), g, atol=1e-14)
    for edge in (y[:, 0, :, 0], y[:, 0, 0, :-1], y[:, 0, -1, :-1]):
        assert edge.abs().max() < 1e-14
    assert (instances["change"] < 1e-10).all()
    assert ((instances["iterations"] > 2) & (instances["iterations"] < 60)).all()
    # no flow through the vertical lines: ∫u dy = 0 at every x, up to the O(h²) errors of scheme and trapezoidal rule
    for fine, bound in ((65, 1.5e-3), (129, 4e-4)):
        weights = np.full(fine, 1 / (fine - 1))
        weights[[0, -1]] /= 2
        u = problem("cavity", fine=fine).sample(range(4), resolution=fine, seed=2, dtype=torch.float64)[1][:, 0]
        assert np.abs(u.numpy() @ weights).max() < bound


def test_matched_instances(p):
    for n in (5, 9, 12, 17, 20):
        coarse, fine = p.sample_many([1], [n, 2 * n - 1], seed=2, dtype=torch.float64)
        for a, b in zip(coarse, fine, strict=True):
            torch.testing.assert_close(b[..., ::2, ::2], a, rtol=0, atol=1e-14)


def test_converges_to_the_finer_solve_at_second_order():
    """The same instance on 33², 65², 129² and 257²: what the card says of the default's accuracy."""
    values = [problem("cavity", fine=f).sample([0], 33, seed=3, dtype=torch.float64)[1] for f in (33, 65, 129, 257)]
    gaps = [float((a - b).norm() / b.norm()) for a, b in pairwise(values)]
    assert gaps[2] < 2e-3  # a third of it, 5·10⁻⁴, is the error of the finest
    assert all(1.7 < np.log2(a / b) < 2.4 for a, b in pairwise(gaps))


def test_cell_centres(p):
    x, y = (
        t[0, 0].numpy() for t in problem("cavity", fine=65, placement="cell").sample([1], 32, 2, dtype=torch.float64)
    )
    _, whole = p.sample([1], 65, seed=2, dtype=torch.float64)
    np.testing.assert_allclose(y, whole[0, 0, 1::2, 1::2].numpy(), atol=1e-14)  # (j+½)/32 = (2j+1)/64
    assert x.shape == (32, 32)


def test_the_same_bits_whatever_the_batch(p, instances):
    alone, turned = p.instances([3], seed=2), p.instances([3, 0, 2], seed=2, workers=3)
    for name in instances:
        assert (alone[name][0] == instances[name][3]).all()
        assert (turned[name] == instances[name][[3, 0, 2]]).all()


def test_through_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path))
    p = problem("cavity", fine=17)
    for _ in range(2):  # made, then read
        for kept, fresh in zip(p.dataset([1, 5], 9, seed=2), p.sample([1, 5], 9, seed=2), strict=True):
            torch.testing.assert_close(kept, fresh, rtol=1e-5, atol=1e-6)


def test_parameters_are_checked():
    for bad in (
        {"reynolds": 0.0},
        {"reynolds": float("nan")},
        {"fine": 3},
        {"tol": 1.0},
        {"tol": 1e-13},
        {"placement": "periodic"},
    ):
        with pytest.raises(ValueError, match="cavity"):
            problem("cavity", **bad)


def test_card(p):
    for word in ("Re = 100", "y = 1", "Thom", "Left open", "fine=65"):
        assert word in p.card()
