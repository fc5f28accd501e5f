"""Voronoi and Delaunay weights of scattered points, against naive clipping, nearest-neighbour counts and calculus."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, cKDTree

from quadnorm.measures.geometry.points import delaunay_weights, voronoi_weights
from tests.measures.geometry.naive_cells import BOX_WALLS, control_volumes, naive_areas, naive_volumes
from tests.measures.geometry.small_meshes import lattice

UNIT = {1: ((0, 1),), 2: ((0, 1),) * 2, 3: ((0, 1),) * 3}


# --- one dimension ---------------------------------------------------------------------------------------------------


def test_line_by_hand():
    """Midpoints of 0, 1, 3 are ½ and 2; the end cells reach the hull's ends or the bounds."""
    x = [3.0, 0.0, 1.0]
    assert voronoi_weights(x).tolist() == [1.0, 0.5, 1.5]
    assert voronoi_weights(x, bounds=(-1, 4)).tolist() == [2.0, 1.5, 1.5]
    assert voronoi_weights(torch.tensor(x)[:, None], ((-1, 4),)).tolist() == [2.0, 1.5, 1.5]
    assert voronoi_weights([0.0, 1.0, 1.0, 3.0]).tolist() == [0.5, 0.75, 0.75, 1.0]
    assert voronoi_weights([0.3], bounds=(0, 1)).tolist() == [1.0]
    assert delaunay_weights(x).tolist() == [1.0, 0.5, 1.5]


# --- lattices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weigh", [voronoi_weights, lambda x: voronoi_weights(x, UNIT[x.shape[1]])])
@pytest.mark.parametrize("sizes", [(7,), (2, 2), (5, 8), (2, 3, 4), (5, 5, 5)])
def test_lattice_has_its_control_volumes(sizes, weigh):
    """Half at faces, a quarter at edges, an eighth at corners; spacings need not be equal."""
    axes = [np.linspace(0, 1, n) ** (1 + 0.3 * k) for k, n in enumerate(sizes)]
    np.testing.assert_allclose(weigh(lattice(*axes)), control_volumes(*axes), atol=1e-14)


def test_lattice_inside_a_larger_box():
    """Cell centres own whole cells: the midpoint rule."""
    x = lattice((np.arange(4) + 0.5) / 4, (np.arange(6) + 0.5) / 6)
    np.testing.assert_allclose(voronoi_weights(x, UNIT[2]), np.full(24, 1 / 24), atol=1e-15)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("noise", [1e-16, 1e-13, 1e-9, 1e-5])
def test_lattice_with_rounding_noise(dim, noise):
    """Many points on a common circle, nearly: the hardest input for a tessellation, and the commonest."""
    rng = np.random.default_rng(0)
    axes = [np.linspace(0, 1, 7)] * dim
    x = np.clip(lattice(*axes) + noise * rng.normal(size=(7**dim, dim)), 0, 1)
    w = voronoi_weights(x, UNIT[dim])
    assert w.sum().item() == pytest.approx(1, rel=1e-10)
    np.testing.assert_allclose(w, control_volumes(*axes), atol=5 * noise + 1e-13)


# --- random points ---------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(n=st.integers(1, 30), seed=st.integers(0, 2**32 - 1))
def test_plane_against_naive_clipping(n, seed):
    x = np.random.default_rng(seed).random((n, 2))
    expected = naive_areas(x, [(0, 0), (1, 0), (1, 1), (0, 1)])
    np.testing.assert_allclose(voronoi_weights(x, UNIT[2]), expected, atol=1e-13)


@settings(max_examples=15)
@given(n=st.integers(4, 30), seed=st.integers(0, 2**32 - 1))
def test_plane_hull_against_naive_clipping(n, seed):
    x = np.random.default_rng(seed).random((n, 2))
    hull = ConvexHull(x)
    w = voronoi_weights(x)
    assert w.sum().item() == pytest.approx(hull.volume, rel=1e-10)
    np.testing.assert_allclose(w, naive_areas(x, x[hull.vertices]), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 30])
def test_space_against_naive_clipping(n):
    x = np.random.default_rng(n).random((n, 3))
    np.testing.assert_allclose(voronoi_weights(x, UNIT[3]), naive_volumes(x, BOX_WALLS), atol=1e-12)


def test_space_hull_against_naive_clipping():
    """A parallelepiped with its eight corners and thirty points inside."""
    rng = np.random.default_rng(4)
    corners = lattice([0.0, 1], [0.0, 1], [0.0, 1]) @ rng.normal(size=(3, 3))
    inner = rng.dirichlet(np.ones(8), size=30) @ corners
    hull = ConvexHull(np.vstack((corners, inner)))
    w = voronoi_weights(np.vstack((corners, inner)))
    assert w.sum().item() == pytest.approx(hull.volume, rel=1e-10)
    # The reference starts from a point strictly inside, which the corners are not; their sum is known from the total.
    expected = naive_volumes(np.vstack((inner, corners)), hull.equations, count=30)
    np.testing.assert_allclose(w[8:], expected, atol=1e-11)


@pytest.mark.parametrize("dim", [2, 3])
def test_thousand_cells_against_nearest_neighbours(dim):
    """The share of random places nearest to a point is binomial around its weight: within 5 standard deviations."""
    rng = np.random.default_rng(5)
    x, places = rng.random((1000, dim)), rng.random((200_000, dim))
    count = np.bincount(cKDTree(x).query(places)[1], minlength=1000) / len(places)
    w = voronoi_weights(x, UNIT[dim]).numpy()
    assert w.sum() == pytest.approx(1, rel=1e-10)
    assert (w > 0).all()
    assert (np.abs(count - w) < 5 * np.sqrt(w / len(places))).all()


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("weigh", [voronoi_weights, delaunay_weights])
def test_permutation_translation_rotation_scale(dim, weigh):
    """Weights follow their points to the last bit, do not feel rigid motions, and scale with the volume."""
    rng = np.random.default_rng(6)
    x = rng.random((60, dim))
    w = weigh(x)
    perm = rng.permutation(60)
    assert torch.equal(weigh(x[perm]), w[perm])
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    np.testing.assert_allclose(weigh(x @ turn + 3), w, atol=1e-11)
    np.testing.assert_allclose(weigh(x * 1e-7 + 1e-3), w * 1e-7**dim, rtol=1e-7)
    np.testing.assert_allclose(weigh(x * 1e9), w * 1e9**dim, rtol=1e-9)


@settings(max_examples=20)
@given(copies=st.lists(st.integers(1, 4), min_size=8, max_size=8), seed=st.integers(0, 2**32 - 1))
def test_equal_points_share_their_cell(copies, seed):
    x = np.random.default_rng(seed).random((8, 2))
    for weigh in (voronoi_weights, delaunay_weights, lambda p: voronoi_weights(p, UNIT[2])):
        expected = np.repeat(weigh(x).numpy() / copies, copies)
        np.testing.assert_allclose(weigh(np.repeat(x, copies, axis=0)), expected, rtol=1e-13)


@pytest.mark.parametrize(("dim", "apart"), [(2, 1e-14), (3, 1e-11)])
def test_nearly_equal_points_share_their_cell(dim, apart):
    x = np.random.default_rng(7).random((50, dim))
    w = voronoi_weights(x, UNIT[dim])
    twice = voronoi_weights(np.vstack((x, np.clip(x + apart / 4, 0, 1))), UNIT[dim])
    np.testing.assert_allclose(twice, np.tile(w / 2, 2), atol=1e-9)


@pytest.mark.parametrize(("dim", "apart"), [(2, 1e-14), (3, 1e-11)])
def test_nearly_equal_points_share_their_delaunay_weight(dim, apart):
    x = np.random.default_rng(14).random((50, dim))
    twice = delaunay_weights(np.vstack((x, x + apart / 4)))
    np.testing.assert_allclose(twice, np.tile(delaunay_weights(x) / 2, 2), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-7, 1e-8])
def test_delaunay_points_that_qhull_loses_share_with_a_neighbour(scale):
    """A spot of 300 points in space, too small to triangulate: none goes without weight, and the total stays 1."""
    rng = np.random.default_rng(15)
    x = np.vstack((lattice(*[[0.0, 1.0]] * 3), rng.random((50, 3)), 0.4 + scale * rng.random((300, 3))))
    w = delaunay_weights(x)
    assert w.sum().item() == pytest.approx(1, rel=1e-9)
    assert (w > 0).all()


# --- integrals -------------------------------------------------------------------------------------------------------


def perturbed(n, dim, rng):
    """A lattice whose inner points are moved by up to 0.2 spacings, points on faces staying on them."""
    x = lattice(*[np.linspace(0, 1, n)] * dim)
    inside = (x > 0) & (x < 1)
    return x + np.where(inside, rng.uniform(-0.2, 0.2, x.shape) / (n - 1), 0)


@pytest.mark.parametrize("weigh", [voronoi_weights, delaunay_weights])
@pytest.mark.parametrize(("dim", "sizes"), [(2, (9, 17, 33, 65)), (3, (5, 9, 13))])
def test_smooth_integrals_converge(weigh, dim, sizes):
    """∫ Π e^{x_k} over the unit cube = (e−1)^d. Delaunay has order 2, the error of linear interpolation.

    Voronoi errs by f'·(centroid − point) in each cell, O(h) of random sign: summed over h^{−d} cells O(h^{1+d/2}),
    beside the trapezoid rule's O(h²).
    """
    exact = (np.e - 1) ** dim
    errors = []
    for n in sizes:
        rng = np.random.default_rng(n)
        x = perturbed(n, dim, rng)
        errors.append(abs(weigh(x).numpy() @ np.exp(x.sum(1)) / exact - 1))
    rate = -np.polyfit(np.log(np.array(sizes) - 1.0), np.log(errors), 1)[0]
    assert errors[-1] < 5e-3
    assert 1.7 < rate < 2.6


def test_uniform_average_is_biased_where_points_crowd():
    """Points crowding at x=0 as u²: the plain mean of x tends to E[u²] = 1/3, the integral is 1/2."""
    rng = np.random.default_rng(12)
    x = rng.random((4000, 2)) ** [2, 1]
    f = x[:, 0]
    assert abs(f.mean() - 1 / 3) < 0.02
    assert abs(voronoi_weights(x, UNIT[2]).numpy() @ f - 1 / 2) < 1e-3


@pytest.mark.parametrize("dim", [2, 3])
def test_delaunay_totals_and_linear_exactness(dim):
    """Σw = |hull| and Σw·x = ∫x over the hull = |cube|/2 per axis, when the cube's corners are among the points."""
    rng = np.random.default_rng(13)
    x = np.vstack((lattice(*[[0.0, 1.0]] * dim), rng.random((300, dim))))
    w = delaunay_weights(x)
    assert w.dtype == torch.float64
    assert w.sum().item() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(w.numpy() @ x, np.full(dim, 0.5), atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_delaunay_ignores_flat_simplices(dim):
    """Cospherical lattices are cut in simplices some of which have no volume; the total does not feel them."""
    x = lattice(*[np.linspace(0, 0.3, 6)] * dim)
    w = delaunay_weights(x)
    assert w.sum().item() == pytest.approx(0.3**dim, rel=1e-10)
    assert (w >= 0).all()
