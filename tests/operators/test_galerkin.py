"""Galerkin attention against loops over samples and heads."""

import pytest
import torch
from torch.nn import functional as F

from quadnorm import Anchored
from quadnorm.norms import NoNorm
from quadnorm.operators import GalerkinAttention, GalerkinTransformer
from tests.operators.small_models import gradients_are_right

D = torch.float64


def places(*shape):
    axes = [torch.linspace(0, 1, n, dtype=D) for n in shape]
    return torch.stack([g.flatten() for g in torch.meshgrid(*axes, indexing="ij")])  # (d, N)


def attention_in_loops(a, x, r, w):
    """x (N, C), r (N, d), w (N,): per head coordinates before q, k, v; G = Σ_j w_j k_j v_jᵀ; Gᵀ q_j; output map."""
    N, C = x.shape
    d = C // a.heads
    heads = []
    for h in range(a.heads):
        rows = slice(h * d, (h + 1) * d)
        part = lambda m, rows=rows: x @ m.weight[rows].T + m.bias[rows]  # noqa: E731
        norm = lambda t, m: F.layer_norm(t, (d,), m.weight, m.bias)  # noqa: E731
        q, k, v = part(a.query), norm(part(a.key), a.norm_key), norm(part(a.value), a.norm_value)
        q, k, v = (torch.cat([r, t], 1) for t in (q, k, v))
        G = torch.zeros(d + r.shape[1], d + r.shape[1], dtype=D)
        for j in range(N):
            G += w[j] * torch.outer(k[j], v[j])
        heads.append(torch.stack([G.T @ q[j] for j in range(N)]))
    return torch.cat(heads, 1) @ a.out.weight.T + a.out.bias


def attention_of(width=6, heads=2, dim=2):
    torch.manual_seed(0)
    a = GalerkinAttention(width, heads, dim).double()
    for p in a.parameters():
        torch.nn.init.normal_(p)  # the initial weights are too small to show a wrong sum
    return a


def test_counting_is_the_published_attention():
    a, r = attention_of(), places(3, 4)
    x = torch.randn(2, 6, 12, dtype=D)
    expected = torch.stack([attention_in_loops(a, v.T, r.T, torch.full((12,), 1 / 12, dtype=D)).T for v in x])
    torch.testing.assert_close(a(x, r[None]), expected)
    torch.testing.assert_close(a(x, r[None], residual=True), x + expected)


def test_weights_per_sample():
    a = attention_of(width=4, heads=1, dim=1)
    x, r, w = torch.randn(2, 4, 5, dtype=D), torch.rand(2, 1, 5, dtype=D), torch.rand(2, 5, dtype=D)
    expected = torch.stack([attention_in_loops(a, x[b].T, r[b].T, w[b]).T for b in range(2)])
    torch.testing.assert_close(a(x, r, w), expected)


def published(model, x, w):
    """The network on one grid field x (C, H, W) with weights w (H, W) in attention and norms alike."""
    r = places(*x.shape[1:]).T
    v = torch.cat([x.flatten(1).T, r], 1) @ model.lift.weight.T + model.lift.bias

    def norm(m, t):
        mean = (w.flatten()[:, None] * t).sum() / t.shape[1]
        var = (w.flatten()[:, None] * (t - mean) ** 2).sum() / t.shape[1]
        return (t - mean) / torch.sqrt(var + 1e-5) * m.weight + m.bias

    for b in model.blocks:
        v = v + attention_in_loops(b.attention, v, r, w.flatten())
        v = v if isinstance(b.norm1, NoNorm) else norm(b.norm1, v)
        hidden = F.gelu(v @ b.mlp.first.weight.T + b.mlp.first.bias)
        v = norm(b.norm2, v + hidden @ b.mlp.second.weight.T + b.mlp.second.bias)
    hidden = F.gelu(v @ model.head.first.weight.T + model.head.first.bias)
    return (hidden @ model.head.second.weight.T + model.head.second.bias).T.view(-1, *x.shape[1:])


@pytest.mark.parametrize("norms", [1, 2])
@pytest.mark.parametrize("measure", ["counting", "trapezoid", "anchored"])
def test_whole_network(measure, norms):
    torch.manual_seed(0)
    n0, shape = 4, (6, 5)
    trapezoid = [torch.full((n,), 1 / (n - 1), dtype=D) for n in shape]
    ends = [torch.zeros(n, dtype=D) for n in shape]
    for t, e in zip(trapezoid, ends, strict=True):
        t[[0, -1]] /= 2
        e[[0, -1]] = 0.5
    w, spec, norm = {
        "counting": (torch.full(shape, 1 / 30, dtype=D), "counting", "layer"),
        "trapezoid": (torch.outer(*trapezoid), "trapezoid", "quad"),
        "anchored": (
            torch.outer(*((1 - 1 / n0) * t + e / n0 for t, e in zip(trapezoid, ends, strict=True))),
            Anchored(n0),
            "anchored:4",
        ),
    }[measure]
    model = GalerkinTransformer(
        2, 3, width=8, heads=2, layers=2, norm=norm, measure=spec, projection=5, norms_per_block=norms
    ).double()
    for b in model.blocks:
        torch.nn.init.normal_(b.attention.key.weight)
    x = torch.randn(2, 2, *shape, dtype=D)
    torch.testing.assert_close(model(x), torch.stack([published(model, v, w) for v in x]), rtol=1e-6, atol=1e-8)


def test_parameter_count_and_initial_weights():
    """256 + 4·(3·4160 + 64 + 72·64 + 64 + 2·64·128 + 192) + 8449 without norms, two affine norms of 128 per layer."""
    torch.manual_seed(0)
    model = GalerkinTransformer(norm="none")
    assert sum(p.numel() for p in model.parameters()) == 143_873
    assert sum(p.numel() for p in GalerkinTransformer().parameters()) == 144_897
    q = model.blocks[0].attention.query
    assert q.bias.abs().max() == 0
    rest = q.weight - 0.01 * torch.eye(64)
    assert rest.abs().max() <= 0.01 * (6 / 128) ** 0.5  # Xavier's bound √(6/(in+out)), gain 0.01
    assert rest.abs().max() > 0.009 * (6 / 128) ** 0.5


def test_gradcheck():
    torch.manual_seed(0)
    model = GalerkinTransformer(width=4, heads=2, layers=1, projection=3, norm="quad", measure="trapezoid").double()
    for p in model.blocks[0].attention.parameters():
        torch.nn.init.normal_(p)
    x = torch.randn(1, 1, 3, 4, dtype=D, requires_grad=True)
    assert gradients_are_right(model, x)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="width=6 and heads=4"):
        GalerkinTransformer(width=6, heads=4)


def test_setting_the_measure_sets_every_layer():
    model = GalerkinTransformer(width=4, heads=1, layers=2)
    model.measure = "simpson"
    assert [repr(b.attention.measure) for b in model.blocks] == ["Grid('simpson')"] * 2
    assert "simpson" in repr(model)


def test_blocks_have_one_norm_or_two():
    with pytest.raises(ValueError, match="norms_per_block must be 1 or 2, got 3"):
        GalerkinTransformer(norms_per_block=3)
