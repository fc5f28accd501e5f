"""Voronoi and Delaunay weights of scattered points, against naive clipping, nearest-neighbour counts and calculus."""

import doctest
import sys

import numpy as np
import pytest
import shapely
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, HalfspaceIntersection, cKDTree

import quadnorm.measures.points as module
from quadnorm.measures import domains
from quadnorm.measures.points import delaunay_weights, voronoi_weights

UNIT = {1: ((0, 1),), 2: ((0, 1),) * 2, 3: ((0, 1),) * 3}
L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]  # area 3
HOLED = [[(0, 0), (4, 0), (4, 4), (0, 4)], [(1, 1), (1, 3), (3, 3), (3, 1)]]  # area 12


def lattice(*axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def control_volumes(*axes):
    """Half a cell at the ends of each axis, and products of these."""
    out = np.ones(1)
    for a in axes:
        out = np.multiply.outer(out, np.convolve(np.diff(a), [0.5, 0.5]))
    return out.ravel()


def clip(polygon, normal, offset):
    """The part of a convex polygon with normal·x ≤ offset, walking along its edges one by one."""
    out = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        a, b = normal @ p - offset, normal @ q - offset
        if a <= 0:
            out.append(p)
        if a * b < 0:
            out.append(p + (q - p) * (a / (a - b)))
    return out


def shoelace(polygon):
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True)) / 2


def naive_areas(points, outline):
    """Each cell is the outline (convex, counter-clockwise) cut by the bisector with every other point."""
    out = []
    for i, p in enumerate(points):
        cell = [np.array(v, dtype=float) for v in outline]
        for j, q in enumerate(points):
            if i != j:
                # relative to p, so that small cells keep their digits
                cell = [v + p for v in clip([v - p for v in cell], q - p, (q - p) @ (q - p) / 2)]
        out.append(shoelace([v - p for v in cell]) if cell else 0.0)
    return np.array(out)


def naive_volumes(points, walls, count=None):
    """Each cell is the intersection of the walls (n·x + c ≤ 0) and the bisectors with every other point."""
    out = []
    for i, p in enumerate(points[:count]):
        q = np.delete(points, i, axis=0) - p
        half = np.vstack((np.c_[q, -(q**2).sum(1) / 2], np.c_[walls[:, :3], walls[:, :3] @ p + walls[:, 3]]))
        out.append(ConvexHull(HalfspaceIntersection(half, np.zeros(3)).intersections).volume)
    return np.array(out)


BOX_WALLS = np.vstack((np.c_[-np.eye(3), np.zeros(3)], np.c_[np.eye(3), -np.ones(3)]))


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


# --- hard point sets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-6, 1e-8])
def test_cluster_in_the_plane(scale):
    """Twenty points in a spot of this size beside ten anywhere: below 1e-6 qhull gives up and GEOS takes over."""
    rng = np.random.default_rng(8)
    x = np.vstack((rng.random((10, 2)), 0.4 + scale * rng.random((20, 2))))
    expected = naive_areas(x, [(0, 0), (1, 0), (1, 1), (0, 1)])
    np.testing.assert_allclose(voronoi_weights(x, UNIT[2]), expected, rtol=1e-5, atol=1e-11)


@pytest.mark.parametrize("first", [1e-4, 1e-7])
def test_boundary_layer(first):
    """Rows that close in on the wall, as a mesh for a viscous flow has them: control volumes are known exactly."""
    axes = np.linspace(0, 1, 30), np.concatenate(([0], np.geomspace(first, 1, 40)))
    np.testing.assert_allclose(voronoi_weights(lattice(*axes), UNIT[2]), control_volumes(*axes), rtol=1e-6, atol=1e-12)


def test_rings_of_points_around_a_hole():
    """Points on circles, the innermost rows 1e-6 apart: sectors of equal angle share each ring equally."""
    angle = np.arange(60) * 2 * np.pi / 60
    circle = np.stack((np.cos(angle), np.sin(angle)), 1)
    radii = 1 + np.concatenate(([0], np.geomspace(1e-6, 1, 30)))
    x = (radii[:, None, None] * circle).reshape(-1, 2)
    domain = [2.01 * circle, 0.99 * circle]
    w = voronoi_weights(x, domain=domain).numpy().reshape(31, 60)
    assert w.sum() == pytest.approx(shapely.Polygon(domain[0], domain[1:]).area, rel=1e-10)
    np.testing.assert_allclose(w, w.mean(1, keepdims=True) * np.ones(60), rtol=1e-4, atol=1e-10)


def test_uneven_points_in_space_are_refused_rather_than_wrong():
    rng = np.random.default_rng(9)
    x = np.vstack((rng.random((100, 3)), 0.4 + 1e-7 * rng.random((100, 3))))
    with pytest.raises(
        RuntimeError, match=r"too unevenly spaced .* merge points that nearly coincide, or use delaunay"
    ):
        voronoi_weights(x, UNIT[3])


def test_round_hull_of_many_points():
    """A regular n-gon (radius 1, area (n/2) sin 2π/n) and its centre, which owns an n-gon whose sides are the bisectors
    at distance ½: area n·(½)²·tan π/n.
    """
    angle = np.arange(400) * 2 * np.pi / 400
    x = np.vstack((np.stack((np.cos(angle), np.sin(angle)), 1), [[0, 0]]))
    area = 200 * np.sin(2 * np.pi / 400)
    middle = 100 * np.tan(np.pi / 400)
    expected = np.append(np.full(400, (area - middle) / 400), middle)
    np.testing.assert_allclose(voronoi_weights(x + 7), expected, rtol=1e-9)


def test_cells_that_do_not_fill_the_domain_are_refused(monkeypatch):
    monkeypatch.setattr(domains, "_clip_to_polygon", lambda t, which, domain: np.zeros(len(which)))
    with pytest.raises(RuntimeError, match="the cells of 5 points fill"):
        voronoi_weights(np.random.default_rng(0).random((5, 2)), UNIT[2])


@pytest.mark.parametrize("dim", [2, 3])
def test_points_on_a_line_in_a_box(dim):
    """Collinear points along an axis: slabs, the same as in one dimension."""
    x = np.full((6, dim), 0.3)
    x[:, 0] = [0.0, 0.1, 0.35, 0.6, 0.8, 0.9]
    np.testing.assert_allclose(voronoi_weights(x, UNIT[dim]), voronoi_weights(x[:, 0], (0, 1)), atol=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
def test_one_and_two_points_in_a_box(dim):
    assert voronoi_weights(np.zeros((1, dim)), UNIT[dim]).tolist() == pytest.approx([1], abs=1e-14)
    ends = np.array([[0.1] * dim, [0.9] * dim])
    assert voronoi_weights(ends, UNIT[dim]).tolist() == pytest.approx([0.5, 0.5], abs=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
def test_single_precision_points_may_miss_the_wall_by_their_rounding(dim):
    x = torch.linspace(0, 0.7, 8)[:, None].expand(8, dim) @ torch.eye(dim)  # float32(0.7) > 0.7 − 2e-8
    bounds = ((0, float(x.max()) - 1e-8),) * dim
    assert voronoi_weights(x, bounds).sum().item() == pytest.approx(bounds[0][1] ** dim, rel=1e-10)


def test_no_weight_is_negative():
    """Two points beyond the wall by their rounding; signed sums below zero by theirs; anything worse is refused."""
    beyond = np.array([0.0, 0.5, 0.7, np.nextafter(np.float32(0.7), np.float32(1))], dtype=np.float32)
    w = voronoi_weights(beyond, (0, float(beyond[2]) - 1e-8))
    assert (w >= 0).all()
    assert w.sum().item() == pytest.approx(float(beyond[2]) - 1e-8, rel=1e-14)
    assert domains._checked(np.array([1.0, -1e-13]), 1.0).tolist() == [1.0, 0.0]
    with pytest.raises(RuntimeError, match="fill 1 of the domain"):
        domains._checked(np.array([1.1, -0.1]), 1.0)


# --- polygons --------------------------------------------------------------------------------------------------------


def test_square_with_a_square_hole():
    """Four points on the ring 4×4 minus 2×2 in symmetric places: 12/4 = 3 each."""
    x = [[0.5, 2.0], [3.5, 2.0], [2.0, 0.5], [2.0, 3.5]]
    assert voronoi_weights(x, domain=HOLED).tolist() == pytest.approx([3.0] * 4, rel=1e-14)
    assert voronoi_weights(x, domain=shapely.Polygon(HOLED[0], HOLED[1:])).tolist() == pytest.approx([3.0] * 4)
    tensors = [torch.tensor(ring, dtype=torch.float64) for ring in HOLED]
    assert voronoi_weights(x, domain=tensors).tolist() == pytest.approx([3.0] * 4)


def test_cell_in_two_pieces():
    """A comb of two teeth, 1 wide and 3 high, on a bar: the point at a tip owns its tooth above y=2, and the part of
    the other tooth that is nearer to it than to the point in the bar.

    Points (0.5, 3) and (1.5, 0): bisector 6(y−1.5) = 2(x−1), so y = 1.5 + (x−1)/3. Above it, the left tooth (x in
    [0, 1]) has ∫(3 − 1.5 − (x−1)/3)dx = 1.5 + 1/6, and the right one (x in [2, 3]) has 1.5 − (1/3)(3/2) = 1.
    """
    comb = np.array([(0, -1), (3, -1), (3, 3), (2, 3), (2, 0), (1, 0), (1, 3), (0, 3)], dtype=float)
    w = voronoi_weights([[0.5, 3.0], [1.5, 0.0]], domain=comb)
    total = 3 * 1 + 2 * 3
    assert w.tolist() == pytest.approx([1.5 + 1 / 6 + 1, total - (2.5 + 1 / 6)], rel=1e-14)


@pytest.mark.parametrize("domain", [L_SHAPE, HOLED])
def test_polygons_against_nearest_neighbours(domain):
    rng = np.random.default_rng(10)
    shape = shapely.Polygon(L_SHAPE) if domain is L_SHAPE else shapely.Polygon(HOLED[0], HOLED[1:])
    places = rng.random((400_000, 2)) * shape.bounds[2]
    places = places[shapely.contains_xy(shape, *places.T)]
    x, places = places[:200], places[200:]
    w = voronoi_weights(x, domain=domain).numpy()
    assert w.sum() == pytest.approx(shape.area, rel=1e-12)
    share = np.bincount(cKDTree(x).query(places)[1], minlength=200) / len(places) * shape.area
    assert (np.abs(share - w) < 5 * np.sqrt(w * shape.area / len(places))).all()


def test_box_as_polygon_and_two_islands():
    x = np.random.default_rng(11).random((300, 2))
    square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    np.testing.assert_allclose(voronoi_weights(x, domain=square), voronoi_weights(x, UNIT[2]), atol=1e-15)
    islands = shapely.union_all([shapely.box(0, 0, 1, 1), shapely.box(5, 0, 6, 2)])
    assert voronoi_weights([[0.5, 0.5], [5.5, 0.5]], domain=islands).tolist() == pytest.approx([1, 2], rel=1e-14)


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


# --- refusals --------------------------------------------------------------------------------------------------------

SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
DIAGONAL = np.linspace(0, 1, 9)[:, None]


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        ([[0.0, np.nan]], {}, r"1 of 1 points have NaN or infinite coordinates"),
        (np.zeros((2, 2, 2)), {}, r"got shape \(2, 2, 2\); a 1-D point set may also be \(N,\)"),
        (np.zeros((3, 4)), {}, r"D = 1, 2 or 3"),
        ([], {}, r"no points: got shape \(0, 1\)"),
        (SQUARE, {"bounds": ((0, 1),)}, r"one \(lo, hi\) per axis, here 2 of them"),
        (SQUARE, {"bounds": "box"}, r"one \(lo, hi\) per axis"),
        (SQUARE, {"bounds": ((0, 1), (1, 0))}, "finite lo < hi"),
        (SQUARE, {"bounds": ((0, 1), (0, np.inf))}, "finite lo < hi"),
        (SQUARE, {"bounds": ((0, 1), (0, 0.5))}, r"2 of 4 distinct points lie outside bounds .*; widen it"),
        ([0.0, 2.0], {"bounds": (0, 1)}, "1 of 2 distinct points lie outside"),
        ([1.0, 1.0], {}, "their hull has no length"),
        (DIAGONAL * [1, 2], {}, "9 distinct points lie on a line"),
        (DIAGONAL * [0.1, 0.3, 0.7], {}, "lie in a plane"),
        (np.hstack((SQUARE, SQUARE[:, :1])), {}, "lie in a plane"),
        (SQUARE[:1], {}, "fewer than 3"),
        (SQUARE, {"domain": L_SHAPE, "bounds": UNIT[2]}, "domain= is a polygon.*got bounds as well"),
        (np.zeros((2, 3)), {"domain": L_SHAPE}, "got 3-D points"),
        (SQUARE * 2, {"domain": L_SHAPE}, "1 of 4 distinct points lie outside domain"),
        (SQUARE, {"domain": shapely.LineString([(0, 0), (1, 1)])}, "got LineString"),
        (SQUARE, {"domain": shapely.Polygon()}, "with an interior"),
        (SQUARE, {"domain": [(0, 0), (1, 1), (1, 0), (0, 1)]}, "not a valid polygon: Self-intersection"),
        (SQUARE, {"domain": [(0, 0), (1, 1)]}, r"k ≥ 3 vertices; got shapes \[\(2, 2\)\]"),
        (SQUARE, {"domain": []}, "k ≥ 3"),
    ],
)
def test_bad_points_are_refused(points, options, message):
    with pytest.raises(ValueError, match=message):
        voronoi_weights(points, **options)


@pytest.mark.parametrize(("points", "message"), [(DIAGONAL * [1, 2], "line"), (SQUARE[:2], "fewer"), ([2.0], "length")])
def test_flat_point_sets_have_no_delaunay_weights(points, message):
    with pytest.raises(ValueError, match=message):
        delaunay_weights(points)


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match="real numbers, got dtype"):
        voronoi_weights([["a", "b"]])
    with pytest.raises(TypeError, match="shapely geometry or rings"):
        voronoi_weights(SQUARE, domain=3.0)


@pytest.mark.parametrize("weigh", [voronoi_weights, delaunay_weights])
def test_a_missing_extra_is_named(weigh, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    assert weigh([0.0, 1.0]).tolist() == [0.5, 0.5]  # one dimension needs nothing
    with pytest.raises(ImportError, match=r"in 2-D needs scipy and shapely: pip install 'quadnorm\[mesh\]'"):
        weigh(SQUARE)


def test_examples_in_the_docstrings():
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 3)
