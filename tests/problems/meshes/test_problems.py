"""Poisson and elasticity on meshes: the instance does not depend on the mesh, and is what two other methods find."""

import numpy as np
import pytest
import torch
from skfem import Basis, ElementTriP2, ElementVector, LinearForm, MeshTri, asm, condense, solve
from skfem.helpers import dot
from skfem.models.elasticity import lame_parameters, linear_elasticity
from skfem.models.poisson import laplace

from quadnorm.problems import cache, problem
from quadnorm.problems.solvers.quadratic import evaluate, forms

NAMES = ["poisson-mesh", "elasticity-mesh"]
SMALL = {"modes": 3, "fine": 12}


def series(c, points):
    """Σ c(m,n) sin(mπx) sin(nπy), summed here."""
    m = np.arange(1, c.shape[-1] + 1)
    sx, sy = (np.sin(np.pi * np.outer(points[:, k], m)) for k in (0, 1))
    return np.einsum("pm,mn,pn->p", sx, c, sy)


# --- the solver ------------------------------------------------------------------------------------------------------


def test_poisson_agrees_with_the_exact_series():
    """û = f̂/(π²(m²+n²)): third order in the size of the squares, at points that are no nodes."""
    points = np.random.default_rng(1).uniform(size=(500, 2))
    m = np.arange(1, 4)
    symbol = np.pi**2 * (m[:, None] ** 2 + m**2)
    errors = []
    for fine in (6, 9, 12, 18, 24):
        drawn = problem("poisson-mesh", modes=3, fine=fine).instances(range(2))
        got = evaluate(drawn["u"][1, 0], points)
        exact = series(drawn["f"][1, 0] / symbol, points)
        errors.append(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    order = -np.polyfit(np.log((6, 9, 12, 18, 24)), np.log(errors), 1)[0]
    assert 2.8 < order < 4.3
    assert errors[-1] < 1e-4


def test_the_card_tells_the_accuracy():
    p = problem("poisson-mesh")
    points = np.random.default_rng(2).uniform(size=(2000, 2))
    drawn = p.instances([5])
    m = np.arange(1, 9)
    exact = series(drawn["f"][0, 0] / (np.pi**2 * (m[:, None] ** 2 + m**2)), points)
    got = evaluate(drawn["u"][0, 0], points)
    assert np.linalg.norm(got - exact) < 2e-5 * np.linalg.norm(exact)
    assert "10⁻⁵" in p.card()


def test_elasticity_solves_a_manufactured_displacement():
    """u = (s(x)s(y), s(x)s(2y)) with s(kt) = sin kπt; the force by hand from −μΔu − (λ+μ)∇(∇·u)."""
    from quadnorm.problems.meshes.elasticity import ElasticityMesh
    from quadnorm.problems.solvers.quadratic import solve as solve_grid

    p = problem("elasticity-mesh")
    lam, mu = 0.3 / (1.3 * 0.4), 1 / 2.6
    np.testing.assert_allclose(p.material, (lam, mu), rtol=1e-14)

    def sin(k, t):
        return np.sin(k * np.pi * t)

    def cos(k, t):
        return np.cos(k * np.pi * t)

    def exact(x, y):
        return np.stack([sin(1, x) * sin(1, y), sin(1, x) * sin(2, y)])

    def force(x, y):
        u1, u2 = exact(x, y)
        grad_x = np.pi**2 * (-u1 + 2 * cos(1, x) * cos(2, y))  # ∂x(∇·u), ∇·u = π(cos πx sin πy + 2 sin πx cos 2πy)
        grad_y = np.pi**2 * (cos(1, x) * cos(1, y) - 4 * u2)
        return np.stack([mu * 2 * np.pi**2 * u1 - (lam + mu) * grad_x, mu * 5 * np.pi**2 * u2 - (lam + mu) * grad_y])

    points = np.random.default_rng(3).uniform(size=(400, 2))
    errors = []
    for cells in (4, 6, 8, 12, 16):
        x, y = np.meshgrid(*[np.linspace(0, 1, 2 * cells + 1)] * 2, indexing="ij")
        u = solve_grid(ElasticityMesh.stiffness, cells, p.material, force(x, y))
        errors.append(np.abs(evaluate(u, points) - exact(*points.T)).max())
    order = -np.polyfit(np.log((4, 6, 8, 12, 16)), np.log(errors), 1)[0]
    assert 2.7 < order < 4.3
    assert errors[-1] < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_quadratic_triangles_on_the_random_meshes_find_the_same_field(name):
    """scikit-fem's P2 elements and own assembly, on the very meshes that samples have, refined ones included."""
    f = problem(name, modes=2, fine=24).instances([0])["f"][0]
    for family in ("uniform", "boundary"):
        errors = []
        for n in (8, 16):
            view = problem(name, modes=2, fine=24, mesh=family, strength=0.6)
            x, y = view.sample([0], n, dtype=torch.float64)
            points = view.vertices(0, n)
            np.testing.assert_array_equal(x[0, 1:3].numpy().T, points)
            solution = triangles_solve(points, f)
            errors.append(np.linalg.norm(solution - y[0].numpy()) / np.linalg.norm(y[0].numpy()))
        assert errors[1] < 5e-3
        assert errors[0] / errors[1] > 4  # better than second order


def triangles_solve(points, f):
    from scipy.spatial import Delaunay

    cells = Delaunay(points).simplices
    a, b, c = (points[cells[:, k]] for k in range(3))
    area = np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    mesh = MeshTri(points.T.copy(), cells[area > 1e-12].T.copy())

    def load(k, w):
        flat = np.stack([w.x[0].ravel(), w.x[1].ravel()], 1)
        return series(f[k], flat).reshape(w.x[0].shape)

    if len(f) == 1:
        basis = Basis(mesh, ElementTriP2(), intorder=6)
        right = asm(LinearForm(lambda v, w: load(0, w) * v), basis)
        u = solve(*condense(asm(laplace, basis), right, D=basis.get_dofs()))
        return u[basis.nodal_dofs]
    basis = Basis(mesh, ElementVector(ElementTriP2()), intorder=6)
    right = asm(LinearForm(lambda v, w: dot(np.stack([load(0, w), load(1, w)]), v)), basis)
    u = solve(*condense(asm(linear_elasticity(*lame_parameters(1.0, 0.3)), basis), right, D=basis.get_dofs()))
    return u[basis.nodal_dofs]


def test_forms_of_known_functions():
    """u = x²y, v = y²: ∫uv = 1/3·1/4, ∫∂x u ∂y v = ∫ 2xy·2y = 2/3, ∫∂x u ∂x v = 0, ∫∂y u ∂y v = ∫ x²·2y = 1/3."""
    x, y = np.meshgrid(*[np.linspace(0, 1, 9)] * 2, indexing="ij")
    u, v = (x**2 * y).ravel(), (y**2).ravel()
    assembled = forms(4)
    for name, value in {"mass": 1 / 12, "xy": 2 / 3, "xx": 0.0, "yy": 1 / 3}.items():
        assert v @ (assembled[name] @ u) == pytest.approx(value, abs=1e-12)


# --- the problem -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_a_sample_is(name):
    p = problem(name, **SMALL)
    x, y = p.sample(range(2), 7, dtype=torch.float64)
    count = len(p.outputs)
    assert x.shape == (2, 3 + count, 49)
    assert y.shape == (2, count, 49)
    torch.testing.assert_close(x[:, 0].sum(1), torch.ones(2, dtype=torch.float64))
    on_boundary = ((x[:, 1:3] == 0) | (x[:, 1:3] == 1)).any(1)
    assert on_boundary.sum(1).tolist() == [24, 24]
    for k in range(count):
        assert (y[:, k][on_boundary] == 0).all()
    c = p.instances([1])["f"][0]
    for k in range(count):
        np.testing.assert_allclose(x[1, 3 + k], series(c[k], x[1, 1:3].numpy().T), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_instance_is_the_same_on_every_mesh_and_the_mesh_another_for_every_sample(name):
    views = [problem(name, **SMALL, mesh=m) for m in ("uniform", "random", "boundary")]
    drawn = [v.instances([0, 3], seed=2) for v in views]
    for key in ("f", "u"):
        for other in drawn[1:]:
            np.testing.assert_array_equal(drawn[0][key], other[key])
    assert len({v.key() for v in views}) == 1  # one place in the cache
    a, b = (views[0].vertices(i, 6) for i in (0, 1))
    assert np.abs(a - b).max() > 0.01
    np.testing.assert_array_equal(views[0].vertices(0, 6), a)


@pytest.mark.parametrize("name", NAMES)
def test_bits_depend_on_the_index_alone(name):
    p = problem(name, **SMALL)
    x, y = p.sample(range(4), 8, seed=3)
    for indices, workers in (([3], 1), ([2, 0, 3], 2)):
        got = p.sample(indices, 8, seed=3, workers=workers)
        at = list(indices).index(3)
        assert torch.equal(got[0][at], x[3])
        assert torch.equal(got[1][at], y[3])
    many = p.sample_many(range(4), [5, 8], seed=3)
    assert torch.equal(many[1][0], x)


def test_the_cache_serves_every_mesh(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path))
    p = problem("poisson-mesh", **SMALL)
    x, y = p.dataset(range(3), 6)
    assert cache.ready(p) == p.block
    view = problem("poisson-mesh", **SMALL, mesh="boundary")
    assert cache.ready(view) == p.block
    assert torch.equal(p.dataset(range(3), 6)[1], y)
    assert not torch.equal(view.dataset(range(3), 6)[0], x)


def test_refusals_and_card():
    with pytest.raises(ValueError, match="did you mean 'boundary'"):
        problem("poisson-mesh", mesh="boundery")
    with pytest.raises(ValueError, match=r"strength must be a number at least 0 and at most 0\.95, got 1\.0"):
        problem("poisson-mesh", strength=1.0)
    with pytest.raises(ValueError, match=r"at least 2·modes = 16"):
        problem("poisson-mesh", fine=8)
    with pytest.raises(ValueError, match=r"poisson_ratio must be a number above -1 and below 0\.5"):
        problem("elasticity-mesh", poisson_ratio=0.5)
    p = problem("elasticity-mesh")
    with pytest.raises(ValueError, match=r"one int n of at least 4, for n² vertices; got \(8, 8\)"):
        p.sample(1, (8, 8))
    with pytest.raises(ValueError, match="use vertices"):
        p.nodes(8)
    card = p.card()
    for word in ("Boundary:", "Input → output:", "Law:", "Nodes:", "Solver:", "Cost:", "Left open by the paper:"):
        assert word in card
    for name, value in p.parameters().items():
        assert f"{name}={value!r}" in card


def test_a_mesh_is_drawn(tmp_path):
    from quadnorm.problems.draw import figure

    picture = figure(problem("elasticity-mesh", **SMALL), [0], resolution=6)
    titles = [a.get_title() for a in picture.axes if a.get_title()]
    assert titles == ["volume, sample 0", "f1", "f2", "u1", "u2"]


def test_missing_scikit_fem_names_the_extra(monkeypatch):
    import sys

    forms.cache_clear()
    monkeypatch.setitem(sys.modules, "skfem", None)
    with pytest.raises(ImportError, match=r"pip install 'quadnorm\[mesh\]'"):
        forms(5)
