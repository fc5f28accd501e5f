"""Random meshes of the square: where the vertices are, and what control volumes integrate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.problems.meshes.triangulations import FAMILIES, triangles, vertices, volumes


def mesh(n, family="uniform", seed=0, strength=0.8):
    return vertices(np.random.default_rng(seed), n, family, strength)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 14), st.sampled_from(sorted(FAMILIES)), st.integers(0, 2**31), st.floats(0, 0.95))
def test_a_mesh_fills_the_square(n, family, seed, strength):
    """n² different vertices, 4(n−1) on the boundary, corners included; volumes are positive and sum to the area 1."""
    p = mesh(n, family, seed, strength)
    assert p.shape == (n * n, 2)
    assert len(np.unique(p, axis=0)) == n * n
    assert ((p >= 0) & (p <= 1)).all()
    assert ((p == 0) | (p == 1)).any(1).sum() == 4 * (n - 1)
    assert {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)} <= set(map(tuple, p.tolist()))
    v = volumes(p)
    assert (v > 0).all()
    assert v.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_volumes_integrate_linear_functions_exactly(family):
    """∫ (1 + 2x − 3y) over the square is 1 + 1 − 3/2 = 1/2; the mean over vertices is another number on most meshes."""
    p = mesh(11, family)
    f = 1 + 2 * p[:, 0] - 3 * p[:, 1]
    assert volumes(p) @ f == pytest.approx(0.5, abs=1e-13)


def errors(family, weights, sizes=(8, 12, 18, 27, 40)):
    """Error of ∫ sin πx sin πy = (2/π)², root mean square over five meshes of each size."""
    exact = (2 / np.pi) ** 2
    rows = []
    for n in sizes:
        deviations = []
        for seed in range(5):
            p = mesh(n, family, seed)
            f = np.sin(np.pi * p[:, 0]) * np.sin(np.pi * p[:, 1])
            deviations.append(weights(p) @ f - exact)
        rows.append(np.sqrt(np.mean(np.square(deviations))))
    order = -np.polyfit(np.log(sizes), np.log(rows), 1)[0]
    return np.array(rows), order


def counting(p):
    return np.full(len(p), 1 / len(p))


def test_volumes_are_of_second_order_and_counting_is_not():
    """Uniform meshes: counting gives boundary vertices a mass of order 1/n; refined ones: it never converges."""
    for family in ("uniform", "boundary"):
        rows, order = errors(family, volumes)
        assert order > 1.7
        assert rows[-1] < 2e-3
    uniform, order = errors("uniform", counting)
    assert 0.8 < order < 1.3
    refined, order = errors("boundary", counting)
    assert abs(order) < 0.4
    assert refined[-1] > 50 * errors("boundary", volumes)[0][-1]
    assert uniform[-1] > 5 * errors("uniform", volumes)[0][-1]


def test_strength_refines_the_boundary():
    """At strength s the spacing beside a side is (1 − s) of the mean one, to leading order."""
    n = 65
    inner = mesh(n, "boundary", strength=0.8).reshape(n, n, 2)[1, 1:-1, 0]
    assert np.mean(inner) * (n - 1) == pytest.approx(0.2, rel=0.25)
    np.testing.assert_allclose(mesh(9, "boundary", strength=0.0), mesh(9, "uniform"), atol=1e-15)


def test_triangles_have_no_flat_ones():
    """Euler: a triangulated square with b boundary and m inner vertices has 2m + b − 2 triangles."""
    n = 12
    assert len(triangles(mesh(n))) == 2 * (n - 2) ** 2 + 4 * (n - 1) - 2


def test_unknown_family():
    with pytest.raises(ValueError, match="did you mean 'boundary'"):
        mesh(5, "boundry")
