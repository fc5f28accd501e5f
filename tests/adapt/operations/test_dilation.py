"""Stencils at the training grid's spacing, against the sums they stand for, and what extend chooses for a model."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from tests.adapt.models import field

SIZES = {"endpoint": (9, 33), "cell": (8, 24), "periodic": (8, 32), "left": (8, 32), "interior": (7, 31)}


class Net(nn.Module):
    """A residual network of convolutions, with a norm over space."""

    def __init__(self, mode="zeros", d=2, norm=True, kernel=3, dilation=1):
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[d - 1]
        pad = dilation * (kernel - 1) // 2
        self.first = conv(1, 4, kernel, padding=pad, dilation=dilation, padding_mode=mode)
        self.second = conv(4, 4, kernel, padding=pad, dilation=dilation, padding_mode=mode, groups=2)
        self.norm, self.head = nn.GroupNorm(2, 4) if norm else nn.Identity(), conv(4, 1, 1)

    def forward(self, x):
        y = self.first(x)
        return self.head(y + torch.tanh(self.second(self.norm(y))))


def nodes(placement, n):
    j = torch.arange(n, dtype=torch.float64)
    return {
        "endpoint": j / (n - 1),
        "cell": (j + 0.5) / n,
        "periodic": j / n,
        "left": j / n,
        "interior": (j + 1) / (n + 1),
    }[placement]


@torch.no_grad()
@pytest.mark.parametrize("placement", sorted(SIZES))
@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
def test_at_the_training_nodes_it_is_the_native_run(placement, mode):
    torch.manual_seed(0)
    model = Net(mode, kernel=5).eval()
    n0, n = SIZES[placement]
    extended = qn.extend(model, (n0, n0), placement)
    assert extended.stencils == "dilated"
    x = torch.randn(2, 1, n, n)
    coarse, fine = nodes(placement, n0), nodes(placement, n)
    at = [int((fine - r).abs().argmin()) for r in coarse]
    assert (fine[at] - coarse).abs().max() < 1e-12  # these grids nest
    native = model(x[:, :, at][..., at])
    torch.testing.assert_close(extended(x)[:, :, at][..., at], native, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("placement", sorted(SIZES))
def test_inside_it_is_the_sum_at_the_training_spacing(placement):
    """Σ_k w_k f(r + 2k h₀) for a kernel of three taps with dilation 2, at every new node whose taps are inside."""
    conv = nn.Conv2d(1, 1, 3, padding=2, dilation=2, dtype=torch.float64)
    n0, n = SIZES[placement]
    h0 = nodes(placement, n0)[1] - nodes(placement, n0)[0]

    def f(x, y):
        return torch.sin(2 * torch.pi * x + 1) * torch.cos(2 * torch.pi * y)

    r = torch.meshgrid(nodes(placement, n), nodes(placement, n), indexing="ij")
    y = qn.extend(conv, (n0, n0), placement)(f(*r)[None, None])[0, 0]
    exact = conv.bias + sum(
        conv.weight[0, 0, i, j] * f(r[0] + 2 * (i - 1) * h0, r[1] + 2 * (j - 1) * h0)
        for i, j in product(range(3), repeat=2)
    )
    inside = (slice(9, -9), slice(9, -9))
    torch.testing.assert_close(y[inside], exact[inside], rtol=1e-11, atol=1e-11)


@torch.no_grad()
def test_zero_padding_is_a_ramp_to_the_first_padded_sample():
    shift = nn.Conv1d(1, 1, 3, padding=1, bias=False)
    shift.weight.copy_(torch.tensor([[[1.0, 0.0, 0.0]]]))
    y = qn.extend(shift, (3,), "endpoint")(torch.ones(1, 1, 9))
    torch.testing.assert_close(y[0, 0], torch.tensor([0.0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 1]))


@torch.no_grad()
@pytest.mark.parametrize("d", [1, 2, 3])
def test_on_a_periodic_net_of_convolutions_it_is_the_shifted_native_runs(d):
    model = Net("circular", d, norm=False).eval()
    x = torch.randn(1, 1, *[24, 16, 32][:d])
    shifted = qn.adapt.shifted_runs(model, (8,) * d, "periodic")
    torch.testing.assert_close(qn.extend(model, (8,) * d, "periodic")(x), shifted(x), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_rolls_by_the_same_distance():
    class Difference(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Conv2d(1, 1, 1)

        def forward(self, x):
            return self.mix(torch.roll(x, -1, 2) - x.roll((1, 2), (2, 3)))

    model, x = Difference(), torch.randn(1, 1, 16, 24)
    extended = qn.extend(model, (8, 8), "periodic")
    assert extended.stencils == "dilated"
    torch.testing.assert_close(extended(x), model.mix(torch.roll(x, -2, 2) - x.roll((2, 6), (2, 3))))


@torch.no_grad()
@pytest.mark.parametrize(("placement", "n"), [("periodic", 12), ("endpoint", 14), ("cell", 5), ("endpoint", 5)])
def test_ratios_that_are_not_whole_and_coarser_grids(placement, n):
    """A smooth field: the stencil's sum at h₀ again, up to what two interpolations leave."""
    mode = "circular" if placement == "periodic" else "zeros"
    conv = nn.Conv1d(1, 1, 3, padding=1, dtype=torch.float64, padding_mode=mode)
    n0 = {"endpoint": 9}.get(placement, 8)
    h0 = nodes(placement, n0)[1] - nodes(placement, n0)[0]
    f = lambda r: torch.sin(2 * torch.pi * r + 1)  # noqa: E731
    r = nodes(placement, n)
    y = qn.extend(conv, (n0,), placement)(f(r)[None, None])[0, 0]
    exact = conv.bias + sum(conv.weight[0, 0, k] * f(r + (k - 1) * h0) for k in range(3))
    if placement == "periodic":
        torch.testing.assert_close(y, exact, rtol=0, atol=1e-12)
    assert (y - exact)[2:-2].abs().max() < 0.1


class UNet(nn.Module):
    """One stride down and up; makes coordinates itself if asked to."""

    def __init__(self, coordinates=False):
        super().__init__()
        self.coordinates = coordinates
        self.first = nn.Conv2d(1 + 2 * coordinates, 4, 3, padding=1)
        self.down, self.up = nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        if self.coordinates:
            axes = [torch.linspace(0, 1, n, dtype=x.dtype) for n in x.shape[2:]]
            grid = torch.stack(torch.meshgrid(*axes, indexing="ij"))
            x = torch.cat([x, grid.expand(len(x), -1, -1, -1)], 1)
        y = torch.tanh(self.first(x))
        z = F.interpolate(torch.tanh(self.down(y)), size=y.shape[2:], mode="nearest")
        return self.head(torch.cat([y, torch.tanh(self.up(z))], 1))


@torch.no_grad()
def test_strides_by_shifted_runs_and_the_report_says_so():
    model = UNet().eval()
    extended = qn.extend(model, (9, 9), "endpoint")
    assert extended.stencils == "shifted"
    report = str(extended.extend_report)
    assert "by runs on shifted training grids, 7 of them for 17×17" in report
    assert "call interpolate  shifted" in report
    x = torch.randn(1, 1, 33, 33)
    torch.testing.assert_close(extended(x), qn.adapt.shifted_runs(model, (9, 9), "endpoint")(x))


@torch.no_grad()
def test_coordinates_of_the_models_own_making_are_shifted_with_the_grid():
    """The same network with its coordinates among the inputs, which shifted runs take from the fine grid."""
    own = UNet(coordinates=True).double().eval()
    given = UNet().double()
    given.first = own.first
    given.load_state_dict(own.state_dict())
    extended = qn.extend(own, (9, 9), "endpoint")
    assert extended.stencils == "shifted"
    assert extended.moves_fields
    x = torch.randn(1, 1, 25, 25, dtype=torch.float64)
    axis = torch.linspace(0, 1, 25, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"))[None]
    beside = qn.adapt.shifted_runs(given, (9, 9), "endpoint", example=torch.randn(1, 3, 9, 9, dtype=torch.float64))
    torch.testing.assert_close(extended(x), beside(torch.cat([x, grid], 1)), rtol=1e-10, atol=1e-10)


class Mixed(nn.Module):
    """An FNO layer with a local convolution beside it."""

    def __init__(self):
        super().__init__()
        self.lift, self.local, self.head = nn.Conv1d(2, 4, 1), nn.Conv1d(4, 4, 3, padding=1), nn.Conv1d(4, 1, 1)
        self.weight = nn.Parameter(torch.randn(4, 4, 3, dtype=torch.cfloat) / 4)

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[-1]).expand(len(x), 1, -1)
        x = self.lift(torch.cat([x, grid], 1))
        spectrum = torch.fft.rfft(x)
        out = torch.zeros_like(spectrum)
        out[..., :3] = torch.einsum("bim,iom->bom", spectrum[..., :3], self.weight)
        return self.head(torch.tanh(torch.fft.irfft(out, n=x.shape[-1]) + self.local(x)))


@torch.no_grad()
def test_waves_are_evaluated_and_stencils_dilated_in_one_model():
    model = Mixed().eval()
    extended = qn.extend(model, (17,), "endpoint")
    assert extended.stencils == "dilated"
    actions = {(e.kind, e.action) for e in extended.extend_report}
    assert {("call rfft", "replayed"), ("call irfft", "replayed"), ("call conv1d", "dilated")} <= actions
    x = field(65)
    torch.testing.assert_close(extended(x)[..., ::4], model(x[..., ::4]), rtol=1e-4, atol=1e-5)


def test_gradients():
    model = Net(d=1).double()
    extended = qn.extend(model, (5,), "endpoint")
    x = torch.randn(1, 1, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(extended, (x,))


@torch.no_grad()
def test_patches_of_a_model_that_runs_on_one_grid_only():
    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.head = nn.Conv2d(1, 8, 4, stride=4), nn.ConvTranspose2d(8, 1, 4, stride=4)
            self.positions = nn.Parameter(torch.randn(1, 16, 8))
            self.mix = nn.Linear(8, 8)

        def forward(self, x):
            t = self.patch(x).flatten(2).mT + self.positions
            t = t + torch.softmax(t @ t.mT, -1) @ self.mix(t)
            return self.head(t.mT.unflatten(2, (4, 4)))

    model = Patches().eval()
    extended = qn.extend(model, (16, 16), "periodic")
    assert extended.stencils == "shifted"
    x = torch.randn(1, 1, 32, 32)
    torch.testing.assert_close(extended(x)[..., ::2, ::2], model(x[..., ::2, ::2]), rtol=1e-4, atol=1e-5)
