"""Explicit weights, blends, masks and subsamples."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm import Anchored, Blend, Grid, Weights
from quadnorm.measures import as_measure

positive = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)


# --- Weights ---------------------------------------------------------------------------------------------------------


@given(positive, st.floats(1e-6, 1e6))
def test_weights_are_scale_free(values, scale):
    w = torch.tensor(values, dtype=torch.float64)
    torch.testing.assert_close(Weights(w * scale).weights(len(w)), Weights(w).weights(len(w)))
    assert Weights(w * scale).total == pytest.approx(scale * sum(values))


@given(positive, st.randoms())
def test_permuted_samples_have_permuted_weights(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    w = torch.tensor(values, dtype=torch.float64)
    torch.testing.assert_close(Weights(w[order]).weights(len(w)), Weights(w).weights(len(w))[order])


def test_weights_integrate():
    w = Weights([[1.0, 2.0], [3.0, 4.0]])
    assert w.total == 10
    assert w.integrate(torch.tensor([[1.0, 1.0], [0.0, 2.0]])).item() == pytest.approx(11)
    assert w.shape == (2, 2)


def test_weights_are_values():
    raw = torch.tensor([1.0, 3.0])
    w = Weights(raw)
    raw[0] = 100.0
    assert w.weights(2).tolist() == [0.25, 0.75]
    assert pickle.loads(pickle.dumps(w)) == w
    assert w == Weights([1.0, 3.0])
    assert w != Weights([1.0, 4.0])
    assert hash(w) == hash(Weights([1.0, 3.0]))
    assert repr(w) == "Weights(<shape (2,), total 4>)"
    assert "2 samples" in w.describe()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("nan")], "NaN or infinite"),
        ([1.0, float("inf")], "NaN or infinite"),
        ([1.0, -1.0], "negative"),
        ([0.0, 0.0], "all weights are zero"),
        ([1.7e308, 1.7e308], "beyond float64.*divide them"),
        ([], "one number per sample"),
        (3.0, "one number per sample"),
    ],
)
def test_bad_weights(values, message):
    with pytest.raises(ValueError, match=message):
        Weights(values)


def test_lists_keep_their_digits():
    """Not read as float32, PyTorch's default."""
    assert Weights([0.1, 0.3, 0.6]).weights(3).tolist() == pytest.approx([0.1, 0.3, 0.6], rel=1e-15)
    nodes = [0.0, 0.1, 0.4, 1.0]
    assert Grid.from_coordinates(nodes).weights(4).tolist() == pytest.approx([0.05, 0.2, 0.45, 0.3], rel=1e-15)


def test_weights_serve_one_shape():
    with pytest.raises(ValueError, match=r"shape \(2,\) only, got \(3,\)"):
        Weights([1.0, 1.0]).weights(3)


# --- Blend -----------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.integers(1, 20), st.integers(1, 20))
def test_blend_is_the_mixture(alpha, n, m):
    w = Blend(alpha, Grid("trapezoid")).weights((n, m))
    expected = alpha / (n * m) + (1 - alpha) * Grid("trapezoid").weights((n, m))
    torch.testing.assert_close(w, expected)
    assert w.sum().item() == pytest.approx(1, abs=1e-13)


def test_blend_moments_are_the_papers():
    """eq:blend-mu and eq:blend-var: the mixture's mean and its variance by the law of total variance."""
    x = np.random.default_rng(0).normal(size=(9, 7))
    alpha, q = 0.3, Grid("trapezoid").weights((9, 7)).numpy()
    mu_u, mu_q = x.mean(), (q * x).sum()
    v_u, v_q = x.var(), (q * (x - mu_q) ** 2).sum()
    p = Blend(alpha, Grid("trapezoid")).weights((9, 7)).numpy()
    mean = (p * x).sum()
    assert mean == pytest.approx(alpha * mu_u + (1 - alpha) * mu_q, abs=1e-14)
    var = alpha * v_u + (1 - alpha) * v_q + alpha * (1 - alpha) * (mu_u - mu_q) ** 2
    assert (p * (x - mean) ** 2).sum() == pytest.approx(var, abs=1e-14)


def test_blend_values_and_descriptions():
    b = Blend(0.3, Grid("trapezoid", bounds=((0, 2), (0, 2))))
    assert b.total == 4
    assert b.ndim == 2
    assert pickle.loads(pickle.dumps(b)) == b
    assert b.describe().startswith("0.3·counting + 0.7·(trapezoid")
    assert Blend(0, Grid("simpson")).weights(5).tolist() == Grid("simpson").weights(5).tolist()
    assert torch.equal(Blend(1.0, Grid("simpson")).weights((3, 3)), Grid("counting").weights((3, 3)))
    assert repr(Blend(0.3, Grid("simpson"))) == "Blend(0.3, Grid('simpson'))"
    assert Blend(0.5, Weights([1.0, 3.0])).weights(2).tolist() == [0.375, 0.625]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), True, "0.3"])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="from 0"):
        Blend(alpha, Grid("trapezoid"))


def test_an_anchored_blend_keeps_the_training_grids_counting():
    """α·((1−1/n0)·trapezoid + (1/n0)·ends) + (1−α)·trapezoid, on 9 samples for n0 = 5: the ends hold α/n0 more."""
    b = Blend(0.5, Grid("trapezoid"), Anchored(5))
    expected = torch.full((9,), 0.9 / 8, dtype=torch.float64)
    expected[0] = expected[-1] = 0.9 / 16 + 0.05
    torch.testing.assert_close(b.weights(9), expected)
    torch.testing.assert_close(b.weights(5), Blend(0.5, Grid("trapezoid")).weights(5))
    assert b.counting_part() == (0.0, b)
    assert b != Blend(0.5, Grid("trapezoid"))
    assert repr(b) == "Blend(0.5, Grid('trapezoid'), Anchored(5))"
    assert b.describe().startswith("0.5·(")


def test_blend_needs_a_measure():
    with pytest.raises(TypeError, match="counting must be a measure"):
        Blend(0.3, Grid("trapezoid"), 33)
    with pytest.raises(TypeError, match="needs a measure"):
        Blend(0.3, "trapezoid")


# --- masks -----------------------------------------------------------------------------------------------------------


def test_mask_keeps_the_rest_in_proportion():
    grid = Grid("trapezoid", bounds=((0, 1), (0, 1)))
    x = torch.linspace(0, 1, 33, dtype=torch.float64)
    mask = (x[:, None] <= 0.5) & (x >= 0)
    half = grid.masked(mask)
    w = half.weights((33, 33))
    assert w.sum().item() == pytest.approx(1, abs=1e-13)
    assert (w[~mask] == 0).all()
    full = grid.weights((33, 33))
    torch.testing.assert_close(w[mask] * full[mask].sum(), full[mask])
    assert half.total == pytest.approx(full[mask].sum().item())
    assert half.integrate(torch.ones(2, 33, 33)).tolist() == pytest.approx([half.total] * 2, rel=1e-6)


@given(st.lists(st.booleans(), min_size=2, max_size=40))
@settings(deadline=None)
def test_a_mask_and_its_complement_share_the_total(bits):
    mask = torch.tensor(bits)
    grid = Grid("simpson")
    parts = [m for m in (mask, ~mask) if m.any()]
    assert sum(grid.masked(m).total for m in parts) == pytest.approx(grid.total, abs=1e-13)


def test_masks_nest_and_compare():
    m = torch.tensor([True, True, False, True])
    a = Grid("midpoint").masked(m)
    assert a == Grid("midpoint").masked(m.clone())
    assert a != Grid("midpoint").masked(~m)
    assert pickle.loads(pickle.dumps(a)) == a
    b = a.masked(torch.tensor([True, False, False, True]))
    assert b.weights(4).tolist() == [0.5, 0, 0, 0.5]
    assert b.total == pytest.approx(0.5)
    assert "3 of 4 samples (75.0% of the measure)" in a.describe()
    assert repr(a) == "Grid('midpoint').masked(<3 of 4>)"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Grid("midpoint").masked(torch.zeros(4, dtype=torch.bool)), ValueError, "keeps 0 of 4 samples"),
        (lambda: Grid("midpoint").masked(torch.ones(4)), TypeError, "must be boolean"),
        (lambda: Weights([1.0, 1.0]).masked(torch.ones(3, dtype=torch.bool)), ValueError, r"\(2,\) only, got \(3,\)"),
        (
            lambda: Weights([0.0, 1.0]).masked(torch.tensor([True, False])),  # a subset of zero measure
            ValueError,
            "keeps 1 of 2 samples and none of the measure",
        ),
        (lambda: Grid("midpoint").masked(torch.ones(4, dtype=torch.bool)).weights(5), ValueError, "only, got"),
    ],
)
def test_bad_masks(build, error, message):
    with pytest.raises(error, match=message):
        build()


# --- subsamples ------------------------------------------------------------------------------------------------------


def test_subsample_of_all_is_the_measure():
    w = Grid("trapezoid").subsample(torch.arange(9), shape=9)
    torch.testing.assert_close(w.weights(9), Grid("trapezoid").weights(9))
    assert w.total == 1


def test_subsample_weights_by_inverse_inclusion_probability():
    """Sample i with inclusion probability π_i stands for 1/π_i of its kind: weight ∝ w_i/π_i."""
    base = Weights([1.0, 2.0, 3.0, 4.0])
    p = torch.tensor([0.5, 0.25, 1.0, 0.1])
    sub = base.subsample(torch.tensor([3, 0]), probability=p)
    expected = np.array([4 / 0.1, 1 / 0.5])
    np.testing.assert_allclose(sub.weights(2), expected / expected.sum(), rtol=1e-7)
    assert sub.total == 10


def test_subsampled_means_are_unbiased_for_the_measure():
    """Averaged over many draws the Hájek mean tends to the weighted mean, not to the draw's plain mean."""
    g = torch.Generator().manual_seed(0)
    x = torch.linspace(0, 1, 400, dtype=torch.float64) ** 3  # crowded at 0
    grid = Grid.from_coordinates(x)
    probability = torch.linspace(1, 4, 400, dtype=torch.float64)
    means, plain = [], []
    for _ in range(300):
        draw = torch.multinomial(probability, 200, replacement=True, generator=g)
        means.append(grid.subsample(draw, probability).integrate(x[draw]).item())
        plain.append(x[draw].mean().item())
    assert np.mean(means) == pytest.approx(0.5, abs=0.01)  # ∫₀¹ x dx
    assert abs(np.mean(plain) - 0.5) > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Grid("trapezoid").subsample(torch.arange(3)), "pass shape="),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([2])), "there are 2 samples"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([-1])), "there are 2 samples"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([True, False])), "use masked"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([0.0])), "flat sample indices"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([], dtype=torch.long)), "nonempty"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([0]), torch.ones(3)), "one for each of the 2"),
        (lambda: Weights([1.0, 1.0]).subsample(torch.tensor([0]), torch.zeros(2)), "could not be drawn"),
    ],
)
def test_bad_subsamples(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_as_measure():
    assert as_measure("trapezoid") == Grid("trapezoid")
    assert as_measure(("trapezoid", "periodic")) == Grid(("trapezoid", "periodic"))
    b = Blend(0.3, Grid("trapezoid"))
    assert as_measure(b) is b
    with pytest.raises(TypeError, match="rule's name"):
        as_measure(3)


def test_a_default_device_does_not_leak_into_measures():
    """Numbers that describe a measure are read on the CPU, wherever new tensors go."""
    mask, index = torch.tensor([True, False, True]), torch.tensor([1, 2])

    def measures():
        yield Weights([1.0, 2.0, 3.0]), 3
        yield Grid.from_coordinates([0.0, 0.2, 1.0]), 3
        yield Grid("trapezoid").masked(mask), 3
        yield Grid("trapezoid").subsample(index, [1.0, 2.0, 1.0, 1.0, 1.0], shape=5), 2

    want = [m.weights(n) for m, n in measures()]
    with torch.device("meta"):
        got = [m.weights(n) for m, n in measures()]
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
