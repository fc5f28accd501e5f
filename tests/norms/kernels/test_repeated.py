"""A layer's prepared kernel: the same numbers as the general entrance, and no longer used when anything has changed."""

import copy

import pytest
import torch
from torch import nn

from quadnorm import BlendQuadNorm, QuadNorm, QuadRMSNorm
from quadnorm.norms.kernels import core, dispatch, repeated

launch = pytest.importorskip("quadnorm.norms.kernels.numba.launch", reason="needs numba", exc_type=ImportError)

LAYERS = {
    "layer": lambda: QuadNorm(6),
    "instance": lambda: QuadNorm(6, mode="instance", measure="simpson"),
    "group": lambda: QuadNorm(6, mode="group", num_groups=3, affine=False),
    "blend": lambda: BlendQuadNorm(6, 0.3),
    "rms": lambda: QuadRMSNorm(6),
}


@pytest.fixture
def runs(monkeypatch):
    """How often the prepared kernel has run."""
    seen = []
    before = repeated.normalize
    monkeypatch.setattr(repeated, "normalize", lambda *given: seen.append(1) or before(*given))
    return seen


def by_the_general_entrance(layer, x):
    plan = layer._plan(x)
    return core.normalize(x, plan.weights, layer.weight, layer.bias, layer.groups, layer.eps, layer.centre)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.contiguous_format, torch.channels_last])
def test_the_same_bits(name, dtype, kind, runs):
    layer = LAYERS[name]().to(torch.float32 if dtype == torch.bfloat16 else dtype)
    for p in layer.parameters():
        nn.init.normal_(p)
    x, g = (torch.randn(3, 6, 9, 8, dtype=dtype).to(memory_format=kind) for _ in range(2))
    x.requires_grad_()
    inputs = [x, *layer.parameters()]
    for _ in range(2):
        ours = torch.autograd.grad(layer(x), inputs, g)
    general = torch.autograd.grad(by_the_general_entrance(layer, x), inputs, g)
    assert all(map(torch.equal, ours, general))
    with torch.no_grad():
        assert torch.equal(layer(x), by_the_general_entrance(layer, x))
    assert len(runs) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer, "eps", 1),  # an integer, too
        lambda layer: setattr(layer, "measure", "simpson"),
        lambda layer: setattr(layer, "weight", nn.Parameter(torch.full((6,), 3.0))),
        lambda layer: setattr(layer, "weight", nn.Parameter(torch.full((6, 2), 3.0)[:, 0])),
        lambda layer: layer.weight.data.fill_(3.0),
        lambda layer: layer.bias.data.fill_(3.0),
        lambda layer: nn.utils.parametrize.register_parametrization(layer, "bias", nn.Softplus()),
    ],
)
def test_what_is_changed_later_counts(change):
    layer, x = QuadNorm(6), torch.randn(2, 6, 7, 7)
    before = layer(x)
    change(layer)
    with dispatch.use_kernel("torch"):
        expected = copy.deepcopy(layer)(x)
    assert (expected - before).abs().max() > 1e-3
    torch.testing.assert_close(layer(x), expected)


def test_another_kernel_may_be_asked_for_at_any_time(runs, monkeypatch):
    layer, x = QuadNorm(6), torch.randn(2, 6, 7, 7, requires_grad=True)
    y = layer(x)
    with dispatch.use_kernel("torch"):
        layer(x)
        y.sum().backward()
    monkeypatch.setenv("QUADNORM_KERNEL", "torch")
    layer(x)
    assert len(runs) == 1


def test_inputs_that_lie_otherwise_in_memory(runs):
    layer, x = QuadNorm(6), torch.randn(2, 6, 7, 8)
    expected = layer(x)
    for other in (x.mT.contiguous().mT, x.half()):  # put in order first
        torch.testing.assert_close(layer(other), expected.to(other.dtype), atol=0.01, rtol=0.01)
    assert len(runs) == 1
    for other in (x.to(memory_format=torch.channels_last), x.bfloat16()):
        torch.testing.assert_close(layer(other), expected.to(other.dtype), atol=0.05, rtol=0.05)
    assert len(runs) == 3


def test_derivatives_of_derivatives_and_many_at_once():
    layer = QuadNorm(2, mode="instance").double()
    x = torch.randn(2, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(layer, (x,))


def test_gradients_that_lie_otherwise_in_memory():
    layer, x = QuadNorm(6), torch.randn(2, 6, 7, 8, requires_grad=True)
    g = torch.randn(2, 6, 8, 7).transpose(2, 3)
    (ours,) = torch.autograd.grad(layer(x), x, g)
    (general,) = torch.autograd.grad(by_the_general_entrance(layer, x), x, g.contiguous())
    assert torch.equal(ours, general)


@pytest.mark.parametrize("back", [lambda t: t.to(memory_format=torch.channels_last), torch.Tensor.half])
def test_saved_tensors_that_hooks_give_back_otherwise(back):
    layer, x, g = QuadNorm(6), torch.randn(2, 6, 7, 8, requires_grad=True), torch.randn(2, 6, 7, 8)
    (expected,) = torch.autograd.grad(layer(x), x, g)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: back(t) if t.ndim == 4 else t):
        y = layer(x)
    (ours,) = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(ours, expected, atol=5e-3, rtol=5e-3)


def test_statistics_that_hooks_give_back_otherwise():
    layer, x, g = QuadNorm(6, mode="instance"), torch.randn(2, 6, 7, 8, requires_grad=True), torch.randn(2, 6, 7, 8)
    (expected,) = torch.autograd.grad(layer(x), x, g)

    def strided(t):
        return torch.stack([t, t], -1)[..., 0]

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: strided(t) if t.ndim == 3 else t):
        y = layer(x)
    (ours,) = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(ours, expected)


def test_threads_that_make_the_same_constants(monkeypatch):
    """Two first calls at once each make γ = 1 and β = 0; the ones that are dropped must live as long as their call."""
    layer, x = QuadNorm(6, affine=False), torch.randn(8, 6, 7, 7)
    expected = layer(x)
    layer.__dict__.pop("_memo")
    ready = layer._plan(x).ready
    programs = launch.programs

    def meanwhile(program):
        def run(*given):
            ready._neutral = None
            others = [torch.full((6,), 1e6) for _ in range(64)]  # take the memory, if anybody has given it up
            program(*given)
            del others

        return run

    for name in ("forward_rows", "forward_blocks"):
        monkeypatch.setattr(programs, name, meanwhile(getattr(programs, name)))
    assert torch.equal(layer(x), expected)
