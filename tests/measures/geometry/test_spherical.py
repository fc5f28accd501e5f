"""Voronoi cells on the sphere against scipy's, equal areas, Gauss weights, and counting by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quadnorm as qn
from quadnorm.measures.geometry.spherical import (
    healpix_centres,
    in_half_sphere,
    polygon_areas,
    unit_vectors,
    vertex_shares,
)
from tests.measures.geometry.spheres import healpix, icosahedron, reduced_gaussian, spherical_excess

SPHERE = 4 * np.pi


def weights(points):
    return qn.voronoi_weights(points, sphere=True).numpy()


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("n", [4, 5, 12, 200])
def test_random_points_as_scipy_has_them(n):
    from scipy.spatial import SphericalVoronoi

    x = unit(np.random.default_rng(n).standard_normal((n, 3)))
    expected = SphericalVoronoi(x).calculate_areas()
    np.testing.assert_allclose(weights(x), expected, atol=1e-12)
    np.testing.assert_allclose(weights(x).sum(), SPHERE, rtol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_points_in_one_half_have_cells_around_the_back(seed):
    """Nearest of six clustered points, over directions drawn at random: cells are up to a half sphere, and some have
    edges that pass the far side."""
    rng = np.random.default_rng(seed)
    x = unit(rng.standard_normal((6, 3)) * 0.2 + [0, 0, 1])
    directions = rng.standard_normal((200_000, 3))
    share = np.bincount((directions @ x.T).argmax(1), minlength=6) / len(directions)
    np.testing.assert_allclose(weights(x) / SPHERE, share, atol=5e-3)
    assert in_half_sphere(x)


@pytest.mark.parametrize("height", [0.0, 0.6])
def test_points_on_one_circle_leave_a_half_empty(height):
    around = 2 * np.pi * np.arange(8) / 8
    circle = np.stack([np.cos(around), np.sin(around), np.full(8, height)], 1)
    assert in_half_sphere(unit(circle))
    assert not in_half_sphere(unit(np.concatenate([circle, [[0, 0, 1], [0, 0, -1]]])))


def test_healpix_pixels_have_nearly_equal_cells():
    """Pixels have equal areas; the cells of their centres do to 0.36 % in the mean, and integrate with order 2:
    the mean of z⁴ is 1/5."""
    errors = []
    for nside in (8, 16):
        x = healpix(nside)
        w = weights(x) * len(x) / SPHERE
        errors.append(abs((w * x[:, 2] ** 4).mean() - 0.2))
    assert np.sqrt(((w - 1) ** 2).mean()) < 0.004
    assert w.min() > 0.98
    assert w.max() < 1.05
    assert 3.5 < errors[0] / errors[1] < 5


def test_rows_of_a_gaussian_grid_are_near_gauss_weights():
    z, w = np.polynomial.legendre.leggauss(32)
    lat, lon = np.degrees(np.arcsin(z)), 360 * np.arange(64) / 64
    points = np.stack(np.meshgrid(lat, lon, indexing="ij"), -1).reshape(-1, 2)
    cells = weights(points).reshape(32, 64)
    np.testing.assert_allclose(cells, np.broadcast_to(cells[:, :1], cells.shape), rtol=1e-11)
    ratio = cells.sum(1) / (2 * np.pi * w)
    assert abs(ratio[2:-2] - 1).max() < 0.006
    assert abs(ratio - 1).max() < 0.06  # the first rows from the pole: caps have another shape than bands


def test_reduced_gaussian_cells_integrate_like_gauss_weights():
    lat, lon, area = reduced_gaussian(16)
    w = weights(np.stack((lat, lon), axis=1))
    assert np.sqrt(((w / area - 1) ** 2).mean()) < 0.01
    z = np.sin(np.radians(lat))
    assert abs((w * z**2).sum() / SPHERE - 1 / 3) < 2e-4  # 2.6e-2 with equal weights
    assert abs((z**2).mean() - 1 / 3) > 1e-2


def test_icosahedral_triangles_and_their_vertices():
    points, triangles = icosahedron(2)
    expected = [spherical_excess(*points[t]) for t in triangles]
    np.testing.assert_allclose(polygon_areas(points[triangles]), expected, rtol=1e-9)
    np.testing.assert_allclose(vertex_shares(points[triangles]).sum(1), expected, rtol=1e-9)
    dual = np.zeros(len(points))
    np.add.at(dual, triangles, vertex_shares(points[triangles]))
    np.testing.assert_allclose(dual / weights(points), 1, atol=0.13)  # barycentres, not circumcentres, are the corners
    np.testing.assert_allclose(dual.sum(), SPHERE)


@pytest.mark.parametrize("lat", [0.0, 40.0])
def test_points_on_one_circle_have_lunes(lat):
    """Only the angle around the axis decides: halves of the gaps 10°, 10°, 180° and 160° of 360°."""
    w = weights([[lat, 0], [lat, 10], [lat, 20], [lat, 200]])
    np.testing.assert_allclose(w / SPHERE, np.array([85, 10, 95, 170]) / 360, rtol=1e-12)
    np.testing.assert_allclose(weights([[12.0, 3.0]]), [SPHERE])
    np.testing.assert_allclose(weights([[12.0, 3.0], [13.0, 9.0]]), [SPHERE / 2] * 2)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.integers(0, 10**6))
def test_rotations_orders_copies_and_radii_change_nothing(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    x = unit(rng.standard_normal((n, 3)))
    w = weights(x)
    q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(weights(x @ q), w, atol=1e-10)
    order = rng.permutation(n)
    np.testing.assert_array_equal(weights(x[order]), w[order])
    np.testing.assert_allclose(weights(np.concatenate((x, x[:1])))[[0, -1]], w[0] / 2)
    np.testing.assert_allclose(weights(6371.0 * x), 6371.0**2 * w, rtol=1e-9)
    places = np.stack((np.degrees(np.arcsin(x[:, 2])), np.degrees(np.arctan2(x[:, 1], x[:, 0]))), 1)
    np.testing.assert_allclose(weights(places), w, atol=1e-9)
    np.testing.assert_allclose(unit_vectors(places[:, 0], places[:, 1]), x, atol=1e-12)


def test_poles_stored_once_for_every_longitude_share_one_cell():
    lat, lon = np.linspace(-90, 90, 7), np.arange(12) * 30.0
    points = np.stack(np.meshgrid(lat, lon, indexing="ij"), -1).reshape(-1, 2)
    w = weights(torch.tensor(points)).reshape(7, 12)
    np.testing.assert_allclose(w[0], w[0, 0])
    np.testing.assert_allclose(w.sum(), SPHERE)


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        ([[120.0, 10.0]], {}, "latitude of 120; the columns look swapped"),
        ([[1.0, 0, 0], [0, 2.0, 0]], {}, "must lie on one sphere"),
        ([[0.0, 0, 0]], {}, "must lie on one sphere"),
        ([0.0, 1.0], {}, "shape"),
        ([[0.0, 0.0]], {"bounds": ((0, 1), (0, 1))}, "whole sphere"),
    ],
)
def test_refusals(points, options, words):
    with pytest.raises(ValueError, match=words):
        qn.voronoi_weights(points, sphere=True, **options)


@pytest.mark.parametrize("nside", [1, 2, 8])
def test_centres_of_healpix_pixels(nside):
    """In the order of rings those of the definition; nested, four pixels lie around the one that they divide."""
    np.testing.assert_allclose(healpix_centres(nside, nested=False).T, healpix(nside), atol=1e-12)
    coarse, fine = (healpix_centres(n, nested=True) for n in (nside, 2 * nside))
    around = fine.reshape(3, -1, 4)
    away = np.linalg.norm(around - coarse[..., None], axis=0)
    assert away.max() < 1.1 / nside
    np.testing.assert_allclose(np.linalg.norm(around.mean(2) - coarse, axis=0), 0, atol=0.3 / nside)
    assert len(np.unique(coarse.round(9), axis=1).T) == 12 * nside**2
