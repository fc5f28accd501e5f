"""Low precision, large means, constant fields, extreme scales, NaN and tiny inputs, with every kernel."""

import copy

import pytest
import torch
from torch import nn

from quadnorm.norms import QuadNorm
from tests.norms.reference import MODES, randomized, reference, trapezoid_weights


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("measure", ["trapezoid", "counting"])
def test_low_precision_is_the_float32_result_rounded(kernel, dtype, measure):
    layer = randomized(QuadNorm(4, mode="group", num_groups=2, measure=measure))
    x = (torch.randn(3, 4, 9, 8) + 2).to(dtype)
    assert torch.equal(layer(x), layer(x.float()).to(dtype))
    a, b = x.clone().requires_grad_(), x.float().requires_grad_()
    g = torch.randn(x.shape).to(dtype)
    layer(a).backward(g)
    layer(b).backward(g.float())
    torch.testing.assert_close(a.grad, b.grad.to(dtype), rtol=1e-2, atol=1e-2)
    both = copy.deepcopy(layer).to(dtype)(x)
    assert both.dtype == dtype


def test_autocast(kernel):
    net = nn.Sequential(nn.Conv1d(2, 4, 1), QuadNorm(4))
    x = torch.randn(2, 2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
        h = net[0](x)
    assert h.dtype == y.dtype == torch.bfloat16
    assert torch.equal(y, net[1](h.detach().float()).to(torch.bfloat16))
    y.float().sum().backward()
    assert net[1].weight.grad.dtype == torch.float32


def test_double_layer_keeps_double(kernel):
    assert QuadNorm(2, dtype=torch.float64)(torch.randn(1, 2, 5, dtype=torch.float64)).dtype == torch.float64
    assert QuadNorm(2)(torch.randn(1, 2, 5, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(("mode", "num_groups", "groups"), MODES)
def test_large_mean_small_spread(kernel, mode, num_groups, groups):
    """Mean 10⁵ standard deviations in float32; the reference sees the same rounded input."""
    x = torch.randn(2, 4, 40, 40) + 1e5
    got = QuadNorm(4, mode=mode, num_groups=num_groups)(x)
    torch.testing.assert_close(got.double(), reference(x, trapezoid_weights((40, 40)), groups), atol=2e-5, rtol=0)


def test_large_mean_gradient(kernel):
    x = (torch.randn(2, 4, 40) + 1e5).requires_grad_()
    z = x.detach().double().requires_grad_()
    g = torch.randn(2, 4, 40)
    layer = QuadNorm(4, affine=False)
    layer(x).backward(g)
    layer(z).backward(g.double())
    torch.testing.assert_close(x.grad.double(), z.grad, atol=1e-5, rtol=0)


@pytest.mark.parametrize("value", [0.1, -3.7, 12345.678, 1e-6, 1e8])
@pytest.mark.parametrize("shape", [(2, 4, 33, 20), (1, 2, 3), (1, 2, 7000)])
def test_constant_field_gives_exactly_beta(kernel, value, shape):
    layer = QuadNorm(shape[1])
    nn.init.normal_(layer.bias)
    y = layer(torch.full(shape, value))
    assert torch.equal(y, layer.bias.reshape(1, -1, *[1] * (len(shape) - 2)).expand(shape))
    w = torch.rand(shape[2:])
    assert torch.equal(layer(torch.full(shape, value), weights=w), y)


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_extreme_scales(kernel, scale):
    x = torch.randn(2, 4, 12, 12) * scale
    layer = QuadNorm(4, eps=1e-5 if scale > 1 else 1e-30)
    want = reference(x, trapezoid_weights((12, 12)), eps=layer.eps)
    torch.testing.assert_close(layer(x).double(), want, atol=1e-5, rtol=1e-5)
    assert (QuadNorm(4)(torch.randn(1, 4, 9) * 1e-8).abs() < 1e-4).all()  # far below ε: not blown up


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nonfinite_stays_in_its_sample(kernel, bad):
    x = torch.randn(3, 4, 6, 6)
    clean = QuadNorm(4)(x)
    x[1, 2, 3, 3] = bad
    y = QuadNorm(4)(x)
    assert torch.isnan(y[1]).all()
    torch.testing.assert_close(y[[0, 2]], clean[[0, 2]], atol=1e-6, rtol=0)
    y = QuadNorm(4, mode="instance")(x)
    assert torch.isnan(y[1, 2]).all()
    assert torch.isfinite(y[1, [0, 1, 3]]).all()


def test_small_extremes(kernel):
    layer = QuadNorm(3)
    empty = torch.randn(0, 3, 5, requires_grad=True)
    assert layer(empty).shape == (0, 3, 5)
    layer(empty).sum().backward()
    assert layer.weight.grad.abs().sum() == 0
    assert layer(torch.randn(0, 3, 5), weights=torch.ones(0, 5)).shape == (0, 3, 5)
    one_point = torch.randn(2, 3, 1)
    torch.testing.assert_close(layer(one_point).double(), reference(one_point, [1.0]), atol=1e-5, rtol=1e-4)
    assert torch.equal(QuadNorm(3, mode="instance")(one_point), torch.zeros(2, 3, 1))
    single = torch.randn(1, 1, 6)
    torch.testing.assert_close(
        QuadNorm(1)(single).double(), reference(single, trapezoid_weights((6,))), atol=1e-6, rtol=0
    )
    for bad in (torch.randn(2, 3, 0), torch.randn(2, 3, 4, 0)):
        with pytest.raises(ValueError, match="no samples"):
            layer(bad)
