"""Softmax attention between the samples of a grid, under the measure of the training grid."""

import math

import pytest
import torch
from torch import nn

from quadnorm.adapt import anchor, audit
from tests.adapt.fields import orders, smooth

D = torch.float64


def weights(n, n0):
    """(1−1/n0)·trapezoid + (1/n0)·(δ_first + δ_last)/2, written out."""
    w = torch.full((n,), (1 - 1 / n0) / (n - 1), dtype=D)
    w[0] = w[-1] = (1 - 1 / n0) / (2 * (n - 1)) + 1 / (2 * n0)
    return w


class Attend(nn.Module):
    """Lift, attention between all samples, head."""

    def __init__(self, **options):
        super().__init__()
        self.first = options.get("batch_first", False)
        self.lift, self.head = nn.Conv2d(1, 8, 1), nn.Conv2d(8, 1, 1)
        self.attention = nn.MultiheadAttention(8, 2, **options)

    def forward(self, x):
        v = self.lift(x)
        t = v.flatten(2).transpose(1, 2)  # (B, N, C)
        t = t if self.first else t.transpose(0, 1)
        y, _ = self.attention(t, t, t, need_weights=False)
        y = y if self.first else y.transpose(0, 1)
        return self.head(torch.tanh(v + y.transpose(1, 2).view_as(v)))


def seeded(**options):
    torch.manual_seed(0)
    model = Attend(**options).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)  # logits that 9 samples resolve
    return model


@pytest.mark.parametrize(
    "options", [{"batch_first": True}, {}, {"add_bias_kv": True}, {"add_zero_attn": True}], ids=str
)
@pytest.mark.parametrize("mode", ["train", "eval"])  # PyTorch takes another path in eval mode without gradients
def test_native_output_and_second_order(options, mode):
    model = getattr(seeded(**options), mode)()
    fixed = anchor(model, 9, "endpoint")
    x = torch.randn(2, 1, 9, 9, dtype=D)
    with torch.no_grad():
        assert (fixed(x) - model(x)).abs().max() <= 1e-12 * model(x).abs().max()
    assert min(orders(fixed, (9, 17, 33))) > 1.9
    assert max(orders(model, (9, 17, 33))) < 1.4
    assert not fixed.anchor_report.left


def test_it_is_the_weighted_softmax():
    """One head, identity maps: y_i = Σ_j w_j e^{x_i x_j/√C} x_j / Σ_j w_j e^{x_i x_j/√C}, written out."""
    layer = nn.MultiheadAttention(4, 1, bias=False, batch_first=True).double()
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(4, dtype=D).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(4, dtype=D))
    fixed = anchor(layer, (5,), "endpoint", example=(torch.randn(1, 5, 4, dtype=D),) * 3)
    x = torch.randn(2, 9, 4, dtype=D)
    w = weights(9, 5)
    share = w * torch.exp(x @ x.transpose(1, 2) / math.sqrt(4))
    expected = (share / share.sum(2, keepdim=True)) @ x
    got, shares = fixed(x, x, x)
    assert torch.allclose(got, expected, atol=1e-12)
    assert torch.allclose(shares, share / share.sum(2, keepdim=True), atol=1e-12)
    # Masks keep their meaning, whatever their kind: keys 7 and 8 are not there; no sample sees key 0.
    absent = torch.zeros(2, 9, dtype=torch.bool)
    absent[:, 7:] = True
    hidden = torch.zeros(9, 9, dtype=torch.bool)
    hidden[:, 0] = True
    kept = share.clone()
    kept[:, :, 7:] = 0
    kept[:, :, 0] = 0
    got, _ = fixed(x, x, x, key_padding_mask=absent, attn_mask=hidden)
    assert torch.allclose(got, (kept / kept.sum(2, keepdim=True)) @ x, atol=1e-12)


def test_encoder_layers_do_not_go_around_the_attention():
    """In eval mode the encoder layer calls a fused kernel and skips its attention module, unless it is watched."""

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift = nn.Conv2d(1, 8, 1)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x):
            y = self.layer(self.lift(x).flatten(2).transpose(1, 2))
            return y.transpose(1, 2).unflatten(2, x.shape[2:])

    torch.manual_seed(0)
    model = Encoder().double().eval()
    nn.init.normal_(model.layer.self_attn.in_proj_weight, std=0.4)
    fixed = anchor(model, 9, "endpoint")
    assert [e.name for e in fixed.anchor_report.changed] == ["layer.self_attn"]
    assert min(orders(fixed, (9, 17, 33))) > 1.8
    assert max(orders(model, (9, 17, 33))) < 1.4
    result = audit(model, smooth, [9, 17, 33], placement="endpoint")
    assert [r.name for r in result.leaks] == ["layer.self_attn"]
    assert "counting measure in attention" in result.leaks[0].cause
    assert result.leaks[0].fixed == pytest.approx(result.totals["anchored"][-1])


def test_tokens_that_are_not_the_samples_need_nothing():
    class Latent(nn.Module):
        """Cross-attention to three learned tokens: no sum over space."""

        def __init__(self):
            super().__init__()
            self.norm, self.tokens = nn.GroupNorm(1, 8), nn.Parameter(torch.randn(1, 3, 8))
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            q = self.norm(x).flatten(2).transpose(1, 2)
            return self.attention(q, self.tokens, self.tokens)[0]

    report = anchor(Latent(), (9, 9), "endpoint", example=torch.randn(1, 8, 9, 9)).anchor_report
    assert report["attention"].action == "unchanged"
    assert "as many on every grid" in report["attention"].why
    with pytest.raises(ValueError, match="pass example="):
        anchor(nn.ModuleList([nn.GroupNorm(1, 8), nn.MultiheadAttention(8, 2)]), (9, 9), "endpoint")


@pytest.mark.parametrize("placement", ["cell", "periodic"])
def test_nothing_changes_where_counting_is_the_integral(placement):
    fixed = anchor(seeded(batch_first=True), 8, placement)
    assert fixed.anchor_report["attention"].action == "unchanged"
    assert type(fixed.attention) is nn.MultiheadAttention
