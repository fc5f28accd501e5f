"""Scattered points, padding and masks; spatial norms for tokens."""

import pytest
import torch

from quadnorm import Weights
from quadnorm.norms import QuadNorm
from quadnorm.operators import GalerkinTransformer, Transolver, grid_to_tokens, tokens_to_grid

D = torch.float64

MODELS = {
    "galerkin": lambda **o: GalerkinTransformer(2, 1, width=8, heads=2, layers=2, projection=5, **o),
    "transolver": lambda **o: Transolver(2, 1, width=8, heads=2, layers=2, slices=3, **o),
}


@pytest.fixture(params=MODELS)
def build(request):
    def make(**options):
        torch.manual_seed(0)
        model = MODELS[request.param](**options).double()
        for p in model.parameters():
            if p.ndim > 1:
                torch.nn.init.normal_(p, std=0.5)
        return model

    return make


def trapezoid(n):
    w = torch.full((n,), 1 / (n - 1), dtype=D)
    w[[0, -1]] /= 2
    return w


@pytest.mark.parametrize(("norm", "measure"), [("layer", "counting"), ("quad", "trapezoid"), ("token", "trapezoid")])
def test_a_grid_given_as_points_is_the_grid(build, norm, measure):
    model = build(norm=norm, measure=measure)
    a, b = torch.linspace(0, 1, 5, dtype=D), torch.linspace(0, 1, 4, dtype=D)
    r = torch.stack([g.flatten() for g in torch.meshgrid(a, b, indexing="ij")], 1)
    x = torch.randn(3, 2, 5, 4, dtype=D)
    w = None if measure == "counting" else 7 * torch.outer(trapezoid(5), trapezoid(4)).flatten()  # any scale
    y = model(x.flatten(2).transpose(1, 2), coordinates=r, weights=w)
    torch.testing.assert_close(y.transpose(1, 2).reshape(3, 1, 5, 4), model(x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("norm", ["layer", "quad", "instance", "none"])
@pytest.mark.parametrize("measure", ["counting", "trapezoid"])
def test_padded_is_each_sample_alone(build, norm, measure):
    """Clouds of 5 and 8 points in one batch: padding has weight 0 and may hold anything, NaN included."""
    model = build(norm=norm, measure=measure)
    sizes = (5, 8)
    x, r, w = torch.full((2, 8, 2), torch.nan, dtype=D), torch.full((2, 8, 2), torch.inf, dtype=D), torch.zeros(2, 8)
    for b, n in enumerate(sizes):
        x[b, :n], r[b, :n], w[b, :n] = torch.randn(n, 2), torch.rand(n, 2), torch.rand(n) + 0.1
    y = model(x, coordinates=r, weights=w)
    for b, n in enumerate(sizes):
        alone = model(x[b : b + 1, :n], coordinates=r[b, :n], weights=w[b, :n])
        torch.testing.assert_close(y[b : b + 1, :n], alone, rtol=1e-6, atol=1e-8)
        assert torch.isfinite(y[b]).all()


def test_order_of_points_does_not_matter(build):
    model = build(norm="quad", measure="trapezoid")
    x, r, w = torch.randn(1, 9, 2, dtype=D), torch.rand(9, 2, dtype=D), torch.rand(9)
    p = torch.randperm(9)
    y, z = model(x, coordinates=r, weights=w), model(x[:, p], coordinates=r[p], weights=w[p])
    torch.testing.assert_close(y[:, p], z, rtol=1e-6, atol=1e-8)


def test_a_point_counted_twice_is_two_points(build):
    """Weights 2 and 1 are the same measure as three points of weight 1, two of which coincide."""
    model = build(norm="quad", measure="trapezoid")
    x, r = torch.randn(1, 2, 2, dtype=D), torch.rand(2, 2, dtype=D)
    twice = model(x[:, [0, 0, 1]], coordinates=r[[0, 0, 1]], weights=torch.ones(3))
    once = model(x, coordinates=r, weights=torch.tensor([2.0, 1.0]))
    torch.testing.assert_close(twice[:, 1:], once, rtol=1e-6, atol=1e-8)


def test_a_masked_grid(build):
    """weights= on a grid: absent samples are as if they were not there, whatever they hold."""
    model = build(norm="quad", measure="trapezoid")
    x = torch.randn(1, 2, 4, 4, dtype=D)
    w = torch.rand(4, 4)
    w[1, 2] = w[3, 3] = 0
    y = model(x, weights=w)
    other = x.clone()
    other[:, :, 1, 2], other[:, :, 3, 3] = torch.nan, 1e30
    z = model(other, weights=w)
    torch.testing.assert_close(y[0, 0][w > 0], z[0, 0][w > 0])


def test_explicit_weights_as_the_measure(build):
    w, r, x = torch.rand(9), torch.rand(9, 2, dtype=D), torch.randn(1, 9, 2, dtype=D)
    a, b = build(norm="quad", measure=Weights(w)), build(norm="quad", measure="trapezoid")
    torch.testing.assert_close(a(x, coordinates=r), b(x, coordinates=r, weights=w), rtol=1e-6, atol=1e-8)


def test_gradients_with_padding_are_finite(build):
    model = build(norm="layer")
    x, w = torch.randn(2, 6, 2, dtype=D), torch.ones(2, 6)
    x[1, 4:], w[1, 4:] = torch.nan, 0
    y = model(x, coordinates=torch.rand(6, 2, dtype=D), weights=w)
    y[w > 0].square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(torch.ones(1, 9, 3), coordinates=torch.ones(9, 2)), r"expected \(batch, N, 2\)"),
        (lambda m: m(torch.ones(1, 9, 2), coordinates=torch.ones(8, 2)), r"expected \(9, 2\)"),
        (lambda m: m(torch.ones(1, 9, 2), coordinates=torch.ones(9, 3)), "one row of 2 numbers"),
        (
            lambda m: m(torch.ones(1, 9, 2), coordinates=torch.ones(9, 2), weights=torch.ones(8)),
            "weights have shape",
        ),
        (
            lambda m: m(torch.ones(1, 9, 2), coordinates=torch.ones(9, 2), weights=torch.zeros(9)),
            "all weights are zero",
        ),
        (lambda m: m(torch.ones(1, 9, 2)), "2-dimensional grid"),
    ],
)
def test_errors_say_what_to_do(build, call, message):
    with pytest.raises(ValueError, match=message):
        call(build().float())


def test_a_rule_for_grids_cannot_weigh_points(build):
    with pytest.raises(ValueError, match="cannot weigh 9 scattered points; pass weights="):
        build(measure="trapezoid")(torch.ones(1, 9, 2, dtype=D), coordinates=torch.rand(9, 2))


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_tokens_and_grids():
    x = torch.arange(24.0).view(1, 12, 2)
    grid = tokens_to_grid(x, (3, 4))
    assert grid[0, 1, 2, 3] == x[0, 11, 1]
    assert torch.equal(grid_to_tokens(grid), x)
    assert tokens_to_grid(torch.zeros(1, 27, 2), dim=3).shape == (1, 2, 3, 3, 3)


def test_a_norms_layout_serves_tokens():
    """What SpatialNorm did: a norm with the tokens' grid as its layout is the norm of the field."""
    norm, tokens = QuadNorm(3, layout=(4, 5)), torch.randn(2, 20, 3)
    field = QuadNorm(3)(tokens_to_grid(tokens, (4, 5)))
    torch.testing.assert_close(norm(tokens), grid_to_tokens(field))


def test_tokens_that_fill_several_grids_need_a_shape():
    """32×128 samples in a row used to be taken for 64×64."""
    with pytest.raises(ValueError, match=r"4096 tokens do not say .*2×2048, 4×1024, 8×512.*pass the grid's shape"):
        tokens_to_grid(torch.zeros(1, 32 * 128, 2))
    assert tokens_to_grid(torch.zeros(1, 4096, 2), (32, 128)).shape == (1, 2, 32, 128)
    assert tokens_to_grid(torch.zeros(1, 25, 2)).shape == (1, 2, 5, 5)
    assert tokens_to_grid(torch.zeros(1, 7, 2), dim=1).shape == (1, 2, 7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tokens_to_grid(torch.zeros(1, 12, 2)),
            r"12 tokens do not say what 2-dimensional grid they are \(possible: 2×6, 3×4, 4×3",
        ),
        (lambda: tokens_to_grid(torch.zeros(1, 12, 2), (3, 5)), r"shape \(3, 5\), which has 15 places"),
        (lambda: tokens_to_grid(torch.zeros(12, 2)), r"expected tokens \(batch, N, C\)"),
    ],
)
def test_tokens_that_do_not_fill_a_grid(call, message):
    with pytest.raises(ValueError, match=message):
        call()
