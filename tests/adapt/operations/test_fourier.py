"""Spectra as strangers write them: waves picked from one axis, written into zeros, on grids of their own."""

import pytest
import torch
from torch import nn

import quadnorm as qn
from tests.adapt.models import Calls, field
from tests.adapt.ways import gaps


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
    leaks = qn.audit(model, lambda n: field(n, n), [17, 33], placement="endpoint").leaks
    assert {row.kind for row in leaks} == {"call rfft", "call irfft"}


def test_a_full_spectrum_written_into_zeros_of_ones_own():
    """``torch.zeros`` is a constant until it is written into; what it holds afterwards is no constant field."""

    def filtered(h):
        out = torch.zeros(*h.shape, dtype=torch.cfloat)
        out[..., :4, :4] = torch.fft.fft2(h)[..., :4, :4]
        return torch.fft.ifft2(out).real + h

    torch.manual_seed(0)
    model = Calls(filtered).eval()
    fixed = qn.anchor(model, 17, "endpoint", example=field(17, 17))
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
