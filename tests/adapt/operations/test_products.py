"""Products, attention and sums as strangers write them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.adapt.watching.watch import CannotFollowError
from tests.adapt.models import Calls, Spectral2d, field
from tests.adapt.ways import gaps


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
    assert "call einsum" in {
        row.kind for row in qn.audit(model, lambda n: field(n, n), [17, 33], placement="endpoint").leaks
    }


def test_one_axis_read_for_both():
    """Padding and cropping by the last axis' length: on 33×17 such a model does something else than on 33×33."""

    def padded(h):
        n = h.shape[-1]
        k = n // 4
        return Spectral(F.pad(h, (0, k, 0, k)))[..., :n, :n]

    torch.manual_seed(0)
    Spectral = Spectral2d(6, 4)
    with pytest.raises(CannotFollowError, match="reads the length of one axis for another"):
        qn.extend(Calls(padded), 17, "endpoint")
    with pytest.raises(CannotFollowError, match="reads the length of one axis for another"):
        qn.anchor(Calls(padded), 17, "endpoint")


def test_a_linear_as_wide_as_the_grid():
    """Sixteen channels on sixteen samples: which of them a Linear takes shows on another grid."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.mix, self.head = nn.Linear(1, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x):
            h = self.mix(self.lift(x.mT))
            return self.head(torch.tanh(h - h.mean(1, keepdim=True))).mT

    fixed = qn.anchor(Wide(), (16,), "endpoint", example=field(16))
    assert [e.kind for e in fixed.anchor_report] == ["call mean"]


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
    assert [(e.name, e.action) for e in fixed.anchor_report] == [("rows", "anchored"), ("read", "unchanged")]


def test_a_trapezoidal_sum_is_an_integral_already():
    torch.manual_seed(0)
    model = Calls(lambda h: h - torch.trapezoid(h, dx=1 / (h.shape[-1] - 1)).unsqueeze(-1), dim=1)
    (entry,) = qn.anchor(model, (17,), "endpoint", example=field(17)).anchor_report
    assert (entry.kind, entry.action) == ("call trapezoid", "unchanged")
    with pytest.raises(ValueError, match="call trapezoid"):
        qn.anchor(model, (17,), "cell", example=field(17))
