"""extend: at the training nodes the native run's values, whatever the model is made of."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from tests.adapt.models import Attention, Calls, ClassicFNO, field

CALLS = {
    "mean": lambda x: x * x.mean((-2, -1), keepdim=True),
    "mean by keyword": lambda x: x * torch.mean(input=x, dim=(2, 3), keepdim=True),
    "sum over count": lambda x: x + (x.flatten(2).sum(-1) / (x.shape[-1] * x.shape[-2]))[..., None, None],
    "sum over count later": lambda x: x.sum((2, 3), keepdim=True) * x / x[0, 0].numel(),
    "var_mean": lambda x: (x - torch.var_mean(x, (2, 3), keepdim=True)[1]) / x.std((2, 3), keepdim=True),
    "norm": lambda x: x / torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True),
    "frobenius": lambda x: x / x.flatten(2).norm(dim=-1)[..., None, None],
    "amax": lambda x: x / x.amax((2, 3), keepdim=True),
    "max and min": lambda x: x / (x.flatten(2).max(-1).values - x.flatten(2).min(-1)[0])[..., None, None],
    "logsumexp": lambda x: x - torch.logsumexp(x.flatten(2), -1)[..., None, None],
    "softmax": lambda x: x * x.flatten(2).softmax(-1).view_as(x) * 100,
    "normalize": lambda x: F.normalize(x.flatten(2), dim=-1).view_as(x),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": lambda x: F.instance_norm(x),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[2:]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "in place": lambda x: (x.mul_(2).sub_(x.mean((2, 3), keepdim=True))).relu_(),
    "in place on a sum": lambda x: x * _shifted(x.mean((2, 3), keepdim=True), x),
    "operators": lambda x: x / (x**2).mean((-1, -2))[:, :, None, None],
    "adaptive pool": lambda x: x * torch.sigmoid(F.adaptive_avg_pool2d(x, 1)),
    "adaptive bins": lambda x: x + F.interpolate(F.adaptive_avg_pool2d(x, 4), x.shape[2:]),
    "one axis": lambda x: x - x.mean(-1, keepdim=True),
    "fft by axes": lambda x: torch.fft.irfft(_low(torch.fft.rfft(x, dim=-1)), n=x.shape[-1], dim=-1),
    "fft of fft": lambda x: torch.fft.ifft(torch.fft.fft(x, dim=2), n=x.shape[2], dim=2).real,
    "fftn ortho": lambda x: torch.fft.irfftn(torch.fft.rfftn(x, dim=(2, 3), norm="ortho"), x.shape[2:], norm="ortho"),
    "complex": lambda x: torch.fft.ifft2(torch.fft.fft2(x) * 0.5).real,
    "shifts": lambda x: torch.fft.ifft2(torch.fft.ifftshift(torch.fft.fftshift(torch.fft.fft2(x)))).real,
    "twice as long": lambda x: _twice(x)[..., : x.shape[-2], : x.shape[-1]],
    "convolution": lambda x: x + F.conv2d(x, torch.ones(6, 1, 3, 3) / 9, padding=1, groups=6),
    "strided": lambda x: x + F.interpolate(F.avg_pool2d(x, 2), x.shape[2:], mode="bilinear"),
    "roll": lambda x: x - x.roll(1, -1),
    "cumsum": lambda x: x + x.cumsum(-1) / x.shape[-1],
    "axial attention": lambda x: F.scaled_dot_product_attention(*[x.permute(0, 2, 3, 1)] * 3).permute(0, 3, 1, 2),
    "squeeze": lambda x: x * x.mean(dim=[2, 3])[:, :, None, None].sigmoid(),
}


def _shifted(mean, x):
    mean += 1 / x.shape[-1]
    mean.mul_(x.shape[-2])
    return mean


def _twice(x):
    longer = tuple(2 * n for n in x.shape[-2:])
    return torch.fft.irfft2(torch.fft.rfft2(x, s=longer), s=longer)


def _low(spectrum):
    out = torch.zeros_like(spectrum)
    out[..., :5] = spectrum[..., :5] * 0.7
    return out


def gap(a, b):
    """Relative."""
    return ((a - b).norm() / b.norm()).item()


def assert_native(model, native=(17, 17), fine=(33, 65), **options):
    """On a grid that contains the training grid, the native values at its nodes."""
    model.eval()
    extended = qn.extend(model, native, "endpoint", example=field(*native, batch=2), **options)
    with torch.no_grad():
        coarse, x = field(*native, batch=2), field(*fine, batch=2)
        step = tuple(slice(None, None, (m - 1) // (n - 1)) for n, m in zip(native, fine, strict=True))
        y = extended(x)
        assert y.shape == x.shape
        assert gap(y[(..., *step)], model(coarse)) < 2e-5
    return extended


@pytest.mark.parametrize("name", CALLS)
def test_every_form_of_call(name):
    torch.manual_seed(0)
    assert_native(Calls(CALLS[name]))


@pytest.mark.parametrize(
    "form", ["softmax", "einsum", "sdpa", "galerkin", "galerkin after", "linear", "multi", "encoder"]
)
def test_attention(form):
    torch.manual_seed(0)
    assert_native(Attention(form), (9, 9), (17, 33))


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
@pytest.mark.parametrize(("pad", "crop"), [(0, "size"), (5, "size"), (4, "negative"), (3, "both")])
def test_the_most_copied_fno(pad, crop, norm):
    torch.manual_seed(0)
    assert_native(ClassicFNO(pad, crop=crop, norm=norm))


def test_coordinates_that_move_with_n():
    torch.manual_seed(0)
    model = ClassicFNO(coordinates="arange")
    with torch.no_grad():
        assert gap(model(field(33, 33))[..., ::2, ::2], model(field(17, 17))) > 1e-2
    assert_native(model)


@pytest.mark.parametrize("make", [FNO, GalerkinTransformer, Transolver])
def test_our_operators(make):
    torch.manual_seed(0)
    options = {"modes": 5} if make is FNO else {"heads": 2}
    assert_native(make(width=8, layers=2, **options))


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "periodic"])
def test_placements(placement):
    torch.manual_seed(0)
    model = ClassicFNO(3).eval()
    n, m = 16, {"endpoint": 31, "cell": 48}.get(placement, 32)
    pick = slice(1, None, 3) if placement == "cell" else slice(None, None, 2)
    extended = qn.extend(model, n, placement, example=field(n, n))
    with torch.no_grad():
        fine = extended(field(m, m, placement=placement))
        assert gap(fine[..., pick, pick], model(field(n, n, placement=placement))) < 2e-5


def test_between_the_nodes_the_network_is_evaluated():
    """One wave: its inverse transform at the new nodes is the wave itself, not an interpolant of samples."""
    model = Calls(lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real).double()
    extended = qn.extend(model, (8, 8), "periodic", example=torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    r = torch.arange(8, dtype=torch.float64) / 8
    fine = torch.arange(40, dtype=torch.float64) / 40
    wave = lambda t: torch.sin(2 * torch.pi * 3 * t)[:, None] * torch.cos(2 * torch.pi * 2 * t)  # noqa: E731
    with torch.no_grad():
        lifted = model.lift(wave(fine)[None, None])
        expected = model.head(torch.tanh(lifted))
        assert torch.allclose(extended(wave(fine)[None, None]), expected, atol=1e-10)
    assert r.numel() == 8


def test_grids_that_do_not_nest_and_coarser_ones():
    torch.manual_seed(0)
    model = ClassicFNO(5).eval()
    extended = qn.extend(model, (33, 33), "endpoint", example=field(33, 33))
    with torch.no_grad():
        assert extended(field(50, 41)).shape == (1, 1, 50, 41)
        assert gap(extended(field(49, 49)), extended(field(97, 97))[..., ::2, ::2]) < 1e-4
        assert gap(extended(field(17, 65))[..., ::2], model(field(33, 33))[..., ::2, :]) < 1e-4
        assert gap(extended(field(17, 17)), model(field(33, 33))[..., ::2, ::2]) < 1e-4


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_dimensions(dim):
    torch.manual_seed(0)
    axes = tuple(range(2, dim + 2))

    def function(x):
        spectrum = torch.fft.rfftn(x, dim=axes)
        return torch.fft.irfftn(spectrum, x.shape[2:], dim=axes) + x * x.mean(axes, keepdim=True)

    assert_native(Calls(function, dim=dim), (9,) * dim, (17,) * dim)


def test_gradients_agree_with_the_native_run():
    torch.manual_seed(0)
    model = ClassicFNO(5)
    extended = qn.extend(model, (17, 17), "endpoint", example=field(17, 17))
    x0, x = field(17, 17).requires_grad_(), field(33, 33).requires_grad_()
    native = torch.autograd.grad(model(x0).square().sum(), [x0, *model.parameters()])
    fine = torch.autograd.grad(extended(x)[..., ::2, ::2].square().sum(), [x, *model.parameters()])
    assert gap(fine[0][..., ::2, ::2], native[0]) < 1e-4
    for a, b in zip(fine[1:], native[1:], strict=True):
        assert gap(a, b) < 1e-3


@dataclass
class Prediction:
    mean: torch.Tensor
    spread: torch.Tensor


def test_several_inputs_and_dataclass_outputs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.time = nn.Conv2d(2, 4, 1), nn.Linear(1, 4)

        def forward(self, x, t, *, forcing):
            v = self.lift(torch.cat([x, forcing], 1)) + self.time(t)[..., None, None]
            v = v - v.mean((2, 3), keepdim=True)
            return Prediction(v, v.std((2, 3)))

    model, t = Model(), torch.rand(2, 1)
    example = {"x": field(9, 9, batch=2), "t": t, "forcing": field(9, 9, batch=2)}
    extended = qn.extend(model, (9, 9), "endpoint", example=example)
    y = extended(field(17, 17, batch=2), t, forcing=field(17, 17, batch=2))
    native = model(**example)
    assert gap(y.mean[..., ::2, ::2], native.mean) < 1e-5
    assert torch.equal(y.spread, native.spread)


@pytest.mark.parametrize("layout", ["last", "tokens"])
def test_layouts(layout):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.head = nn.Linear(1, 4), nn.Linear(4, 1)

        def forward(self, x):
            v = torch.tanh(self.lift(x))
            axes = tuple(range(1, x.ndim - 1))
            return self.head((v - v.mean(axes, keepdim=True)) / v.std(axes, keepdim=True))

    def shaped(x):
        return x.movedim(1, -1) if layout == "last" else x.flatten(2).mT

    model = Model()
    extended = qn.extend(model, (9, 9), "endpoint", example=shaped(field(9, 9)))
    assert extended.layout == layout
    options = {"grid": (17, 33)} if layout == "tokens" else {}
    y = extended(shaped(field(17, 33)), **options)
    y = y.mT.unflatten(-1, (17, 33)) if layout == "tokens" else y.movedim(-1, 1)
    native = model(shaped(field(9, 9)))
    native = native.mT.unflatten(-1, (9, 9)) if layout == "tokens" else native.movedim(-1, 1)
    assert gap(y[..., ::2, ::4], native) < 1e-5
    if layout == "tokens":
        with pytest.raises(ValueError, match="pass grid="):
            extended(shaped(field(17, 33)))


def test_at_the_training_grid_it_is_the_model():
    model, x = ClassicFNO(5).eval(), field(17, 17)
    assert torch.equal(qn.extend(model, 17, "endpoint")(x), model(x))


def test_refusals():
    with pytest.raises(ValueError, match="pass example="):
        qn.extend(nn.Embedding(3, 3), (17, 17), "endpoint")
    with pytest.raises(ValueError, match="training resolution 17×17"):
        qn.extend(ClassicFNO(), (17, 17), "endpoint", example=field(33, 33))
    with pytest.raises(ValueError, match="layout"):
        qn.extend(ClassicFNO(), (17, 17), "endpoint")(torch.zeros(1, 1, 33))

    class Fickle(nn.Module):
        def forward(self, x):
            return x - x.mean() if x.shape[-1] == 17 else x

    with pytest.raises(qn.adapt.CannotFollowError, match="at_native"):
        qn.extend(Fickle(), (17, 17), "endpoint", example=field(17, 17))


def test_the_report_lists_what_mixes_samples():
    extended = qn.extend(ClassicFNO(5), (17, 17), "endpoint")
    actions = {(e.kind, e.action) for e in extended.extend_report}
    assert actions == {("call rfft2", "replayed"), ("call irfft2", "replayed"), ("call instance_norm", "replayed")}
    text = str(qn.extend(Calls(CALLS["convolution"]), (17, 17), "endpoint").extend_report)
    assert "0 calls replayed, 1 dilated, 0 carried" in text
    assert "its samples lie as far apart as in training" in text


def test_hooks_that_come_and_go_do_not_matter():
    """A backward hook puts an operation of its own around its module."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv2d(4, 1, 1))
    everywhere, x = qn.extend(model, 9, "endpoint"), torch.randn(1, 1, 17, 17, requires_grad=True)
    want = everywhere(x)
    seen = []
    hook = model[1].register_full_backward_hook(lambda module, given, returned: seen.append(module))
    got = everywhere(x)
    got.sum().backward()
    hook.remove()
    assert torch.equal(got, want)
    assert seen
