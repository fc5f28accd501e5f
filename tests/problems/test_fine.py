"""From the grid of a solve to any grid: the same node of every field, splines exact for cubics."""

import numpy as np
import pytest

from quadnorm.problems.fine import cubic, select


def test_select_takes_the_same_node_of_every_field():
    f = np.arange(2 * 81).reshape(2, 9, 9)
    assert (select(f, "endpoint", (3, 5)) == f[:, ::4, ::2]).all()


@pytest.mark.parametrize("placement", ["endpoint", "cell"])
def test_splines_reproduce_cubics(placement):
    fine, n = 17, 12
    t = np.arange(fine) / (fine - 1)
    x = np.arange(n) / (n - 1) if placement == "endpoint" else (np.arange(n) + 0.5) / n
    cube = 1 - 2 * t + 5 * t**3
    got = cubic(np.outer(cube, t**2)[None], placement, (n, n))[0]
    np.testing.assert_allclose(got, np.outer(1 - 2 * x + 5 * x**3, x**2), atol=1e-13)


def test_splines_are_of_fourth_order():
    errors = []
    x = (np.arange(50) + 0.5) / 50
    for fine in (17, 33, 65):
        t = np.linspace(0, 1, fine)
        errors.append(
            np.abs(cubic(np.sin(5 * t)[None, :, None] * np.ones(5), "cell", (50, 5))[0] - np.sin(5 * x)[:, None]).max()
        )
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert rates.min() > 3.7


def test_finer_than_the_solve_is_refused():
    with pytest.raises(ValueError, match="finer than the solve on 65 nodes per axis"):
        select(np.zeros((1, 65, 65)), "endpoint", (65, 66))
