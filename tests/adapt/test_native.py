"""Running at the training grid, and anchoring with its values at its own nodes."""

import pytest
import torch
from scipy.interpolate import RectBivariateSpline
from torch import nn

from quadnorm.adapt import at_native, extend
from quadnorm.operators import FNO
from tests.adapt.fields import smooth


def model():
    torch.manual_seed(0)
    return FNO(width=6, modes=4, layers=2).double().requires_grad_(False)


def test_nested_grids_run_on_the_samples_themselves():
    """On 17 of 33 nodes the input is selected; the output is scipy's interpolating spline of the native run."""
    m = model()
    x = smooth(33)
    native = m(x[..., ::2, ::2])
    t = torch.arange(33) / 32
    expected = RectBivariateSpline(t[::2], t[::2], native[0, 0].numpy())(t, t)
    assert torch.allclose(at_native(m, 17, "endpoint")(x)[0, 0], torch.from_numpy(expected), atol=1e-10)


def test_other_grids_up_and_down():
    """Non-nested and coarser grids: the same continuous input gives the native run's field, to the spline's order."""
    m, fine = model(), smooth(65)
    wrapped = at_native(m, 17, "endpoint")
    native = wrapped(fine)
    for n in (24, 13):
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        got = wrapped(smooth(n))
        exact = RectBivariateSpline(torch.arange(65) / 64, torch.arange(65) / 64, native[0, 0].numpy())(r, r)
        assert (got[0, 0] - torch.from_numpy(exact)).abs().max() < 2e-4 * native.abs().max()


def test_periodic_axes_use_fourier_series():
    """The identity on band-limited periodic data is exact at every grid."""
    wrapped = at_native(nn.Identity(), (8, 8), "periodic")
    r = torch.arange(20, dtype=torch.float64) / 20
    x = (torch.cos(2 * torch.pi * 3 * r)[:, None] * torch.sin(2 * torch.pi * r))[None, None]
    assert torch.allclose(wrapped(x), x, atol=1e-12)


def test_batches_gradients_and_arguments():
    m = model()
    wrapped = at_native(m, 17, "endpoint")
    x = torch.randn(3, 1, 33, 33, dtype=torch.float64, requires_grad=True)
    separate = torch.cat([wrapped(s[None]) for s in x])
    assert torch.allclose(wrapped(x), separate, atol=1e-12)
    wrapped(x).square().sum().backward()
    assert x.grad[..., ::2, ::2].abs().min() > 0
    assert x.grad[..., 1::2, :].abs().max() == 0  # what the training grid does not see has no influence


def test_nearest_keeps_a_binary_input_binary():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(x)
            return x

    x = (torch.rand(1, 1, 24, 24) > 0.5).double()
    at_native(Spy(), (17, 17), "endpoint", restrict="nearest")(x)
    assert set(seen[-1].unique().tolist()) == {0.0, 1.0}  # the last call: before it the layout was looked for


def test_a_fine_scale_input_shows_between_the_nodes_of_the_extended_run():
    """A wave that vanishes on the training nodes: the native run cannot see it, the extended run does between them."""
    m = model()
    r = torch.arange(65, dtype=torch.float64) / 64
    ripple = torch.sin(16 * torch.pi * r)[None, None, :, None].expand(1, 1, 65, 65)  # zero at multiples of 1/16
    x = smooth(65)
    assert torch.allclose(at_native(m, 17, "endpoint")(x + ripple), at_native(m, 17, "endpoint")(x), atol=1e-10)
    change = extend(m, 17, "endpoint")(x + ripple) - extend(m, 17, "endpoint")(x)
    assert change.abs().max() > 1e-2
    assert change[..., ::4, ::4].abs().max() < 1e-10


def test_layouts_and_nested_outputs():
    class Model(nn.Module):
        def forward(self, x):
            return {"u": x - x.mean((1, 2), keepdim=True), "mean": x.mean((1, 2))}

    x = smooth(33).movedim(1, -1)
    y = at_native(Model(), (17, 17), "endpoint", layout="last")(x)
    native = Model()(x[:, ::2, ::2])
    assert torch.allclose(y["u"][:, ::2, ::2], native["u"], atol=1e-12)
    assert torch.equal(y["mean"], native["mean"])
    with pytest.raises(ValueError, match="did you mean 'last'"):
        at_native(Model(), (17, 17), "endpoint", layout="lst")


@pytest.mark.parametrize("sizes", [(33,), (33, 33)])
def test_a_model_with_channels_last_is_recognised(sizes):
    """Without a layout, the random numbers that a model accepts tell it."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
    x = torch.randn(2, *sizes, 2)
    step = (slice(None), *(slice(None, None, 2) for _ in sizes))
    wrapped = at_native(m, tuple((n + 1) // 2 for n in sizes), "endpoint")
    assert wrapped.layout == "last"
    assert torch.allclose(wrapped(x)[step], m(x[step]), atol=1e-6)


def test_a_channels_last_model_is_told_of_its_layout():
    with pytest.raises(RuntimeError) as raised:
        at_native(nn.Linear(1, 8), (17, 17), "endpoint", layout="first")(torch.randn(1, 33, 33, 1))
    assert "pass layout='last'" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match="meta device"):
        extend(model().to("meta"), 17, "endpoint")


def test_errors():
    with pytest.raises(ValueError, match="2 spatial axes"):
        at_native(model(), 17, "endpoint")(torch.randn(1, 33, 33))
    with pytest.raises(ValueError, match="did you mean 'nearest'"):
        at_native(model(), 17, "endpoint", restrict="nearst")
    with pytest.raises(TypeError, match="needs an nn"):
        at_native(torch.sin, 17, "endpoint")
