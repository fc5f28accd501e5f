"""Padding by samples: a row of its own, and no blame for the calls on padded samples."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from quadnorm.adapt import audit
from tests.adapt.fields import smooth


class Spectral(nn.Module):
    """One spectral convolution by calls of torch.fft, with the same low waves at every resolution."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cdouble) / width)

    def forward(self, x):
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.weight)
        return torch.fft.irfft2(out, s=x.shape[-2:])


class PaddedFNO(nn.Module):
    """As most people write it: padded by samples, cropped at the end."""

    def __init__(self, width=4, modes=4, padding=4):
        super().__init__()
        self.padding, self.lift, self.head = padding, nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1)
        self.spectral, self.norm = Spectral(width, modes), nn.InstanceNorm2d(width)

    def forward(self, x):
        p, (h, w) = self.padding, x.shape[-2:]
        v = F.pad(self.lift(x), [0, p, 0, p])
        return self.head(self.norm(F.gelu(self.spectral(self.norm(v)))[..., :h, :w]))


@pytest.fixture(scope="module")
def result():
    torch.manual_seed(0)
    return audit(PaddedFNO().double().eval(), smooth, [9, 17, 33], placement="endpoint")


def test_padding_has_a_row_and_is_the_worst(result):
    row = result.leaks[0]
    assert (row.name, row.kind, row.remedy) == ("", "call pad", "anchor")
    assert row.cause == "padding by a number of samples"
    # The mean of a field that is zero in the padding: a share (9/13)² of the samples in training, (33/37)² at 33².
    assert row.introduced == pytest.approx((33 / 37) ** 2 / (9 / 13) ** 2 - 1, rel=1e-9)


def test_only_padding_makes_the_difference(result):
    """Everything but the padding anchored is as bad as nothing; everything but a norm is nearly as good as all."""
    rows = {(r.name, r.kind): r for r in result.rows}
    raw, anchored = (result.totals[way][-1] for way in ("as trained", "anchored"))
    pad, norm = rows["", "call pad"], rows["norm", "InstanceNorm2d"]
    assert anchored < 0.3 * raw
    assert pad.alone > 0.5 * raw
    assert norm.alone - anchored < 0.2 * (raw - anchored)
    assert pad.fixed < 0.6 * norm.fixed


def test_calls_on_padded_samples_are_measured_with_padding_of_the_right_length(result):
    """A norm over [0, 1 + 1/2]² counts 13 or 49 samples per axis: compared by hand, on a field padded so."""
    torch.manual_seed(0)
    model = PaddedFNO().double().eval()
    with torch.no_grad():
        fine, coarse = F.pad(model.lift(smooth(33)), [0, 16, 0, 16]), F.pad(model.lift(smooth(9)), [0, 4, 0, 4])
        a, b = model.norm(fine)[..., ::4, ::4], model.norm(fine[..., ::4, ::4])
        assert torch.equal(fine[..., ::4, ::4], coarse)
        gap = ((a - b).norm() / b.norm()).item()
    row = next(r for r in result.rows if r.kind == "InstanceNorm2d")
    assert row.introduced >= gap * (1 - 1e-9)  # the first of two calls; the worst counts
    assert row.introduced < 3 * gap


def test_rounding_has_no_cause():
    """A pointwise module in single precision differs in its last digits: nothing is to be mended."""
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GELU(), nn.GroupNorm(1, 4))
    rows = audit(model, lambda n: smooth(n).float(), [9, 17], placement="endpoint").rows
    assert {(r.cause, r.remedy) for r in rows if r.name in ("0", "1")} == {("", "")}


def test_padding_that_only_a_kernel_sees_has_no_row():
    class Replicates(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2)

        def forward(self, x):
            return self.norm(self.conv(F.pad(x, [1, 1, 1, 1], mode="replicate")))

    kinds = [r.kind for r in audit(Replicates().double(), smooth, [9, 17], placement="endpoint").rows]
    assert "GroupNorm" in kinds
    assert "call pad" not in kinds
