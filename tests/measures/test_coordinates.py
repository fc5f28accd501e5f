"""Grids from given coordinates: their weights, bounds, order of convergence, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm import Grid, LatLon
from quadnorm.measures.base import whole_numbers


def test_coordinates_follow_the_papers_formula():
    x = np.array([0.0, 0.1, 0.4, 1.0])
    w = [(x[1] - x[0]) / 2, (x[2] - x[0]) / 2, (x[3] - x[1]) / 2, (x[3] - x[2]) / 2]
    np.testing.assert_allclose(Grid.from_coordinates(x).weights(4), w, rtol=1e-15)


def test_coordinates_may_be_read_only():
    """As those of xarray are; warnings are errors here."""
    x = np.array([0.0, 1.0, 8.0])
    x.flags.writeable = False
    assert Grid.from_coordinates(x).total == 8
    assert LatLon.from_coordinates(x, x).shape == (3, 3)


def test_uniform_coordinates_equal_the_trapezoid_rule():
    x = torch.linspace(-2, 5, 33, dtype=torch.float64)
    torch.testing.assert_close(Grid.from_coordinates(x, x).weights((33, 33)), Grid("trapezoid").weights((33, 33)))
    assert Grid.from_coordinates(x).total == 7


def test_end_cells_extend_to_the_bounds():
    """Cell-centred nodes with bounds are the midpoint rule."""
    n = 8
    x = (np.arange(n) + 0.5) / n
    for bounds in [(0, 1), ((0, 1),)]:
        grid = Grid.from_coordinates(x, bounds=bounds)
        np.testing.assert_allclose(grid.weights(n), 1 / n, rtol=1e-14)
        assert grid.total == 1
    assert Grid.from_coordinates([0.3], bounds=((0, 2),)).weights(1).tolist() == [1]
    Grid.from_coordinates([-1 - 1e-13, 0, 1 + 1e-13], bounds=((-1, 1),))  # rounding is no reason to refuse


def test_what_is_a_list_of_whole_numbers():
    assert whole_numbers((3, np.int64(4), torch.tensor(5))) == [3, 4, 5]
    assert [whole_numbers(other) for other in (b"12", "12", 3, [3, 4.0], np.ones((1, 2), int))] == [None] * 5


def test_periodic_coordinates_wrap():
    """Each node owns half the gap to either neighbour around the circle."""
    x = np.array([0.1, 0.2, 0.5, 0.9])
    grid = Grid.from_coordinates(x, bounds=((0, 1),), periodic=True)
    np.testing.assert_allclose(grid.weights(4), [0.15, 0.2, 0.35, 0.3], rtol=1e-14)
    n = 16
    even = Grid.from_coordinates(np.arange(n) / n, bounds=((0, 1),), periodic=True)
    np.testing.assert_allclose(even.weights(n), 1 / n, rtol=1e-13)


def test_descending_coordinates_mirror():
    x = np.array([0.0, 0.1, 0.4, 1.0])
    np.testing.assert_allclose(
        Grid.from_coordinates(x[::-1].copy()).weights(4), Grid.from_coordinates(x).weights(4).flip(0)
    )


@pytest.mark.parametrize("bounds", [None, ((0.0, 1.0),)])
def test_nonuniform_grids_are_second_order(bounds):
    """Smoothly graded nodes x = s² + small offsets at the ends when bounds are given; ∫₀¹ e^x dx = e − 1."""
    sizes, errors = [17, 33, 65, 129, 257], []
    for n in sizes:
        s = np.linspace(0, 1, n) if bounds is None else (np.arange(n) + 0.5) / n
        x = s**2
        grid = Grid.from_coordinates(x, bounds=bounds)
        errors.append(abs(grid.integrate(torch.from_numpy(np.exp(x))).item() - (math.e - 1)))
    slope = np.polyfit(np.log(1 / np.array(sizes)), np.log(errors), 1)[0]
    assert slope == pytest.approx(2, abs=0.15)


@given(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=40, unique=True), st.data())
@settings(deadline=None)
def test_splitting_a_cell_leaves_the_total_and_the_far_weights(values, data):
    x = np.sort(np.array(values, dtype=np.float64))
    k = data.draw(st.integers(0, len(x) - 2))
    new = (x[k] + x[k + 1]) / 2
    if not x[k] < new < x[k + 1]:
        return
    bounds = ((-1.0, 2.0),)
    before = Grid.from_coordinates(x, bounds=bounds)
    after = Grid.from_coordinates(np.insert(x, k + 1, new), bounds=bounds)
    w0, w1 = before.weights(len(x)), after.weights(len(x) + 1)
    assert after.total == before.total
    assert w1.sum().item() == pytest.approx(1, abs=1e-13)
    torch.testing.assert_close(w1[:k], w0[:k])
    torch.testing.assert_close(w1[k : k + 3].sum(), w0[k : k + 2].sum())


@pytest.mark.parametrize(
    ("coordinates", "kwargs", "message"),
    [
        (([0.0, 0.5, 0.3, 1.0],), {}, "node 1 is 0.5 and node 2 is 0.3; sort"),
        (([0.0, 0.5, 0.5, 1.0],), {}, "strictly increasing or decreasing"),
        (([0.0, float("nan"), 1.0],), {}, "node 1 is nan"),
        (([[0.0, 1.0]],), {}, "1-D array"),
        (([],), {}, "at least one node"),
        ((), {}, "at least one 1-D array"),
        (([0.0, 1.0],), {"bounds": ((0, 0.5),)}, "outside the bounds"),
        (([0.0, 1.0],), {"bounds": ((1, 0),)}, "lo < hi"),
        (([0.0, 1.0],), {"bounds": (("a", "b"),)}, r"pair \(lo, hi\)"),
        (([0.0, 1.0], [0.0, 1.0]), {"bounds": ((0, 1),)}, "expected one per axis"),
        (([0.0, 0.5],), {"periodic": True}, "needs bounds"),
        (([0.0, 0.5, 1.0],), {"periodic": True, "bounds": ((0, 1),)}, "leave the last node out"),
        (([0.5],), {}, "pass bounds"),
    ],
)
def test_bad_coordinates_are_refused(coordinates, kwargs, message):
    with pytest.raises(ValueError, match=message):
        Grid.from_coordinates(*coordinates, **kwargs)


def test_coordinates_serve_one_shape():
    with pytest.raises(ValueError, match=r"has weights for shape \(3,\) only, got \(5,\)"):
        Grid.from_coordinates([0, 0.2, 1.0]).weights(5)
