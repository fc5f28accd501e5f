"""Families of meshes: what they are made of, calculus behind their biases, and orders that wrong weights break."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.lab.theory import meshes
from quadnorm.lab.theory.bias import ExactField, bias, box_field, sphere_field
from quadnorm.lab.theory.families import FAMILIES, family
from quadnorm.lab.theory.meshes import (
    centroids,
    chebyshev,
    cloud,
    crowded,
    graded,
    latlon,
    perturbed,
    refined,
    tensor,
    tetrahedra,
    triangulation,
    vertices,
)
from tests.lab.theory.mesh_mutations import equal_weights  # noqa: F401

BOXES = [name for name in FAMILIES if not name.startswith("latlon")]


def ramp(dim):
    """Σ k·x_k on the box: mean Σk/2, variance Σk²/12."""
    k = np.arange(1.0, dim + 1)
    mean = k.sum() / 2
    return ExactField("ramp", lambda p: p @ k, mean, (k**2).sum() / 12 + mean**2)


@pytest.mark.parametrize("name", ["even", "graded", "chebyshev", "boundary-refined"])
def test_the_factor_of_one_axis_is_that_of_the_mesh(name):
    """The claims of the report take the short way, without a mesh and without torch."""
    ((points, weights, _),) = FAMILIES[name].meshes(20)
    whole = bias(points, weights, FAMILIES[name].field).factor("mean")
    assert meshes.mean_factor(name, 20) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_lie_in_the_domain_and_weights_fill_it(name):
    meshes = FAMILIES[name].meshes(FAMILIES[name].sizes[0])
    assert len(meshes) == FAMILIES[name].draws
    for points, weights, h in meshes:
        assert weights.shape == (len(points),)
        assert weights.min() > 0
        assert weights.sum() == pytest.approx(1, abs=1e-10)  # area of the square, the cube; the whole of the sphere
        assert 0 < h < 1
        if name in BOXES:
            assert points.min() >= 0
            assert points.max() <= 1
        else:
            assert np.linalg.norm(points, axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_the_same_in_every_run_and_its_draws_differ(name):
    n = FAMILIES[name].sizes[0]
    first, again = FAMILIES[name].meshes(n), FAMILIES[name].meshes(n)
    assert all(np.array_equal(a.points, b.points) for a, b in zip(first, again, strict=True))
    assert len({a.points.tobytes() for a in first}) == FAMILIES[name].draws


@pytest.mark.parametrize("name", FAMILIES)
def test_equal_weights_fail_every_order(name, equal_weights):  # noqa: F811
    """The mutation: with equal weights for the mesh's own, mean and output leave the range of their orders."""
    f = replace(FAMILIES[name], draws=min(FAMILIES[name].draws, 2))
    swept = f.sweep()
    assert swept.errors("quadrature") == pytest.approx(swept.errors("counting"), rel=1e-9)
    series = {s.name.split(", ", 1)[1]: s for s in f.series(swept)}
    for quantity in ("mean", "output"):
        order = series[f"{quantity}, quadrature"].checks()[0]
        assert not order.holds
        assert order.value < order.low - 0.3


def test_ends_that_count_twice_fail_the_order(monkeypatch):
    """A subtler mutation: spacings by central differences, end cells not halved. First order, not second."""

    def doubled(x, y, bounds=None):
        class Doubled:
            @staticmethod
            def weights(shape):
                return torch.from_numpy(np.outer(np.gradient(x), np.gradient(y)))

        return Doubled()

    monkeypatch.setattr(meshes.qn.Grid, "from_coordinates", doubled)
    exponential = replace(family("graded"), field=box_field("exponential", 2))
    assert not exponential.series(exponential.sweep())[0].checks()[0].holds


def test_nodes_crowd_as_they_say():
    x = refined(1001, 2.0)
    assert np.allclose(x + x[::-1], 1)
    assert np.diff(x).max() / np.diff(x).min() == pytest.approx(np.cosh(2) ** 2, rel=0.01)
    assert np.array_equal(refined(9, 0.0), np.linspace(0, 1, 9))
    assert np.allclose(chebyshev(9), 0.5 * (1 - np.cos(np.pi * np.arange(9) / 8)))
    assert np.allclose(graded(5, 3.0), np.array([0, 1, 8, 27, 64]) / 64)
    s = np.linspace(0, 1, 11)
    assert np.allclose(crowded(s, 2.0), refined(11, 2.0))
    assert crowded(s, 0.0) is s


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 60), st.integers(0, 2**32 - 1), st.floats(0, 0.49))
def test_perturbed_nodes_stay_in_order(n, seed, size):
    x = perturbed(n, np.random.default_rng(seed), size)
    assert x[0] == 0
    assert x[-1] == 1
    assert (np.diff(x) > 0).all()
    assert (abs(x - np.arange(n) / (n - 1)) <= size / (n - 1) + 1e-15).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=30))
def test_control_volumes_keep_the_trapezoids_bound(gaps):
    """|Σ w f − ∫f| ≤ max f'' · H²/12 for H the largest gap; e^x is convex, so that the sum is never too small."""
    x = np.concatenate([[0.0], np.cumsum(gaps)]) / sum(gaps)
    x[-1] = 1.0
    points, weights, _ = tensor(x)
    error = float(weights @ np.exp(points[:, 0])) - (np.e - 1)
    assert -1e-12 <= error <= np.e * np.diff(x).max() ** 2 / 12 + 1e-12
    assert bias(points, weights, ramp(1)).quadrature.mean < 1e-12


def test_an_even_grid_errs_as_sums_of_sines_do():
    """Σ_j sin(πj/(n−1)) = cot(π/(2(n−1))), so both means are known."""
    n = 65
    total = 1 / np.tan(np.pi / (2 * (n - 1)))
    field, even = box_field("sines", 2), np.linspace(0, 1, n)
    measured = bias(*tensor(even, even)[:2], field)
    sigma = np.sqrt(1 / 4 - (2 / np.pi) ** 4)
    assert measured.counting.mean == pytest.approx(abs((total / n) ** 2 - 4 / np.pi**2) / sigma, rel=1e-9)
    assert measured.quadrature.mean == pytest.approx(abs((total / (n - 1)) ** 2 - 4 / np.pi**2) / sigma, rel=1e-6)


@pytest.mark.parametrize("name", ["chebyshev", "graded"])
def test_equal_weights_tend_to_the_integral_over_the_parameter(name):
    """∫₀¹ sin(½π(1 − cos πs)) ds = J₀(π/2), ∫₀¹ sin πs² ds = S(√2)/√2; both means are squares of these."""
    from scipy.special import fresnel, j0

    limit = {"chebyshev": j0(np.pi / 2), "graded": fresnel(np.sqrt(2))[0] / np.sqrt(2)}[name] ** 2
    nodes = {"chebyshev": chebyshev, "graded": graded}[name](1501)
    measured = bias(*tensor(nodes, nodes)[:2], box_field("sines", 2))
    sigma = np.sqrt(1 / 4 - (2 / np.pi) ** 4)
    assert measured.counting.mean == pytest.approx((4 / np.pi**2 - limit) / sigma, rel=3e-3)


@pytest.mark.parametrize("name", ["even", "graded", "chebyshev", "boundary-refined"])
def test_control_volumes_err_by_the_integral_of_cubed_spacings(name):
    """Σ h_i³ f''/12 → (h²/12) ∫ x'(s)³ f''(x(s)) ds on each axis, f = sin πx; two axes multiply means 2/π."""
    s = (np.arange(200000) + 0.5) / 200000
    b = meshes.STRENGTH
    x, slope = {
        "even": (s, np.ones_like(s)),
        "graded": (s**2, 2 * s),
        "chebyshev": (0.5 * (1 - np.cos(np.pi * s)), 0.5 * np.pi * np.sin(np.pi * s)),
        "boundary-refined": (
            0.5 * (1 + np.tanh(b * (2 * s - 1)) / np.tanh(b)),
            b / np.tanh(b) / np.cosh(b * (2 * s - 1)) ** 2,
        ),
    }[name]
    one = np.mean(slope**3 * np.pi**2 * np.sin(np.pi * x)) / 12
    constant = 2 * (2 / np.pi) * one / np.sqrt(1 / 4 - (2 / np.pi) ** 4)
    swept = family(name).sweep()
    assert swept.errors("quadrature")[-1] / swept.h[-1] ** 2 == pytest.approx(constant, rel=0.01)


@settings(max_examples=15, deadline=None)
@given(st.integers(4, 14), st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_triangulations_integrate_lines_exactly(n, seed, strength):
    """Lumped masses and centroids are exact for linear fields, whatever the triangles."""
    for make in (vertices, centroids):
        points, weights, _ = make(n, np.random.default_rng(seed), strength)
        assert weights.sum() == pytest.approx(1, abs=1e-11)
        assert bias(points, weights, ramp(2)).quadrature.mean < 1e-10


def test_triangulations_have_the_points_they_say():
    points, cells = triangulation(10, np.random.default_rng(0))
    edge = ((points == 0) | (points == 1)).any(axis=1)
    assert len(points) == 100
    assert edge.sum() == 4 * 8 + 4
    assert set(cells.ravel()) == set(range(100))
    assert len(cells) == 2 * 100 - 2 - 36  # Euler: 2N − 2 − (points on the boundary)


def test_refined_tetrahedra_conform_and_crowd_at_the_corner():
    """Every face belongs to two cells or lies on the cube's surface; a hanging node would leave others."""
    points, cells = tetrahedra(3)
    plain, _ = tetrahedra(3, ())
    faces = Counter(tuple(sorted(c)) for cell in cells for c in combinations(cell.tolist(), 3))
    for face, times in faces.items():
        p = points[list(face)]
        surface = any((p[:, k] == side).all() for k in range(3) for side in (0.0, 1.0))
        assert times == (1 if surface else 2)
    assert len(plain) == 4**3
    near = (points < 0.5).all(axis=1).sum()
    far = (points > 0.5).all(axis=1).sum()
    assert near > 10 * far
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    assert abs(np.linalg.det(edges)).sum() / 6 == pytest.approx(1, abs=1e-12)


def test_tetrahedra_integrate_lines_exactly():
    points, weights, _ = meshes.corner(3)
    assert bias(points, weights, ramp(3)).quadrature.mean < 1e-12


def test_stratified_clouds_have_one_point_in_each_cell():
    points = cloud(6, np.random.default_rng(1), 3, 0.0, stratified=True).points
    assert len({tuple(c) for c in np.floor(points * 6).astype(int)}) == 6**3


def test_voronoi_weights_of_a_cloud_are_areas_of_nearest_points():
    """Slow and obvious: share of 400² midpoints nearest to each point."""
    points, weights, _ = cloud(4, np.random.default_rng(2))
    t = (np.arange(400) + 0.5) / 400
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 1, 2)
    nearest = ((grid - points) ** 2).sum(-1).argmin(1)
    assert np.bincount(nearest, minlength=16) / 160000 == pytest.approx(weights, abs=2e-3)


@pytest.mark.parametrize("n", [9, 33])
def test_equal_weights_count_the_poles(n):
    """Σ sin²φ over n even latitudes with poles is (n+1)/2, so equal weights give z² the mean (n+1)/(2n), not 1/3."""
    measured = bias(*latlon(n)[:2], sphere_field())
    assert measured.counting.mean == pytest.approx(((n + 1) / (2 * n) - 1 / 3) / np.sqrt(3 / 5 - 1 / 9), rel=1e-10)


def test_bands_of_the_sphere_have_their_areas():
    """On every rule z is odd and |z| has mean ½; n = 128 bands give it to second order, absolutely."""
    magnitude = ExactField("|z|", lambda p: abs(p[:, 2]), 1 / 2, 1 / 3)
    for rule in ("equiangular", "equiangular-cell", "gauss-legendre"):
        points, weights, _ = latlon(128, rule)
        assert bias(points, weights, magnitude).quadrature.mean < 1e-3


def test_unknown_families_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'chebyshev'"):
        family("chebychev")
