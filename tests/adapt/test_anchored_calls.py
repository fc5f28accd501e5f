"""Sums in calls, under the training grid's measure: second order, and a module anchors as its functional form does."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.operators import SpectralConv
from tests.adapt.models import Attention, Calls, ClassicFNO, Spectral2d, field


class Waves(nn.Module):
    """The lowest waves of a field."""

    def forward(self, x):
        spectrum = torch.fft.rfft2(x)
        low = torch.zeros_like(spectrum)
        low[..., :3, :3] = spectrum[..., :3, :3]
        return torch.fft.irfft2(low, s=x.shape[-2:])


class Shares(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(-1)

    def forward(self, x):
        return self.softmax(x.flatten(2)).view_as(x)


class Crop(nn.Module):
    def forward(self, x):
        return x[..., :-2, :-3]


def gap(a, b):
    return ((a - b).norm() / b.norm()).item()


def _attended(x, *weights):
    """``nn.MultiheadAttention`` with one head, written out."""
    tokens = x.flatten(2).mT
    in_w, in_b, out_w, out_b = weights
    q, k, v = (tokens @ w.T + b for w, b in zip(in_w.chunk(3), in_b.chunk(3), strict=True))
    return F.linear(F.scaled_dot_product_attention(q, k, v), out_w, out_b).mT.reshape(x.shape)


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(6, 1, batch_first=True)

    def forward(self, x):
        tokens = x.flatten(2).mT
        return self.layer(tokens, tokens, tokens)[0].mT.reshape(x.shape)


ATTENDED = Attended()
PAIRS = {
    "group norm": (nn.GroupNorm(2, 6), lambda x: F.group_norm(x, 2)),
    "instance norm": (nn.InstanceNorm2d(6), lambda x: F.instance_norm(x)),
    "layer norm": (nn.LayerNorm((6, 9, 9), elementwise_affine=False), lambda x: F.layer_norm(x, x.shape[1:])),
    "RMS norm": (nn.RMSNorm((9, 9), elementwise_affine=False), lambda x: F.rms_norm(x, x.shape[2:])),
    "average pool": (nn.AdaptiveAvgPool2d(1), lambda x: x.mean((2, 3), keepdim=True)),
    "maximum": (nn.AdaptiveMaxPool2d(1), lambda x: x.amax((2, 3), keepdim=True)),
    "window": (nn.AvgPool2d(3, 1, 1), lambda x: F.avg_pool2d(x, 3, 1, 1)),
    "softmax": (Shares(), lambda x: x.flatten(2).softmax(-1).view_as(x)),
    "attention": (ATTENDED, lambda x: _attended(x, *ATTENDED.layer.parameters())),
    "padded transform": (
        nn.Sequential(nn.ZeroPad2d((0, 3, 0, 2)), Waves(), Crop()),
        lambda x: Crop()(Waves()(F.pad(x, (0, 3, 0, 2)))),
    ),
    "padding of a kernel": (nn.Conv2d(6, 6, 3, padding=1, padding_mode="circular"), None),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_module_and_its_functional_form_anchor_alike(name):
    torch.manual_seed(0)
    module, call = PAIRS[name]
    if call is None:
        weight, bias = module.weight, module.bias
        call = lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), weight, bias)  # noqa: E731
    by_call = Calls(lambda x: F.group_norm(x + call(x), 1)).eval()
    by_module = nn.Sequential(by_call.lift, _Plus(module), nn.GroupNorm(1, 6, affine=False), nn.Tanh(), by_call.head)
    x = field(33, 17)
    ours, theirs = (qn.anchor(m.eval(), (9, 9), "endpoint", force=True) for m in (by_call, by_module))
    with torch.no_grad():
        assert gap(theirs(x), ours(x)) < 1e-6
        assert torch.equal(ours(field(9, 9)), by_call(field(9, 9)))


class _Plus(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def test_fourier_calls_agree_with_our_spectral_convolution():
    """The two-corner layer is SpectralConv with cat([w1, w2.flip(2)], 2); anchored they are the same sums."""
    torch.manual_seed(0)
    calls, ours = Spectral2d(3, 4), SpectralConv(3, 3, 4)
    with torch.no_grad():
        ours.weight.copy_(torch.cat([calls.low, calls.high.flip(2)], 2).permute(2, 3, 0, 1))
        x = field(33, 33, channels=3)
        example = field(17, 17, channels=3)
        assert gap(calls(example), ours(example)) < 1e-5
        by_call = qn.anchor(calls, (17, 17), "endpoint", example=example, force=True)
        by_rule = qn.anchor(ours, (17, 17), "endpoint", example=example, force=True)
        assert gap(by_call(x), by_rule(x)) < 1e-5


@pytest.mark.parametrize("form", ["softmax", "sdpa", "galerkin after", "linear"])
def test_attention_drifts_less(form):
    torch.manual_seed(0)
    model = Attention(form).eval()
    anchored = qn.anchor(model, (9, 9), "endpoint")
    with torch.no_grad():
        native, x = model(field(9, 9)), field(33, 33)
        assert gap(anchored(x)[..., ::4, ::4], native) < 0.3 * gap(model(x)[..., ::4, ::4], native)
        assert torch.equal(anchored(field(9, 9)), native)


@pytest.mark.parametrize(("pad", "crop"), [(5, "size"), (4, "negative"), (3, "both")])
def test_padding_keeps_its_length_in_space(pad, crop):
    torch.manual_seed(0)
    model = ClassicFNO(pad, crop=crop).eval()
    anchored = qn.anchor(model, (17, 17), "endpoint")
    assert {"call pad", "call getitem", "call rfft2"} <= {e.kind for e in anchored.anchor_report.changed}
    with torch.no_grad():
        native, x = model(field(17, 17)), field(65, 65)
        assert gap(anchored(x)[..., ::4, ::4], native) < 0.2 * gap(model(x)[..., ::4, ::4], native)


def test_worse_is_an_error_unless_forced():
    """A transform and its inverse are the identity on every grid; the training grid's waves alone are not."""
    torch.manual_seed(0)
    model = Calls(lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real)
    with pytest.raises(ValueError, match=r"worse.*see quadnorm\.transfer; force=True"):
        qn.anchor(model, (17, 17), "endpoint")
    assert "drift from 17×17 to 33×33" in str(qn.anchor(model, (17, 17), "endpoint", force=True).anchor_report)


def test_the_data_says_where_its_samples_lie():
    model = ClassicFNO().eval()
    report = qn.anchor(model, (16, 16), example=lambda n: field(n, n, placement="cell"), force=True).anchor_report
    assert "cell" in report.title
    with pytest.raises(ValueError, match="one of the two is wrong"):
        qn.anchor(model, (16, 16), "endpoint", example=lambda n: field(n, n, placement="cell"))
    tied = qn.anchor(model, (16, 16), example=lambda n: field(n, n, placement="left"), force=True).anchor_report
    assert "left and periodic have the same nodes" in str(tied)


def test_the_audit_names_the_calls():
    torch.manual_seed(0)
    result = qn.audit(ClassicFNO(5).eval(), lambda n: field(n, n), [17, 33], interventions=False, placement="endpoint")
    assert {"call rfft2", "call irfft2"} <= {row.kind for row in result.leaks}
    assert max(result.totals["extended"]) < 1e-4
    with pytest.raises(ValueError, match="one of the two is wrong"):
        qn.audit(ClassicFNO().eval(), lambda n: field(n, n), [17, 33], placement="cell")


class AsWideAsTheGrid(nn.Module):
    """9 channels on 9×9 samples: one parameter mixes channels, one is a field."""

    def __init__(self):
        super().__init__()
        self.lift, self.mix, self.field = (
            nn.Linear(9, 9),
            nn.Parameter(torch.randn(9, 9)),
            nn.Parameter(torch.randn(9, 9)),
        )

    def forward(self, x):
        y = torch.einsum("bixy,oi->boxy", self.lift(x.movedim(1, -1)).movedim(-1, 1), self.mix)
        return y - y.mean((-2, -1), keepdim=True) + self.field


def test_a_weight_of_the_grids_size_is_no_field():
    torch.manual_seed(0)
    report = qn.anchor(AsWideAsTheGrid(), (9, 9), "endpoint", example=torch.randn(1, 9, 9, 9), force=True).anchor_report
    assert [e.name for e in report if e.kind == "field"] == ["field"]


def test_transforms_under_autocast():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.w = nn.Conv2d(1, 4, 1), nn.Parameter(torch.randn(4, 3, 3, dtype=torch.cfloat))

        def forward(self, x):
            spectrum = torch.fft.rfft2(self.c(x).float())
            low = torch.zeros_like(spectrum)
            low[..., :3, :3] = spectrum[..., :3, :3] * self.w
            return torch.fft.irfft2(low, s=x.shape[-2:])

    anchored = qn.anchor(Waves(), (9, 9), "endpoint")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = anchored(field(17, 17))
    torch.testing.assert_close(y, anchored(field(17, 17)), rtol=5e-2, atol=5e-2)
