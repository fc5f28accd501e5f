"""The training grid's measure at other resolutions."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm import Anchored, Grid
from quadnorm.measures.padded import PaddedAxis


def endpoint(n: int, n0: int) -> np.ndarray:
    """(1−1/n0)·trapezoid + (1/n0)·boundary atoms, entry by entry."""
    w = np.array([(1 - 1 / n0) / (n - 1)] * n)
    w[0] = w[-1] = (1 - 1 / n0) / (2 * (n - 1)) + 1 / (2 * n0)
    return w


@given(st.integers(2, 200), st.integers(2, 200))
def test_closed_form(n, n0):
    w = Anchored(n0).weights(n).numpy()
    np.testing.assert_allclose(w, endpoint(n, n0), rtol=1e-12, atol=1e-16)
    assert w.sum() == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize(
    ("placement", "only", "nodes"),
    [
        ("endpoint", 0.5, lambda n: np.linspace(0, 1, n)),
        ("left", 0.0, lambda n: np.arange(n) / n),
        ("interior", 0.5, lambda n: (np.arange(n) + 1) / (n + 1)),
        ("gauss-legendre", 0.5, lambda n: (np.polynomial.legendre.leggauss(n)[0] + 1) / 2),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 64, 65])
def test_a_single_training_sample_keeps_its_place(placement, only, nodes, n):
    """The counting measure of one sample is a point mass where that sample lies, so lines give their value there."""
    w = Anchored(1, placement).weights(n).numpy()
    assert (w >= 0).all()
    assert (w > 0).sum() <= 2
    assert w.sum() == pytest.approx(1, abs=1e-13)
    assert w @ (2 + 3 * nodes(n)) == pytest.approx(2 + 3 * only, abs=1e-12)


def test_a_single_sample_of_a_circle_stands_for_all_of_it():
    train = Grid.from_coordinates([0.3], bounds=((0, 1),), periodic=True)
    w = Anchored(train, target=Grid.from_coordinates(np.arange(5) / 5, bounds=((0, 1),), periodic=True)).weights(5)
    torch.testing.assert_close(w, torch.full((5,), 0.2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_padding_beside_a_single_sample_has_no_length():
    with pytest.raises(ValueError, match="no spacing, so 2 padded samples"):
        Anchored.padded((1,), ("endpoint",), ((1, 1),))
    assert torch.equal(Anchored.padded((1,), ("endpoint",), ((0, 0),)).weights(1), torch.ones(1).double())
    with pytest.raises(ValueError, match="longer"):  # of the axes
        Anchored.padded((3,), ("endpoint",), ((0, 2), (0, 2)))


def test_of_two_grids_as_near_a_padded_size_the_one_in_proportion():
    """2 samples and 1 padded: grids of 2 and 3 have 3 and 5 with their padding; 4 is between, and 2·4/3 is nearly 3."""
    axis = PaddedAxis("endpoint", 2, 0, 1)
    assert [n + sum(axis.padding(n)) for n in (2, 3)] == [3, 5]
    assert axis.samples(4) == 3


@pytest.mark.parametrize(
    "placement", ["endpoint", "cell", "periodic", "left", "interior", "gauss-legendre", "clenshaw-curtis"]
)
@pytest.mark.parametrize("n0", [1, 2, 7, 32, 33])
def test_counting_to_the_last_bit_at_the_training_grid(placement, n0):
    w = Anchored((n0, n0 + 1), placement).weights((n0, n0 + 1))
    assert torch.equal(w, Grid("counting").weights((n0, n0 + 1)))
    assert torch.equal(w, torch.full((n0, n0 + 1), 1 / (n0 * (n0 + 1)), dtype=torch.float64))


@pytest.mark.parametrize("placement", ["cell", "periodic"])
def test_cell_and_periodic_training_grids_stay_uniform(placement):
    for n in (5, 16, 40):
        assert torch.equal(Anchored(16, placement).weights((n, n)), Grid("counting").weights((n, n)))


def graded(n):
    return np.linspace(0, 1, n) ** 2


def left(n):
    return np.arange(n) / n


def interior(n):
    return (np.arange(n) + 1) / (n + 1)


def density_of(x: np.ndarray, f) -> float:
    """∫ f dμ for the counting measure between the samples x: mass 1/n in each gap, 1/(2n) extra at each end.

    A fine midpoint rule in every gap stands for the integral.
    """
    n = len(x)
    t = (np.arange(2000) + 0.5) / 2000
    gaps = sum(f(a + (b - a) * t).mean() for a, b in pairwise(x))
    return (gaps + (f(x[0]) + f(x[-1])) / 2) / n


@pytest.mark.parametrize(
    ("train", "anchored"),
    [
        (left, lambda n: Anchored(17, "left")),
        (interior, lambda n: Anchored(17, "interior")),
        (lambda n: np.linspace(0, 1, n), lambda n: Anchored(17)),
        (
            graded,
            lambda n: Anchored(Grid.from_coordinates(graded(17)), target=Grid.from_coordinates(graded(n))),
        ),
    ],
    ids=["left", "interior", "endpoint", "graded"],
)
def test_every_resolution_sees_the_training_measure_to_second_order(train, anchored):
    f = lambda x: np.exp(2 * x) * np.cos(3 * x)  # noqa: E731
    exact = density_of(train(17), f)
    sizes, errors, moved = [33, 65, 129, 257, 513], [], []
    for n in sizes:
        values = torch.from_numpy(f(train(n)))
        errors.append(abs(anchored(n).integrate(values).item() - exact))
        moved.append(abs(values.mean().item() - exact))
    slope = np.polyfit(np.log(1 / np.array(sizes)), np.log(errors), 1)[0]
    assert slope == pytest.approx(2, abs=0.25)
    assert moved[-1] > 30 * errors[-1]  # the plain average tends to another limit


PLACES = ["endpoint", "cell", "periodic", "left", "interior", "gauss-legendre", "gauss-lobatto"]


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("train", PLACES)
def test_weights_are_never_negative(train, target):
    """All pairs of placements and sizes; the weights sum to 1, and none vanishes where the training grid has mass."""
    for n0 in (2, 3, 8, 32):
        for n in (2, 3, 5, 8, 16, 64, 300):
            w = Anchored((n0,), train, target=Grid((target,))).weights((n,))
            assert (w >= 0).all(), (n0, n, w.min())
            assert w.sum().item() == pytest.approx(1, abs=1e-13)


def test_point_masses_beyond_the_new_samples():
    """Endpoint-inclusive training on cell centres: the atoms at 0 and 1 lie half a spacing beyond the samples.

    Exact for lines; on e^{2x} cos 3x better than order 1.4, which leaving the atoms at the outermost samples is not.
    """
    f = lambda x: np.exp(2 * x) * np.cos(3 * x)  # noqa: E731
    exact, sizes = density_of(np.linspace(0, 1, 8), f), [64, 128, 256, 512, 1024]
    errors = []
    for n in sizes:
        x, w = (np.arange(n) + 0.5) / n, Anchored(8, target=Grid("midpoint")).weights(n).numpy()
        assert w @ (3 * x - 1) == pytest.approx(0.5, abs=1e-12)
        assert w @ x**2 == pytest.approx(density_of(np.linspace(0, 1, 8), lambda t: t**2), abs=0.3 / n)
        errors.append(abs(w @ f(x) - exact))
    assert -np.polyfit(np.log(sizes), np.log(errors), 1)[0] > 1.4


def test_periodic_nonuniform_training_grid():
    """n0 gaps of mass 1/n0 around the circle, no ends; the mean of a line piece is its midpoint value."""
    x = np.array([0.1, 0.2, 0.5, 0.9])
    train = Grid.from_coordinates(x, bounds=((0, 1),), periodic=True)
    np.testing.assert_allclose(Anchored(train).weights(4), 0.25, rtol=1e-14)
    f = lambda t: np.sin(2 * np.pi * t) + np.cos(4 * np.pi * t)  # noqa: E731
    t = (np.arange(4000) + 0.5) / 4000
    edges = np.append(x, x[0] + 1)
    exact = np.mean([f(a + (b - a) * t).mean() for a, b in pairwise(edges)])
    errors = []
    sizes = [32, 64, 128, 256]
    for n in sizes:
        anchored = Anchored(train, target=Grid("periodic", bounds=((0, 1),)))
        errors.append(abs((anchored.weights(n).numpy() @ f(np.arange(n) / n)) - exact))
    assert np.polyfit(np.log(1 / np.array(sizes)), np.log(errors), 1)[0] == pytest.approx(2, abs=0.25)


@given(
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=30, unique=True),
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=30, unique=True),
)
@settings(deadline=None)
def test_anchored_weights_carry_lines_exactly(train, target):
    """Hat functions reproduce lines, so ∫ x dμ is the training average of x, if the new nodes reach as far as it."""
    a, b = np.sort(np.array(train, float)), np.unique([0.0, *target, 1.0])
    bounds = ((0.0, 1.0),)
    measure = Anchored(Grid.from_coordinates(a, bounds=bounds), target=Grid.from_coordinates(b, bounds=bounds))
    w = measure.weights(len(b)).numpy()
    assert (w >= 0).all()
    scale = max(1.0, 1 / np.diff(b).min())
    assert w.sum() == pytest.approx(1, abs=1e-12 * scale)
    # a gap's mean is its midpoint and each end counts half a sample more: together the plain average
    assert w @ b == pytest.approx(a.mean(), abs=1e-12 * scale)


def test_other_placement_at_the_target():
    """Cell-centred training is the plain integral over [0, 1]; on endpoint nodes its hats give the trapezoid rule."""
    measure = Anchored(8, "cell", target=Grid("trapezoid"))
    np.testing.assert_allclose(measure.weights(5), np.array([1, 2, 2, 2, 1]) / 8, rtol=1e-14)


def test_values_and_words():
    a = Anchored((33, 65))
    assert repr(a) == "Anchored((33, 65))"
    assert repr(Anchored(33)) == "Anchored(33)"
    assert pickle.loads(pickle.dumps(a)) == a
    assert Anchored(33) != Anchored(34)
    assert a.anchor == (33, 65)
    assert "training grid 33×65" in a.describe()
    assert Anchored(33, ("endpoint", "periodic")).weights((65, 10)).shape == (65, 10)
    assert a.total == 1


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Anchored(0), ValueError, "samples per axis"),
        (lambda: Anchored((33, 2.5)), ValueError, "samples per axis"),
        (lambda: Anchored((33, 33), ("endpoint",)), ValueError, "2 anchors and 1 placements"),
        (lambda: Anchored(33, "endpiont"), ValueError, "did you mean 'endpoint'"),
        (lambda: Anchored(Grid("trapezoid")), ValueError, "does not say how many samples"),
        (lambda: Anchored(33, target="trapezoid"), TypeError, "target must be a Grid"),
        (lambda: Anchored(33, target=Grid("trapezoid", bounds=((0, 2),))), ValueError, "same bounds"),
        (lambda: Anchored((33, 33)).weights(33), ValueError, "has 2 axes"),
        (lambda: Anchored((3, 3), target=Grid(("cell",) * 3)), ValueError, "2 axes and the target 3"),
    ],
)
def test_bad_input(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_one_graph_serves_every_resolution():
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def mean(x):
        return (x * Anchored(9).shared_weights(tuple(x.shape))).sum()

    torch.compiler.reset()
    compiled = torch.compile(mean, fullgraph=True, dynamic=True, backend=keep)
    for n in (12, 9, 15, 129):
        x = torch.linspace(0, 1, n, dtype=torch.float64) ** 2
        torch.testing.assert_close(compiled(x), mean(x))
    assert len(graphs) == 1
