"""Models as strangers write them: what each way does with them, and that its report is true."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.adapt.calls.errors import CannotFollowError
from tests.adapt.models import Calls, Spectral2d, field


def gaps(model, n=17, d=2, ways=("anchor", "extend")):
    """Relative distances from the run on n samples, at its nodes, on 2n − 1 samples: as it is, then by ``ways``."""
    model.eval()
    x, fine = field(*[n] * d), field(*[2 * n - 1] * d)
    nodes = (..., *[slice(None, None, 2)] * d)
    adapted = [getattr(qn, way)(model, (n,) * d, example=x) for way in ways]
    with torch.no_grad():
        native = model(x)
        assert all(torch.allclose(way(x), native, rtol=1e-5, atol=1e-6) for way in adapted)
        return [((way(fine)[nodes] - native).norm() / native.norm()).item() for way in (model, *adapted)], adapted


# --- spectra ---------------------------------------------------------------------------------------------------------


def _factorized(h):
    """Fourier layers along one axis each: a few waves of one axis, all samples of the other."""
    n, m = h.shape[-2:]
    along, across = torch.fft.rfft(h, dim=-1), torch.fft.rfft(h, dim=-2)
    kept, kept_across = torch.zeros_like(along), torch.zeros_like(across)
    kept[..., :4] = 0.5 * along[..., :4]
    kept_across[..., :4, :] = -0.3 * across[..., :4, :]
    return torch.fft.irfft(kept, n=m, dim=-1) + torch.fft.irfft(kept_across, n=n, dim=-2) + h


def test_waves_of_one_axis_are_picked_and_not_cut():
    torch.manual_seed(0)
    model = Calls(_factorized)
    (raw, anchored, extended), ways = gaps(model)
    assert anchored < 0.5 * raw
    assert extended < 1e-5
    assert {e.kind for e in ways[0].anchor_report} == {"call rfft", "call irfft"}
    assert {e.action for e in ways[1].extend_report} == {"replayed"}
    leaks = qn.audit(model, lambda n: field(n, n), [17, 33]).leaks
    assert {row.kind for row in leaks} == {"call rfft", "call irfft"}


def test_a_full_spectrum_written_into_zeros_of_ones_own():
    """``torch.zeros`` is a constant until it is written into; what it holds afterwards is no constant field."""

    def filtered(h):
        out = torch.zeros(*h.shape, dtype=torch.cfloat)
        out[..., :4, :4] = torch.fft.fft2(h)[..., :4, :4]
        return torch.fft.ifft2(out).real + h

    torch.manual_seed(0)
    model = Calls(filtered).eval()
    fixed = qn.anchor(model, 17, example=field(17, 17))
    assert {e.kind for e in fixed.anchor_report} == {"call fft2", "call ifft2"}
    with torch.no_grad():  # another input than that which was looked at
        native = model(-3 * field(17, 17))
        raw, ours = (way(-3 * field(33, 33))[..., ::2, ::2] - native for way in (model, fixed))
    assert ours.norm() < 0.5 * raw.norm()


class Contracting(nn.Module):
    """A U-shaped operator: a Fourier layer to half the samples, and one back."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.lift, self.head = norm, nn.Conv2d(1, 6, 1), nn.Conv2d(6, 1, 1)
        self.down, self.up = (nn.Parameter(torch.randn(6, 6, 3, 3, dtype=torch.cfloat) / 6) for _ in range(2))

    def layer(self, x, weight, size):
        out = torch.zeros(*x.shape[:2], size[0], size[1] // 2 + 1, dtype=torch.cfloat)
        waves = torch.fft.rfft2(x, norm=self.norm)[..., :3, :3]
        out[..., :3, :3] = torch.einsum("bixy,ioxy->boxy", waves, weight)
        return torch.fft.irfft2(out, s=size, norm=self.norm)

    def forward(self, x):
        h = self.lift(x)
        n, m = h.shape[-2:]
        small = torch.tanh(self.layer(h, self.down, (n // 2 + 1, m // 2 + 1)))
        return self.head(self.layer(small, self.up, (n, m)) + h)


@pytest.mark.parametrize("norm", ["forward", "backward"])
def test_fourier_layers_on_a_grid_of_their_own(norm):
    """33 → 17 → 33 samples: on 65 samples the inner transform sums over 33, which must count as 17."""
    torch.manual_seed(0)
    (raw, anchored, extended), _ = gaps(Contracting(norm), 33)
    assert anchored < 0.3 * raw
    assert extended < 1e-5


# --- differences over neighbouring samples ---------------------------------------------------------------------------


def _derivative(x, form):
    n = x.shape[-1]
    if form == "pad":
        return F.pad((x[..., 2:] - x[..., :-2]) * (n - 1) / 2, (1, 1), mode="replicate")
    d, dx = torch.zeros_like(x), (1 / (n - 1) if form == "written" else torch.tensor(1 / (n - 1)))
    d[..., 1:-1] = (x[..., 2:] - x[..., :-2]) / (2 * dx)
    d[..., 0], d[..., -1] = (x[..., 1] - x[..., 0]) / dx, (x[..., -1] - x[..., -2]) / dx
    return d


@pytest.mark.parametrize("form", ["pad", "written", "tensor"])
def test_differences_keep_the_new_grids_spacing(form):
    """The mean is anchored; a derivative by differences is left, divided by the new grid's spacing."""
    torch.manual_seed(0)
    model = Calls(lambda h: h - h.mean(-1, keepdim=True) + 0.1 * _derivative(h, form), dim=1)
    (raw, anchored), (fixed,) = gaps(model, 33, 1, ["anchor"])
    assert anchored < 0.5 * raw
    assert {e.kind: e.action for e in fixed.anchor_report} == {"call mean": "anchored", "call getitem": "left"}


def test_what_cannot_be_extended_is_not_recommended():
    torch.manual_seed(0)
    model = Calls(lambda h: h - h.mean(-1, keepdim=True) + 0.1 * _derivative(h, "written"), dim=1)
    result = qn.audit(model, field, [33, 65])
    assert "extended" not in result.totals
    assert result.recommendation.startswith("anchor")


def test_running_sums_are_divided_by_as_many_as_they_have():
    """Σ_{i≤j} h_i / n is left, of O(h): halved by the training grid's n it would be wrong by O(1)."""
    torch.manual_seed(0)
    model = Calls(lambda h: h.cumsum(-1) / h.shape[-1] - h.mean(-1, keepdim=True), dim=1).eval()
    fixed = qn.anchor(model, (33,), example=field(33), force=True)
    with torch.no_grad():
        native, fine = model(field(33)), fixed(field(65))[..., ::2]
    assert (fine - native).norm() < 0.03 * native.norm()


# --- fields of the training grid's size ------------------------------------------------------------------------------


class Stored(nn.Module):
    """Coordinates kept in a buffer of the training grid's size, beside the input or chosen by a mask."""

    def __init__(self, form):
        super().__init__()
        r = torch.linspace(0, 1, 17)
        self.form = form
        self.register_buffer("grid", torch.stack(torch.meshgrid(r, r, indexing="ij"))[None])
        self.lift, self.head = nn.Conv2d(3 if form == "cat" else 1, 6, 1), nn.Conv2d(6, 1, 1)

    def forward(self, x):
        if self.form == "cat":
            h = self.lift(torch.cat([x, self.grid.repeat(len(x), 1, 1, 1)], 1))
        elif self.form == "stack":
            h = self.lift(torch.stack([x[:, 0], self.grid[:, 0]], 1).sum(1, keepdim=True))
        else:
            h = torch.maximum(self.lift(x), self.grid[:, :1])
        return self.head(torch.tanh(h - h.mean((2, 3), keepdim=True)))


@pytest.mark.parametrize("form", ["cat", "stack", "maximum"])
def test_stored_coordinates_are_interpolated(form):
    torch.manual_seed(0)
    model, x = Stored(form).eval(), field(17, 17)
    with pytest.raises(RuntimeError):
        model(field(33, 33))
    fixed, everywhere = qn.anchor(model, 17, example=x), qn.extend(model, 17, example=x)
    with torch.no_grad():
        native = model(x)
        for way, tolerance in ((fixed, 1e-2), (everywhere, 1e-5)):
            assert (way(field(33, 33))[..., ::2, ::2] - native).norm() < tolerance * native.norm()
    assert fixed.anchor_report["grid"].action == "unchanged"
    assert "interpolated to other grids" in fixed.anchor_report["grid"].why


# --- products, recurrences, square grids -----------------------------------------------------------------------------


def test_a_tensor_multiplied_with_itself():
    """Scores a·aᵀ: queries at the new nodes, keys at the training grid's, although both are one tensor."""
    torch.manual_seed(0)

    def nonlocal_(h):
        a = h.mean(-1).mT  # (B, n, C)
        scores = torch.einsum("bic,bjc->bij", a, a) / a.shape[1]
        return h + 0.1 * torch.einsum("bij,bcjl->bcil", scores, h)

    model = Calls(nonlocal_)
    (raw, anchored, extended), _ = gaps(model)
    assert anchored < 0.5 * raw
    assert extended < 1e-5
    assert "call einsum" in {row.kind for row in qn.audit(model, lambda n: field(n, n), [17, 33]).leaks}


@pytest.mark.parametrize(("cell", "sequence"), [(nn.GRU, True), (nn.LSTM, True), (nn.GRU, False)])
def test_recurrent_layers(cell, sequence):
    """Along the samples a recurrence is carried, and listed; over a sequence that each sample has, it is not."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = cell(1, 6, batch_first=True), nn.Linear(6, 1)

        def forward(self, x):
            tokens = x.mT if sequence else x.mT.reshape(-1, 1, 1).expand(-1, 3, 1)
            y = self.head(self.cell(tokens)[0])
            return (y if sequence else y[:, -1].reshape(len(x), -1, 1)).mT - x.mean(-1, keepdim=True)

    torch.manual_seed(0)
    (_, _, extended), (fixed, everywhere) = gaps(Recurrent(), 17, 1)
    assert extended < 1e-5
    left = [e.kind for e in fixed.anchor_report.left if e.kind in ("call gru", "call lstm")]
    carried = [e.kind for e in everywhere.extend_report if e.action == "carried" and e.kind != "call getitem"]
    assert len(left) == len(carried) == (1 if sequence else 0)


def test_one_axis_read_for_both():
    """Padding and cropping by the last axis' length: on 33×17 such a model does something else than on 33×33."""

    def padded(h):
        n = h.shape[-1]
        k = n // 4
        return Spectral(F.pad(h, (0, k, 0, k)))[..., :n, :n]

    torch.manual_seed(0)
    Spectral = Spectral2d(6, 4)
    with pytest.raises(CannotFollowError, match="reads the length of one axis for another"):
        qn.extend(Calls(padded), 17)
    with pytest.raises(ValueError, match=r"could not be followed: .* reads the length of one axis for another"):
        qn.anchor(Calls(padded), 17)


def test_a_linear_as_wide_as_the_grid():
    """Sixteen channels on sixteen samples: which of them a Linear takes shows on another grid."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.mix, self.head = nn.Linear(1, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x):
            h = self.mix(self.lift(x.mT))
            return self.head(torch.tanh(h - h.mean(1, keepdim=True))).mT

    fixed = qn.anchor(Wide(), (16,), example=field(16))
    assert [e.kind for e in fixed.anchor_report] == ["call mean"]


def _numpy_mean(h):
    return torch.from_numpy(h.detach().numpy().mean((2, 3), keepdims=True))


def test_a_mean_by_numpy_is_that_of_the_input_at_hand():
    """Out of PyTorch's sight: the training grid's value, of this input and not of the one that was looked at."""
    torch.manual_seed(0)
    model = Calls(lambda h: h - _numpy_mean(h) + h.mean((2, 3), keepdim=True) ** 2).eval()
    fixed, everywhere = (way(model, 17, example=field(17, 17)) for way in (qn.anchor, qn.extend))
    with torch.no_grad():
        native = model(3 * field(17, 17))
        for way in (fixed, everywhere):
            assert (way(3 * field(33, 33))[..., ::2, ::2] - native).norm() < 1e-2 * native.norm()
    for report in (fixed.anchor_report, everywhere.extend_report):
        assert any(e.kind == "value" and "NumPy" in e.why for e in report)
    with pytest.raises(ValueError, match="outside of PyTorch's calls"):
        qn.anchor(Calls(lambda h: h - _numpy_mean(h)), 17, example=field(17, 17))


def test_attention_along_one_axis_and_to_latent_tokens():
    """Rows of the grid as batch entries: keys are samples of one axis. Six latent tokens are six on every grid."""

    class Axial(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.head = nn.Linear(1, 8), nn.Linear(8, 1)
            self.rows, self.read = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
            self.latent = nn.Parameter(torch.randn(1, 6, 8))

        def forward(self, x):
            h = self.lift(x.movedim(1, -1))
            rows = h.flatten(0, 1)
            h = h + self.rows(rows, rows, rows)[0].reshape(h.shape)
            tokens = h.flatten(1, 2)
            latent = self.latent.expand(len(x), -1, -1)
            return self.head(h + self.read(tokens, latent, latent)[0].reshape(h.shape)).movedim(-1, 1)

    torch.manual_seed(0)
    (raw, anchored, extended), (fixed, _) = gaps(Axial())
    assert anchored < 0.3 * raw
    assert extended < 1e-5
    assert [(e.name, e.action) for e in fixed.anchor_report] == [("read", "unchanged"), ("rows", "anchored")]


def test_a_trapezoidal_sum_is_an_integral_already():
    torch.manual_seed(0)
    model = Calls(lambda h: h - torch.trapezoid(h, dx=1 / (h.shape[-1] - 1)).unsqueeze(-1), dim=1)
    (entry,) = qn.anchor(model, (17,), example=field(17)).anchor_report
    assert (entry.kind, entry.action) == ("call trapezoid", "unchanged")
    with pytest.raises(ValueError, match="call trapezoid"):
        qn.anchor(model, (17,), "cell", example=field(17))


# --- half precision, compiled and scripted models --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softmax_in_half_precision_is_rounded_once(dtype):
    """Logits of size 20: differences of rounded logits would be wrong by a tenth."""
    model = nn.Identity()
    model.forward = lambda x: x + torch.softmax(20 * x, -1) @ torch.ones_like(x).mT
    x = field(17)
    fixed, everywhere = (way(model, (17,), example=x.to(dtype)) for way in (qn.anchor, qn.extend))
    with torch.no_grad():
        exact = qn.anchor(model, (17,), example=x)(field(33))
        for way in (fixed, everywhere):
            assert (way(field(33).to(dtype)).float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_at_native_runs_scripted_and_wrapped_models():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)).eval()
    x, y = field(33, 33), model(field(17, 17))
    for other in (torch.jit.script(copy.deepcopy(model)), nn.DataParallel(model)):
        assert torch.allclose(qn.at_native(other, (17, 17))(x)[..., ::2, ::2], y, atol=1e-5)
    with pytest.raises(TypeError, match=r"quadnorm\.at_native, which runs a scripted model as it is"):
        qn.extend(torch.jit.script(copy.deepcopy(model)), 17)


def test_a_compiled_part():
    torch.manual_seed(0)
    part = torch.compile(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4)), backend="eager")
    (raw, anchored, extended), _ = gaps(nn.Sequential(part, nn.Tanh(), nn.Conv2d(4, 1, 1)))
    assert anchored < 0.2 * raw
    assert extended < 1e-5


# --- audits ----------------------------------------------------------------------------------------------------------


def test_audit_of_a_model_that_returns_several_fields():
    torch.manual_seed(0)

    class Several(Calls):
        def forward(self, x):
            h = self.lift(x)
            return {"u": super().forward(x), "more": (h, h.amax((2, 3)))}

    result = qn.audit(Several(lambda h: h - h.mean((2, 3), keepdim=True)), lambda n: field(n, n), [17, 33, 65])
    assert [row.kind for row in result.leaks][:1] == ["call mean"]
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.3)


def test_audit_measures_what_leads_to_a_grid_of_its_own():
    """Strided and transposed convolutions, pools and resampling have rows, and do not hide the others."""
    torch.manual_seed(0)
    down, up = nn.Conv2d(6, 6, 3, stride=2, padding=1), nn.ConvTranspose2d(6, 6, 2, stride=2)
    model = nn.Sequential(nn.Conv2d(1, 6, 1), down, nn.GELU(), up, nn.GroupNorm(1, 6), nn.Conv2d(6, 1, 1))
    data = lambda n: field(n, n, placement="cell")  # noqa: E731
    result = qn.audit(model, data, [32, 64], placement="cell")
    assert {row.name for row in result.leaks} >= {"1", "3"}
    pyramid = Calls(lambda h: F.interpolate(F.avg_pool2d(h, 2), scale_factor=2.0))
    rows = {row.kind: row.introduced for row in qn.audit(pyramid, data, [32, 64], placement="cell").leaks}
    assert set(rows) == {"call avg_pool2d", "call interpolate"}


def test_audit_says_that_nothing_could_be_compared():
    def scan(h):
        state, states = torch.zeros_like(h[..., 0]), []
        for j in range(h.shape[-1]):
            state = 0.9 * state + 0.1 * h[..., j]
            states.append(state)
        return torch.stack(states, -1)

    torch.manual_seed(0)
    assert "no module or call could be compared" in str(qn.audit(Calls(scan, dim=1), field, [9, 17]))
