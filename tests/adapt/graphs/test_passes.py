"""What is left out of a captured graph, and what must not be."""

import pytest
import torch

import quadnorm as qn
from quadnorm import _torch
from quadnorm.adapt.graphs.passes import fold_constants, merge_repeated
from quadnorm.operators import FNO
from tests.adapt.models import field


def written_between(x):
    buffer = torch.zeros_like(x)
    before = (buffer + 1).sum() * x
    view = buffer[1:]
    view += x[1:]
    return (buffer + 1).sum() * x - before


def copied_and_written(x):
    y = x * 2
    z = y.clone()
    y.mul_(3.0)
    return z + y


def seen_later(x):
    y = torch.sin(x)
    part = y[1:]
    y.add_(x)
    return part.sum() + y


def without_gradients(x):
    with torch.no_grad():
        a = torch.exp(x)
    return a * torch.exp(x)


def twice(x):
    return torch.exp(x) + torch.exp(x).clone() + torch.sin(x).add_(x) + torch.sin(x).add_(x)


def returned_twice(x):
    return torch.exp(x), torch.exp(x)


def random_twice(x):
    return torch.nn.functional.dropout(x, 0.5) - torch.nn.functional.dropout(x, 0.5)


def copied_without_gradients(x):
    y = torch.exp(x)
    with torch.no_grad():
        z = y.clone()
    return y * z


def copied_and_viewed(x):
    return x.expand(3, 5).clone().view(15).sin().sum() * x


def random_unused(x):
    torch.nn.functional.dropout(x, 0.5)
    return torch.nn.functional.dropout(x, 0.5)


FUNCTIONS = [written_between, copied_and_written, seen_later, without_gradients, twice, returned_twice, random_twice]
FUNCTIONS += [copied_without_gradients, copied_and_viewed, random_unused]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_shorter_graph_gives_the_same(function):
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    graph = _torch.record(lambda t: function(t) if function is returned_twice else (function(t),), [x], [False]).graph
    merge_repeated(graph)
    fold_constants(graph)
    results = []
    for run in (function, graph):
        torch.manual_seed(0)
        y = run(x)
        y = y if isinstance(y, tuple) else (y,)
        results.append((*y, *torch.autograd.grad(sum(t.square().sum() for t in y), x)))
    torch.testing.assert_close(results[0], results[1])
    outputs = graph(x)
    assert len({t.data_ptr() for t in outputs}) == len(outputs)
    names = [str(n.target) for n in graph.graph.nodes]
    if function is twice:
        assert [names.count(f"aten.{name}") for name in ("exp.default", "sin.default", "clone.default")] == [1, 1, 0]


def test_calls_that_draw_nothing_are_left_out_where_nobody_needs_them():
    def function(x):
        torch.nn.functional.dropout(x.exp(), 0.5, training=False)
        torch.nn.functional.scaled_dot_product_attention(x.sin(), x, x)
        return (x.cos(),)

    graph = _torch.record(function, [torch.randn(1, 3, 4)], [False]).graph
    fold_constants(graph)
    assert [str(n.target) for n in graph.graph.nodes if n.op == "call_function"] == ["aten.cos.default"]


def test_an_extended_operator_transforms_its_native_fields_once():
    """The native run and the run on the new grid have the coefficients of each layer in common."""
    everywhere = qn.extend(FNO(width=4, modes=3, layers=3).eval(), 9, "endpoint")
    with torch.no_grad():
        everywhere(field(17, 17))
    (graph,) = [ready.graph for kind in everywhere._graphs.kinds.values() for ready in kind.ready]
    products = [n for n in graph.module.graph.nodes if str(n.target) == "aten.bmm.default"]
    complexes = [n for n in products if n.meta["val"].is_complex()]
    assert len(complexes) == 3


def test_calls_without_gradients_take_the_graph_of_calls_with_them():
    everywhere = qn.extend(torch.nn.Sequential(torch.nn.Conv1d(1, 4, 1), torch.nn.GroupNorm(1, 4)), 9, "endpoint")
    x = torch.randn(2, 1, 17)
    y = everywhere(x)
    with torch.no_grad():
        z = everywhere(x)
    first, second = [ready.graph for kind in everywhere._graphs.kinds.values() for ready in kind.ready]
    assert first.module is second.module
    assert torch.equal(y, z)
    assert not z.requires_grad
