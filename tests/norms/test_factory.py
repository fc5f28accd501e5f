"""The paper's baselines and learned variants, and their names."""

from functools import partial

import pytest
import torch
from torch import nn

from quadnorm.measures import Anchored, Grid
from quadnorm.norms import (
    AnchoredNorm,
    BlendQuadNorm,
    GroupNorm,
    LayerNorm,
    LearnableQuad,
    NoNorm,
    QuadNorm,
    QuadRMSNorm,
    ResConditioned,
    RIBandNorm,
    SpectralNorm,
    make_norm,
    norm_names,
)
from tests.norms.reference import reference, trapezoid_weights

ALL = [*[n for n in norm_names() if n != "anchored"], "anchored:7"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("spatial", [(9,), (6, 7), (4, 5, 3)])
def test_every_norm_keeps_the_calling_convention(name, spatial):
    layer = make_norm(name, 8)
    x = torch.randn(2, 8, *spatial, requires_grad=True)
    w = torch.rand(2, *spatial) + 0.1
    for y in (layer(x), layer(x, weights=w), layer(x, weights=w[0])):
        assert y.shape == x.shape
        assert y.dtype == x.dtype
        assert torch.isfinite(y).all()
    y.sin().sum().backward()
    assert torch.isfinite(x.grad).all()
    for parameter in layer.parameters():
        assert parameter.grad is not None
    assert layer(x.detach().bfloat16()).dtype == torch.bfloat16
    assert layer(x.detach().double()).dtype == torch.float64


def test_baselines_are_the_native_norms():
    x = torch.randn(2, 16, 6, 5)
    close = {"atol": 1e-6, "rtol": 1e-6}
    torch.testing.assert_close(make_norm("layer", 16)(x), nn.functional.layer_norm(x, (16, 6, 5)), **close)
    torch.testing.assert_close(make_norm("instance", 16)(x), nn.functional.instance_norm(x), **close)
    torch.testing.assert_close(make_norm("group", 16)(x), nn.functional.group_norm(x, 8), **close)
    torch.testing.assert_close(make_norm("group:4", 16)(x), nn.functional.group_norm(x, 4), **close)
    torch.testing.assert_close(make_norm("rms", 16)(x), x / (x.square().mean((2, 3), True) + 1e-5).sqrt(), **close)
    tokens = nn.functional.layer_norm(x.movedim(1, -1), (16,)).movedim(-1, 1)
    torch.testing.assert_close(make_norm("token", 16)(x), tokens, **close)
    assert make_norm("none", 16)(x) is x
    assert isinstance(make_norm(None, 16), NoNorm)


def test_baselines_count_the_samples_that_are_there():
    x, w = torch.randn(2, 4, 9), torch.rand(9)
    w[3:6] = 0
    want = reference(x, (w > 0).double())
    torch.testing.assert_close(LayerNorm(4)(x, weights=w).double(), want, atol=1e-6, rtol=0)
    torch.testing.assert_close(BlendQuadNorm(4, 1.0)(x, weights=w).double(), want, atol=1e-6, rtol=0)


def test_names():
    assert make_norm("quad", 4).mode == "layer"
    assert make_norm("quad:instance", 4).groups == 4
    grouped = make_norm("quad:group:2:simpson", 4)
    assert (grouped.groups, grouped.measure) == (2, Grid("simpson"))
    assert make_norm("quad:group", 16).groups == 8
    assert make_norm("quad:cell", 4).measure == Grid("midpoint")
    assert make_norm("blend", 4).alpha == 0.3
    assert make_norm("blend:0.1", 4).alpha == 0.1
    assert make_norm("blend:1", 4).alpha == 1
    learned = make_norm("blend:learned", 4)
    assert learned.alpha_logit is not None
    assert make_norm("blend:0.5:learned", 4).alpha == pytest.approx(0.5)
    assert make_norm("anchored:33", 4).measure == Anchored(33)
    assert make_norm("anchored:33x17:instance", 4).measure == Anchored((33, 17))
    assert isinstance(make_norm("rms-quad", 4), QuadRMSNorm)
    assert make_norm("QUAD", 4, layout="last").layout == "last"
    assert isinstance(make_norm(GroupNorm, 8), GroupNorm)
    assert isinstance(make_norm(nn.InstanceNorm2d, 8), nn.InstanceNorm2d)
    assert make_norm(partial(AnchoredNorm, anchor=9), 8).measure == Anchored(9)
    assert make_norm(lambda c: nn.GroupNorm(1, c), 8).num_channels == 8


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("qaud", "did you mean 'quad'"),
        ("batch", "Known: .*anchored.*quad"),
        ("quad:instanc", "cannot read 'instanc'"),
        ("quad:8", "quad:group:8"),
        ("layer:3", "no options"),
        ("anchored", "anchored:33"),
        ("blend:2", "alpha"),
        ("group:3", "divide"),
    ],
)
def test_bad_names(spec, message):
    with pytest.raises(ValueError, match=message):
        make_norm(spec, 16)


def test_bad_specs():
    with pytest.raises(TypeError, match="class"):
        make_norm(nn.GroupNorm(1, 4), 4)
    with pytest.raises(TypeError, match="name"):
        make_norm(3, 4)
    with pytest.raises(TypeError, match=r"expected an nn\.Module"):
        make_norm(lambda c: c, 4)


def test_learned_alpha_learns():
    """On a field with a boundary spike the output depends on α; its gradient is that of a central difference."""
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    x[..., 0] += 4
    layer = BlendQuadNorm(4, 0.4, learn_alpha=True, dtype=torch.float64)
    layer(x).exp().sum().backward()
    h = 1e-6
    a = [BlendQuadNorm(4, 0.4 + s * h, dtype=torch.float64)(x).exp().sum() for s in (1, -1)]
    slope = (a[0] - a[1]) / (2 * h) * 0.4 * 0.6  # dα/dlogit = α(1−α)
    torch.testing.assert_close(layer.alpha_logit.grad, slope.detach().squeeze(), rtol=1e-5, atol=1e-6)


def test_learnable_quad_has_a_density_not_an_index():
    layer = LearnableQuad(2, knots=5, dtype=torch.float64)
    nn.init.normal_(layer.theta)
    for n in (6, 11):
        x = torch.randn(1, 2, n, n + 1, dtype=torch.float64)
        rho = [torch.exp(torch.from_numpy(_interpolate(layer.theta.detach().numpy(), k))) for k in (n, n + 1)]
        w = torch.from_numpy(trapezoid_weights((n, n + 1))) * rho[0][:, None] * rho[1]
        torch.testing.assert_close(layer(x), reference(x, w))


def _interpolate(values, n):
    import numpy as np

    return np.interp(np.linspace(0, 1, n), np.linspace(0, 1, len(values)), values)


def test_resconditioned_is_told_the_resolution():
    layer = ResConditioned(3)
    nn.init.normal_(layer.condition[2].weight)
    x = torch.randn(1, 3, 8, 8)
    s, t = layer.condition(torch.tensor([3 / 8])).detach().chunk(2)  # log₂ 8 / 8
    want = LayerNorm(3)(x) * (1 + s.reshape(3, 1, 1)) + t.reshape(3, 1, 1)
    torch.testing.assert_close(layer(x), want)
    last = ResConditioned(3, layout="last")
    last.load_state_dict(layer.state_dict())
    torch.testing.assert_close(last(x.movedim(1, -1)).movedim(-1, 1), want)


def test_bands_are_octaves():
    """cos(2π·k·r) lies in one band: after normalization each of two cosines has variance 1, whatever its amplitude."""
    r = torch.arange(32, dtype=torch.float64) / 32
    low, high = torch.cos(2 * torch.pi * r), torch.cos(2 * torch.pi * 5 * r)
    y = RIBandNorm(1, eps=1e-12, dtype=torch.float64)((100 * low + 0.01 * high + 7)[None, None])
    torch.testing.assert_close(y[0, 0], 2**0.5 * (low + high), atol=1e-5, rtol=0)
    layer = RIBandNorm(2, bands=3)
    nn.init.ones_(layer.bias)
    assert layer(torch.randn(1, 2, 16)).mean(2).allclose(torch.ones(2), atol=1e-5)  # β counts once


def test_spectral_norm_whitens():
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    y = SpectralNorm(3, eps=0.0, affine=False)(x)
    energy = torch.fft.fft2(y, norm="forward").abs().square().mean(1)
    torch.testing.assert_close(energy, torch.ones_like(energy))


def test_anchoring_a_baseline():
    layer, x = QuadNorm(4, measure="counting"), torch.randn(1, 4, 17)
    layer.measure = Anchored(9)
    torch.testing.assert_close(layer(x), AnchoredNorm(4, 9)(x))
