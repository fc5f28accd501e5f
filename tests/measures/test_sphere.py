"""Latitude–longitude grids: areas in closed form, integrals of spherical polynomials, crops."""

import math
import pickle

import numpy as np
import pytest
import torch

from quadnorm import LatLon
from quadnorm.measures.sphere import LATITUDES


def latitudes(rule: str, n: int) -> np.ndarray:
    """In radians, from the definitions."""
    if rule == "gauss-legendre":
        return np.arcsin(np.polynomial.legendre.leggauss(n)[0])
    if rule == "equiangular-cell":
        return np.array([math.pi * (j + 0.5) / n for j in range(n)]) - math.pi / 2
    return np.array([math.pi * j / (n - 1) for j in range(n)]) - math.pi / 2


def field(phi, lam):
    """z² + x with (x, z) = (cos φ cos λ, sin φ): ∫ over the sphere = 4π/3."""
    return torch.from_numpy(np.sin(phi)[:, None] ** 2 + np.cos(phi)[:, None] * np.cos(lam)[None])


@pytest.mark.parametrize("rule", LATITUDES)
def test_weights_sum_to_one_and_total_is_the_sphere(rule):
    for n, m in [(1, 4), (2, 3), (7, 12), (32, 64)]:
        w = LatLon(rule).weights((n, m))
        assert w.sum().item() == pytest.approx(1, abs=1e-14)
        assert (w > 0).all()
    assert LatLon(rule).total == pytest.approx(4 * math.pi)


def test_band_areas_are_exact():
    """A band from φ₁ to φ₂ has the share (sin φ₂ − sin φ₁)/2 of the sphere; the poles own caps of half a step."""
    n = 9
    faces = np.concatenate([[-90], -90 + 180 * (np.arange(n - 1) + 0.5) / (n - 1), [90]])
    share = np.diff(np.sin(np.deg2rad(faces))) / 2
    np.testing.assert_allclose(LatLon("equiangular").weights((n, 5)).sum(1), share, rtol=1e-13)
    faces = -90 + 180 * np.arange(n + 1) / n
    share = np.diff(np.sin(np.deg2rad(faces))) / 2
    np.testing.assert_allclose(LatLon("equiangular-cell").weights((n, 5)).sum(1), share, rtol=1e-13)


@pytest.mark.parametrize("rule", ["equiangular", "equiangular-cell"])
def test_band_rules_are_second_order(rule):
    sizes, errors = [16, 32, 64, 128], []
    for n in sizes:
        phi, lam = latitudes(rule, n), 2 * math.pi * np.arange(2 * n) / (2 * n)
        errors.append(abs(LatLon(rule).integrate(field(phi, lam)).item() - 4 * math.pi / 3))
    assert np.polyfit(np.log(1 / np.array(sizes)), np.log(errors), 1)[0] == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("rule", ["gauss-legendre", "clenshaw-curtis"])
def test_spectral_rules_are_exact_for_spherical_polynomials(rule):
    n = 12
    phi, lam = latitudes(rule, n), 2 * math.pi * np.arange(24) / 24
    assert LatLon(rule).integrate(field(phi, lam)).item() == pytest.approx(4 * math.pi / 3, abs=1e-12)
    z = torch.from_numpy(np.sin(phi)[:, None] ** 10 * np.ones(24))
    assert LatLon(rule).integrate(z).item() == pytest.approx(4 * math.pi / 11, abs=1e-12)


@pytest.mark.parametrize("rule", LATITUDES)
def test_nodes(rule):
    lat, lon = LatLon(rule).nodes((9, 4))
    np.testing.assert_allclose(lat, np.rad2deg(latitudes(rule, 9)), atol=1e-12)
    assert lon.tolist() == [0, 90, 180, 270]


def test_crops_renormalise_the_global_weights():
    """Northern third of a cell-centred grid: bands 6…8 of 9; area 2π·(1 − sin 30°)·(90°/360°) for 3 of 12 columns."""
    whole = LatLon("equiangular-cell")
    part = whole.crop(slice(6, 9), slice(0, 3), (9, 12))
    w = whole.weights((9, 12))[6:9, 0:3]
    torch.testing.assert_close(part.weights((3, 3)), w / w.sum())
    assert part.total == pytest.approx(2 * math.pi * (1 - 0.5) * 3 / 12)
    assert part.shape == (3, 3)
    with pytest.raises(ValueError, match="only, got"):
        part.weights((9, 12))
    with pytest.raises(ValueError, match="keeps no rows"):
        whole.crop(slice(4, 4), slice(None), (9, 12))
    assert pickle.loads(pickle.dumps(part)) == part


def test_crops_of_one_grid_add_up():
    whole = LatLon("clenshaw-curtis")
    north, south = whole.crop(slice(0, 4), slice(None), (9, 6)), whole.crop(slice(4, 9), slice(None), (9, 6))
    assert north.total + south.total == pytest.approx(4 * math.pi)


def test_given_coordinates_match_the_global_grid():
    lat, lon = np.linspace(90, -90, 19), np.arange(36) * 10.0
    grid = LatLon.from_coordinates(lat, lon)
    torch.testing.assert_close(grid.weights((19, 36)), LatLon("equiangular").weights((19, 36)))
    assert grid.total == pytest.approx(4 * math.pi)


def test_given_region():
    """[0°, 60°] × [0°, 90°]: area sin 60° · π/2; with bounds the outer bands reach them."""
    region = LatLon.from_coordinates([0.0, 30.0, 60.0], [0.0, 45.0, 90.0])
    assert region.total == pytest.approx(math.sin(math.pi / 3) * math.pi / 2)
    bands = np.diff(np.sin(np.deg2rad([0, 15, 45, 60])))
    np.testing.assert_allclose(region.weights((3, 3)).sum(1), bands / bands.sum(), rtol=1e-12)
    np.testing.assert_allclose(region.weights((3, 3)).sum(0), [0.25, 0.5, 0.25], rtol=1e-12)
    wide = LatLon.from_coordinates([0.0, 30.0, 60.0], [0.0, 45.0, 90.0], bounds=((-15, 75), (-22.5, 112.5)))
    np.testing.assert_allclose(wide.weights((3, 3)).sum(0), [1 / 3] * 3, rtol=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="did you mean 'equiangular'"):
        LatLon("equiangle")
    with pytest.raises(ValueError, match="from −90 to 90"):
        LatLon.from_coordinates([0.0, 100.0], [0.0, 10.0])
    with pytest.raises(ValueError, match="longitude: expected a 1-D array"):
        LatLon.from_coordinates([0.0, 10.0], [[0.0, 10.0]])
    with pytest.raises(ValueError, match="has 2 axes"):
        LatLon().weights((3, 4, 5))


def test_words():
    assert repr(LatLon("gauss-legendre")) == "LatLon('gauss-legendre')"
    assert LatLon().describe() == "sphere: equiangular × periodic, area 12.5664"
    assert LatLon() == LatLon("equiangular") == LatLon("endpoint")
    assert LatLon("cell") == LatLon("equiangular-cell")
    assert hash(LatLon()) == hash(LatLon("equiangular"))


def test_crop_backwards_is_the_crop_flipped():
    forward = LatLon().crop(slice(1, 4), slice(None), (5, 8))
    backward = LatLon().crop(slice(3, 0, -1), slice(None, None, -1), (5, 8))
    np.testing.assert_allclose(backward.weights((3, 8)), forward.weights((3, 8)).flip(0, 1), rtol=1e-14)


@pytest.mark.parametrize("longitude", [[330.0, 350.0, 10.0, 30.0], [160.0, 175.0, -170.0, -155.0]])
def test_longitudes_that_wrap_around_are_told_so(longitude):
    with pytest.raises(ValueError, match=r"wraps around between node 1 .* and node 2 .*add 360 to the nodes from 2 on"):
        LatLon.from_coordinates([0.0, 10.0, 20.0], longitude)
