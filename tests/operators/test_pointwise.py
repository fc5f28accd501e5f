"""Pointwise maps against nn.Linear, and the blocked MLP against its formula."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from quadnorm.operators import Pointwise, PointwiseMLP
from quadnorm.operators import pointwise as module

D = torch.float64


def test_pointwise_is_linear_on_the_channels():
    torch.manual_seed(0)
    m = Pointwise(3, 5).double()
    x = torch.randn(2, 3, 4, 6, dtype=D)
    torch.testing.assert_close(m(x), F.linear(x.movedim(1, -1), m.weight, m.bias).movedim(-1, 1))
    torch.manual_seed(1)
    a = Pointwise(30, 50)
    assert a.weight.abs().max() <= 30**-0.5
    assert a.weight.abs().max() > 0.95 * 30**-0.5


def formula(m, x, onto=None):
    t = x.transpose(1, 2)
    y = F.linear(F.gelu(F.linear(t, m.first.weight, m.first.bias)), m.second.weight, m.second.bias).transpose(1, 2)
    return y if onto is None else y + onto


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 3), st.integers(1, 700), st.integers(1, 40), st.booleans(), st.booleans())
def test_blocks_do_not_show(batch, n, hidden, with_onto, keep):
    """Value and gradients, for any size: blocks of 64 points and a remainder, the hidden field kept or made again."""
    torch.manual_seed(0)
    m = PointwiseMLP(3, hidden, 2).double()
    x = torch.randn(batch, 3, n, dtype=D, requires_grad=True)
    onto = torch.randn(batch, 2, n, dtype=D, requires_grad=True) if with_onto else None
    g = torch.randn(batch, 2, n, dtype=D)
    leaves = [x, *m.parameters(), *([] if onto is None else [onto])]
    old, (module.BLOCK_BYTES, module.KEPT_BYTES) = (module.BLOCK_BYTES, module.KEPT_BYTES), (1, 2**24 if keep else 0)
    try:
        y = m(x, onto)
        got = torch.autograd.grad(y, leaves, g, retain_graph=True)
        again = torch.autograd.grad(y, leaves, g)
        torch.testing.assert_close(m(x, onto), formula(m, x, onto))
    finally:
        module.BLOCK_BYTES, module.KEPT_BYTES = old
    for a, b, c in zip(got, torch.autograd.grad(formula(m, x, onto), leaves, g), again, strict=True):
        torch.testing.assert_close(a, b)
        assert torch.equal(a, c)


def test_gradcheck_to_second_order():
    torch.manual_seed(0)
    m = PointwiseMLP(2, 3, 2).double()
    leaves = (torch.randn(2, 2, 4, dtype=D), torch.randn(2, 2, 4, dtype=D), *(p.detach() for p in m.parameters()))
    leaves = tuple(t.clone().requires_grad_() for t in leaves)
    names = [n for n, _ in m.named_parameters()]

    def f(x, onto, *parameters):
        return torch.func.functional_call(m, dict(zip(names, parameters, strict=True)), (x, onto))

    assert torch.autograd.gradcheck(f, leaves)
    assert torch.autograd.gradgradcheck(f, leaves)


def test_keeping_the_hidden_field_changes_no_bit(monkeypatch):
    m, x = PointwiseMLP(3, 40, 2), torch.randn(2, 3, 700, requires_grad=True)
    monkeypatch.setattr(module, "BLOCK_BYTES", 40 * 4 * 100)
    results = []
    for limit in (0, 2**24):
        monkeypatch.setattr(module, "KEPT_BYTES", limit)
        y = m(x)
        results.append([y.detach(), *torch.autograd.grad(y.square().sum(), [x, *m.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_only_the_input_is_kept_of_large_fields(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 2 * 64 * 500 * 4 - 1)
    m = PointwiseMLP(4, 64, 1)
    x = torch.randn(2, 4, 500, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        m(x)
    assert sum(kept) == x.numel() + sum(p.numel() for p in m.parameters()) - 1  # all but the last bias


def test_inputs_that_need_no_gradient():
    m = PointwiseMLP(3, 4, 2)
    m(torch.randn(1, 3, 5)).sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    for p in m.parameters():
        p.requires_grad_(False)
    x = torch.randn(1, 3, 5, requires_grad=True)
    m(x).sum().backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch.func imports its own deprecated parts
def test_transforms_of_functions():
    m = PointwiseMLP(2, 3, 1).double()
    x, t = torch.randn(4, 1, 2, 5, dtype=D), torch.randn(1, 2, 5, dtype=D)
    _, dy = torch.func.jvp(m, (x[0],), (t,))
    h = 1e-6
    torch.testing.assert_close(dy, (m(x[0] + h * t) - m(x[0] - h * t)) / (2 * h), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(torch.func.vmap(m)(x), torch.stack([m(v) for v in x]))
