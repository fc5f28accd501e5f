"""Tensor-product grids: weights, totals, integrals, identity, caching, errors."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch

import quadnorm
from quadnorm import Grid
from quadnorm.measures import RULES
from quadnorm.measures._cache import CACHE, TensorCache


def trapezoid(n):
    return np.array([1.0]) if n == 1 else np.array([0.5, *[1.0] * (n - 2), 0.5]) / (n - 1)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 5), (2, 3, 4, 5), (1, 7)])
def test_weights_are_outer_products(shape):
    expected = np.ones(())
    for n in shape:
        expected = np.multiply.outer(expected, trapezoid(n))
    w = Grid("trapezoid").weights(shape)
    np.testing.assert_allclose(w, expected, rtol=1e-14)
    assert w.sum().item() == pytest.approx(1, abs=1e-14)


def test_one_rule_per_axis():
    grid = Grid(("trapezoid", "periodic"))
    np.testing.assert_allclose(grid.weights((3, 4)), np.outer(trapezoid(3), np.full(4, 0.25)), rtol=1e-15)
    factors = grid.factors((3, 4))
    np.testing.assert_allclose(torch.outer(*factors), grid.weights((3, 4)))
    with pytest.raises(ValueError, match=r"has 2 axes, got samples of shape .* one entry for each spatial axis"):
        grid.weights((3, 4, 5))


@pytest.mark.parametrize(("dim", "order"), [(1, 2), (2, 2), (3, 2)])
def test_second_order_in_every_dimension(dim, order):
    """∫ over [0,1]^d of ∏ e^{x_k} = (e−1)^d (thm:consistency)."""
    sizes, errors = [9, 17, 33, 65], []
    for n in sizes:
        x = torch.linspace(0, 1, n, dtype=torch.float64).exp()
        f = x
        for _ in range(dim - 1):
            f = f.unsqueeze(-1) * x
        errors.append(abs(Grid("trapezoid").integrate(f).item() - (math.e - 1) ** dim))
    slope = np.polyfit(np.log([1 / (n - 1) for n in sizes]), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.05)


def test_total_and_integral_use_the_bounds():
    """∫₀² ∫₋₁³ xy dy dx = 2 · 4 = 8."""
    grid = Grid("trapezoid", bounds=((0, 2), (-1, 3)))
    x, y = torch.linspace(0, 2, 5, dtype=torch.float64), torch.linspace(-1, 3, 9, dtype=torch.float64)
    assert grid.total == 8
    assert grid.integrate(x[:, None] * y).item() == pytest.approx(8, abs=1e-13)
    np.testing.assert_allclose(grid.nodes((5, 9))[1], y)


def test_integrate_leaves_leading_axes():
    f = torch.ones(2, 3, 5, 7)
    out = Grid("simpson").integrate(f, ndim=2)
    assert out.shape == (2, 3)
    torch.testing.assert_close(out, torch.ones(2, 3))
    assert Grid(("simpson", "periodic")).integrate(f).shape == (2, 3)
    with pytest.raises(ValueError, match="cannot integrate over the last 5 axes"):
        Grid("simpson").integrate(f, ndim=5)


def test_flat_weights_are_one_over_n_to_the_last_bit():
    for name in ("counting", "midpoint", "periodic"):
        assert torch.equal(Grid(name).weights((33, 33)), torch.full((33, 33), 1 / 1089, dtype=torch.float64))
        assert Grid(name).flat((33, 33))
    assert not Grid("trapezoid").flat((33, 33))
    assert Grid("trapezoid").flat((1, 1))


def test_bad_shapes_are_refused():
    grid = Grid("trapezoid")
    with pytest.raises(ValueError, match="axis with 0 samples"):
        grid.weights((4, 0))
    with pytest.raises(ValueError, match="shape is empty"):
        grid.weights(())
    with pytest.raises(TypeError, match="whole numbers"):
        grid.weights((4.0, 2))
    assert grid.weights(np.array([4, 2]).tolist()).shape == grid.weights((np.int64(4), 2)).shape
    with pytest.raises(TypeError, match="name or a sequence of names"):
        Grid(3)
    with pytest.raises(ValueError, match="did you mean 'simpson'"):
        Grid("simpsons")
    with pytest.raises(ValueError, match="2 rules and 1 bounds"):
        Grid(("trapezoid", "simpson"), bounds=((0, 1),))
    with pytest.raises(ValueError, match=r"one \(lo, hi\) per axis"):
        Grid("trapezoid", bounds=3)


MEASURES = [
    Grid("simpson"),
    Grid(("trapezoid", "periodic")),
    Grid("trapezoid", bounds=((0, 2),)),
    Grid.from_coordinates([0.0, 0.2, 1.0], [0.0, 0.7, 1.0]),
]


@pytest.mark.parametrize("grid", MEASURES, ids=repr)
def test_grids_are_values(grid):
    again = pickle.loads(pickle.dumps(grid))
    assert again == grid
    assert hash(again) == hash(grid)
    assert copy.deepcopy(grid) == grid
    assert {grid: 1}[again] == 1
    with pytest.raises(AttributeError, match="immutable"):
        grid.rule = "other"


def test_repr_and_describe():
    assert repr(Grid("simpson")) == "Grid('simpson')"
    assert eval(repr(MEASURES[1])) == MEASURES[1]
    assert eval(repr(MEASURES[2])) == MEASURES[2]
    assert repr(MEASURES[3]) == "Grid.from_coordinates(<3 nodes on [0, 1]>, <3 nodes on [0, 1]>)"
    assert MEASURES[1].describe() == "trapezoid × periodic on [0, 1] × [0, 1], total 1"
    assert Grid("simpson").describe() == "simpson on every axis of [0, 1]^d"
    assert Grid("simpson") != Grid("boole")


def test_weights_may_be_changed_by_their_owner():
    grid = Grid("trapezoid")
    grid.weights((5, 5)).zero_()
    assert grid.weights((5, 5)).sum().item() == pytest.approx(1)


def test_shared_weights_are_built_once():
    CACHE.clear()
    grid = Grid("boole")
    first = grid.shared_weights((20, 20), dtype=torch.float32)
    assert Grid("boole").shared_weights((20, 20), dtype=torch.float32) is first
    assert first.dtype == torch.float32
    assert grid.shared_weights((20, 20)) is not first
    assert len(CACHE) == 2


def test_the_cache_is_bounded_by_bytes():
    cache = TensorCache(max_bytes=1000)
    for k in range(50):
        cache.get(k, lambda: torch.zeros(40, dtype=torch.float64))  # 320 bytes: three fit
    assert len(cache) == 3
    assert cache.bytes == 960
    cache.get("huge", lambda: torch.zeros(1000, dtype=torch.float64))
    assert len(cache) == 3


def test_weights_born_in_inference_mode_can_train():
    CACHE.clear()
    with torch.inference_mode():
        Grid("trapezoid").shared_weights((6,))
    x = torch.ones(6, dtype=torch.float64, requires_grad=True)
    (x * Grid("trapezoid").shared_weights((6,))).sum().backward()
    torch.testing.assert_close(x.grad, Grid("trapezoid").weights(6))


def test_meta_device_and_dtypes():
    w = Grid("trapezoid").weights((4, 4), device="meta", dtype=torch.float32)
    assert (w.device.type, w.shape, w.dtype) == ("meta", (4, 4), torch.float32)
    with torch.device("meta"):  # a default device must not leak into the cache
        CACHE.clear()
        assert Grid("trapezoid").shared_weights((3,)).device.type == "cpu"


@pytest.mark.parametrize("name", RULES)
def test_one_graph_serves_every_resolution(name):
    if not hasattr(torch.compiler, "is_exporting") and not RULES[name].traceable:
        pytest.skip("torch 2.6 compiles as it exports: weights without a closed form have one size")
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def mean(x):
        return (x * Grid(name).shared_weights(tuple(x.shape))).sum()

    torch.compiler.reset()
    compiled = torch.compile(mean, fullgraph=True, dynamic=True, backend=keep)
    for n in (11, 12, 27, 202):
        x = torch.linspace(0, 1, n, dtype=torch.float64) ** 2
        torch.testing.assert_close(compiled(x), mean(x))
    assert len(graphs) == 1


def test_the_papers_helper():
    """The listing, line by line: h inside, h/2 at both ends, 1 for a single sample, products over the axes."""
    one_d = []
    for n in (4, 1, 3):
        w = torch.full((n,), 1 / max(n - 1, 1))
        if n > 1:
            w[0] = w[-1] = 1 / (n - 1) / 2
        one_d.append(w)
    expected = torch.einsum("i,j,k->ijk", *one_d)
    torch.testing.assert_close(quadnorm.trapezoidal_weights_nd((4, 1, 3), torch.device("cpu"), torch.float32), expected)


def test_unknown_rules_are_listed_once():
    with pytest.raises(ValueError, match="unknown rule 'perodic'") as error:
        Grid("perodic")
    known = str(error.value).split("Known: ")[1].split(", ")
    assert len(known) == len(set(known))
