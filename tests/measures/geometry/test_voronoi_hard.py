"""Voronoi cells of hard point sets and in polygons; what is refused, and how."""

import doctest
import sys

import numpy as np
import pytest
import shapely
import torch
from scipy.spatial import cKDTree

import quadnorm.measures.geometry.points as module
from quadnorm.measures.geometry import polygons as domains
from quadnorm.measures.geometry.points import delaunay_weights, voronoi_weights
from tests.measures.geometry.naive_cells import control_volumes, naive_areas
from tests.measures.geometry.small_meshes import lattice

UNIT = {1: ((0, 1),), 2: ((0, 1),) * 2, 3: ((0, 1),) * 3}
L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]  # area 3
HOLED = [[(0, 0), (4, 0), (4, 4), (0, 4)], [(1, 1), (1, 3), (3, 3), (3, 1)]]  # area 12


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
    assert (result.failed, result.attempted) == (0, 4)
