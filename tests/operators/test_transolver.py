"""Slice attention against loops over samples and slices."""

import math
from itertools import product

import pytest
import torch
from torch.nn import functional as F

from quadnorm import Anchored
from quadnorm.operators import SliceAttention, Transolver
from quadnorm.operators.transolver import slice_sums
from tests.operators.small_models import gradients_are_right

D = torch.float64


def attention_in_loops(a, x, w, eps):
    """x (N, C), w (N,) summing to 1: soft slices, their averages, softmax attention per head, back to the samples."""
    N, C = x.shape
    G, d = a.slice.weight.shape[0], C // a.heads
    s = torch.stack([torch.softmax((a.slice.weight @ x[j] + a.slice.bias) / 0.5, 0) for j in range(N)])
    t = torch.zeros(G, C, dtype=D)
    for g in range(G):
        top = sum(w[j] * s[j, g] * x[j] for j in range(N))
        t[g] = top / (sum(w[j] * s[j, g] for j in range(N)) + eps)
    q, k, v = (t @ m.weight.T + m.bias for m in (a.query, a.key, a.value))
    out = torch.zeros(G, C, dtype=D)
    for h in range(a.heads):
        c = slice(h * d, (h + 1) * d)
        for g in range(G):
            score = torch.softmax(torch.stack([q[g, c] @ k[o, c] for o in range(G)]) / math.sqrt(d), 0)
            out[g, c] = sum(score[o] * v[o, c] for o in range(G))
    out = out @ a.out.weight.T + a.out.bias
    return torch.stack([sum(s[j, g] * out[g] for g in range(G)) for j in range(N)])


def attention_of(width=6, heads=2, slices=3):
    torch.manual_seed(0)
    a = SliceAttention(width, heads, slices).double()
    for p in a.parameters():
        torch.nn.init.normal_(p)
    return a


def test_counting_is_the_published_attention():
    """Σ s x / (Σ s + 10⁻⁵) over n samples, so ε = 10⁻⁵/n beside weights 1/n."""
    a = attention_of()
    x = torch.randn(2, 6, 7, dtype=D)
    w = torch.full((7,), 1 / 7, dtype=D)
    expected = torch.stack([attention_in_loops(a, v.T, w, 1e-5 / 7).T for v in x])
    torch.testing.assert_close(a(x), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(a(x, onto=x), x + expected, rtol=1e-9, atol=1e-11)


def test_epsilon_is_seen_by_an_empty_slice():
    """A slice that next to no sample belongs to: there the published ε decides, and must have its published size."""
    a = attention_of(slices=2)
    with torch.no_grad():
        a.slice.weight.zero_()
        a.slice.bias.copy_(torch.tensor([0.0, -5.5], dtype=D))  # softmax(·/0.5): share e⁻¹¹ ≈ 1.7e-5 each
    x = torch.randn(1, 6, 5, dtype=D)
    s = torch.sigmoid(torch.tensor(-11.0, dtype=D))
    slices = torch.stack([1 - s, s])[None, :, None].expand(1, 2, 5)
    t = a.tokens(x, slices, None, 1)[0, 1]
    torch.testing.assert_close(t, (s * x[0].sum(1)) / (5 * s + 1e-5))


def test_weights_per_sample():
    a = attention_of()
    a.measure = "trapezoid"
    x, w = torch.randn(2, 6, 5, dtype=D), torch.rand(2, 5, dtype=D)
    w = w / w.sum(1, keepdim=True)
    expected = torch.stack([attention_in_loops(a, x[b].T, w[b], 1e-8).T for b in range(2)])
    torch.testing.assert_close(a(x, w), expected, rtol=1e-9, atol=1e-11)


def test_anchored_slices_equal_counting_on_the_training_grid():
    torch.manual_seed(0)
    model = Transolver(width=8, heads=2, layers=2).double()
    x = torch.randn(2, 1, 9, 7, dtype=D)
    before = model(x)
    model.measure = Anchored((9, 7))
    torch.testing.assert_close(model(x), before, rtol=1e-12, atol=1e-14)


def published(model, x):
    """The counting network on one grid field x (C, H, W), stock layout: one row per sample."""
    t = [torch.linspace(0, 1, n, dtype=D) for n in x.shape[1:]]
    r = torch.stack([g.flatten() for g in torch.meshgrid(*t, indexing="ij")], 1)
    mlp = lambda m, v: F.linear(F.gelu(F.linear(v, m.first.weight, m.first.bias)), m.second.weight, m.second.bias)  # noqa: E731
    norm = lambda m, v: F.group_norm(v.T[None], 1, m.weight, m.bias)[0].T  # noqa: E731
    v = mlp(model.lift, torch.cat([x.flatten(1).T, r], 1))
    n = v.shape[0]
    for b in model.blocks:
        v = v + attention_in_loops(b.attention, norm(b.norm1, v), torch.full((n,), 1 / n, dtype=D), 1e-5 / n)
        v = v + mlp(b.mlp, norm(b.norm2, v))
    return F.linear(v, model.head.weight, model.head.bias).T.view(-1, *x.shape[1:])


def test_whole_network():
    torch.manual_seed(0)
    model = Transolver(2, 3, width=8, heads=2, layers=2, slices=3).double()
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=0.5)
    x = torch.randn(2, 2, 4, 5, dtype=D)
    torch.testing.assert_close(model(x), torch.stack([published(model, v) for v in x]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("size", "expected"), [("standard", 307_505), ("large", 1_611_585), ("xl", 9_568_865)])
def test_parameter_counts_of_the_paper(size, expected):
    with torch.device("meta"):
        model = Transolver.preset(size)
    assert sum(p.numel() for p in model.parameters()) == expected


def test_a_learned_temperature_is_one_parameter_per_layer():
    torch.manual_seed(0)
    model = Transolver(width=8, heads=2, layers=3, learn_temperature=True)
    fixed = Transolver(width=8, heads=2, layers=3)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in fixed.parameters()) + 3
    assert model.blocks[0].attention.temperature.item() == 0.5
    model(torch.randn(1, 1, 5, 5)).sum().backward()
    assert model.blocks[0].attention.temperature.grad is not None


def test_initial_slices_are_orthogonal():
    w = Transolver(width=16, layers=1).blocks[0].attention.slice.weight
    torch.testing.assert_close(w @ w.T, torch.eye(8), rtol=0, atol=1e-5)


def test_gradcheck():
    torch.manual_seed(0)
    model = Transolver(width=4, heads=2, layers=1, slices=2, norm="quad", measure="trapezoid").double()
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p)
    x = torch.randn(1, 1, 3, 4, dtype=D, requires_grad=True)
    assert gradients_are_right(model, x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transolver.preset("larg"), "large"),
        (lambda: Transolver(width=6, heads=4), "width=6 and heads=4"),
        (lambda: Transolver(width=8)(torch.ones(1, 2, 5, 5)), "1 channels on a 2-dimensional grid"),
        (lambda: Transolver(placement="centre"), "placement"),
    ],
)
def test_errors_say_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_slice_sums_and_their_derivatives():
    """Σ_j s_gj x_cj by loops; derivatives of any order, and none of them transposed in memory."""
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    s = torch.rand(2, 4, 5, dtype=torch.float64, requires_grad=True)
    sums = slice_sums(x, s)
    for b, g, c in product(range(2), range(4), range(3)):
        expected = sum(s[b, g, j].item() * x[b, c, j].item() for j in range(5))
        assert sums[b, g, c].item() == pytest.approx(expected, abs=1e-12)
    assert all(d.is_contiguous() for d in torch.autograd.grad(sums.sum(), (x, s)))
    assert torch.autograd.gradcheck(slice_sums, (x, s), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(slice_sums, (x, s))
