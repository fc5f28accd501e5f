"""Restriction: nearest nodes in exact arithmetic, splines exact for cubics."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.problems.restrict import cubic, nearest, select, spline_matrix


def by_fractions(fine, fractions):
    return [round(f * (fine - 1)) for f in fractions]  # Python rounds exact fractions, ties to even


@settings(max_examples=100)
@given(st.integers(2, 300), st.integers(2, 300))
def test_nearest_is_exact_rounding(n, extra):
    fine = n + extra
    assert nearest(fine, "endpoint", n).tolist() == by_fractions(fine, [Fraction(j, n - 1) for j in range(n)])
    assert nearest(fine, "cell", n).tolist() == by_fractions(fine, [Fraction(2 * j + 1, 2 * n) for j in range(n)])


@pytest.mark.parametrize("n", [32, 64, 85, 128, 141, 211, 256, 421])
def test_the_papers_grids(n):
    assert (nearest(421, "endpoint", n) == np.round(np.linspace(0, 420, n))).all()


@settings(max_examples=100)
@given(st.integers(2, 150))
def test_nested_and_mirror_symmetric(n):
    i = nearest(421, "endpoint", n)
    assert (nearest(421, "endpoint", 2 * n - 1)[::2] == i).all()
    assert (i + i[::-1] == 420).all()
    assert (np.diff(i) > 0).all()


def test_select_takes_the_same_node_of_every_field():
    f = np.arange(2 * 81).reshape(2, 9, 9)
    assert (select(f, "endpoint", (3, 5)) == f[:, ::4, ::2]).all()


@pytest.mark.parametrize("placement", ["endpoint", "cell"])
def test_splines_reproduce_cubics(placement):
    fine, n = 17, 12
    t = np.arange(fine) / (fine - 1)
    x = np.arange(n) / (n - 1) if placement == "endpoint" else (np.arange(n) + 0.5) / n
    cube = 1 - 2 * t + 5 * t**3
    np.testing.assert_allclose(spline_matrix(fine, placement, n) @ cube, 1 - 2 * x + 5 * x**3, atol=1e-13)
    got = cubic(np.outer(cube, t**2)[None], placement, (n, n))[0]
    np.testing.assert_allclose(got, np.outer(1 - 2 * x + 5 * x**3, x**2), atol=1e-13)


def test_splines_are_of_fourth_order():
    errors = []
    x = (np.arange(50) + 0.5) / 50
    for fine in (17, 33, 65):
        t = np.linspace(0, 1, fine)
        errors.append(np.abs(spline_matrix(fine, "cell", 50) @ np.sin(5 * t) - np.sin(5 * x)).max())
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert rates.min() > 3.7


def test_finer_than_the_solve_is_refused():
    with pytest.raises(ValueError, match="finer than the solve on 65 nodes per axis"):
        nearest(65, "endpoint", 66)
