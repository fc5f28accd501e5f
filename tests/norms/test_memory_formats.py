"""Channels last in memory, tokens, bfloat16: the same numbers, as accurate, in the input's own form."""

import pytest
import torch
from torch.nn import functional as F

from quadnorm import AnchoredNorm, BlendQuadNorm, Grid, QuadNorm, QuadRMSNorm
from quadnorm.norms import LayerNorm
from quadnorm.norms.kernels import core, dispatch, formula
from tests.norms.reference import MODES, counting_weights, reference, trapezoid_weights

COUNTING = {
    "counting": lambda **k: QuadNorm(8, measure="counting", **k),
    "baseline": lambda **k: LayerNorm(8, **k),
    "blend": lambda **k: BlendQuadNorm(8, alpha=1.0, **k),
    "anchored": lambda **k: AnchoredNorm(8, 32, **k),
    "blend of anchored": lambda **k: BlendQuadNorm(8, alpha=0.3, measure="counting", **k),
}


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("mean", [0, 20, 200, 1000, 5000])
def test_plain_averages_keep_their_digits_at_large_means(kernel, name, mean):
    """PyTorch's kernel for this memory takes E[x²] − E[x]² in float32: 3.2 off at 5000, NaN without ε."""
    x = torch.randn(2, 1024, 8) + mean
    fields = x.mT.reshape(2, 8, 32, 32)
    want = reference(fields, counting_weights((32, 32)))
    make = COUNTING[name]
    tokens = make(layout=(32, 32))(x).mT.reshape(want.shape)
    last = make(layout="last")(x.view(2, 32, 32, 8)).movedim(-1, 1)
    memory = make()(fields.to(memory_format=torch.channels_last))
    for y in (tokens, last, memory):
        torch.testing.assert_close(y.detach().double(), want, atol=4e-6, rtol=0)


@pytest.mark.parametrize("mean", [0, 5000])
def test_no_epsilon(kernel, mean):
    x = (torch.randn(2, 8, 32, 32) + mean).to(memory_format=torch.channels_last)
    for measure, w in (("counting", counting_weights((32, 32))), ("trapezoid", trapezoid_weights((32, 32)))):
        y = QuadNorm(8, eps=0.0, measure=measure)(x)
        torch.testing.assert_close(y.detach().double(), reference(x, w, eps=0), atol=4e-6, rtol=0)


def test_an_anchored_norm_of_tokens_keeps_what_layer_norm_keeps(kernel):
    """At the training grid: the error against float64 is not larger than F.layer_norm's, forward and backward."""
    x, g = torch.randn(2, 1024, 8) + 5000, torch.randn(2, 1024, 8)

    def results(layer, x, g):
        x = x.clone().requires_grad_()
        y = layer(x)
        y.backward(g)
        return y.detach().double(), x.grad.double()

    exact = results(lambda t: F.layer_norm(t, (1024, 8)), x.double(), g.double())
    ours = results(AnchoredNorm(8, 32, layout=(32, 32)), x, g)
    native = results(lambda t: F.layer_norm(t, (1024, 8)), x, g)
    for a, b, c in zip(ours, native, exact, strict=True):
        assert (a - c).abs().max() <= max((b - c).abs().max(), 1e-5)


# Fewer and more channels than a vector has, samples that no unrolling divides, several blocks, 1-D to 3-D.
SHAPES = [(2, 4, 7), (1, 4, 33, 31), (3, 20, 9, 9), (2, 4, 5, 6, 7), (2, 36, 40, 40)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("mode", "num_groups", "groups"), MODES)
@pytest.mark.parametrize("weights", ["shared", "own", "holes"])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_values_and_gradients(kernel, shape, mode, num_groups, groups, weights, offset):
    """Against the slow reference and the formula's derivative in float64; in layer mode one group, else C or 2."""
    C, N = shape[1], torch.Size(shape[2:]).numel()
    groups = {"layer": 1, "instance": C, "group": num_groups}[mode]
    x, g = (_channels_last(torch.randn(shape) + k) for k in (offset, 0.0))
    x.requires_grad_()
    w = torch.rand(1 if weights == "shared" else shape[0], N, dtype=torch.float64) + 0.1
    if weights == "holes":
        w[:, : N // 2] = 0
    w = (w / w.sum(1, keepdim=True)).float()
    gamma, beta = torch.rand(C) + 0.5, torch.rand(C)
    y = core.normalize(x, w, gamma, beta, groups)
    want = reference(x, w.reshape(-1, *shape[2:]).expand(shape[0], *shape[2:]), groups, gamma, beta)
    torch.testing.assert_close(y.detach().double(), want, atol=2e-5, rtol=1e-5)
    dx, *_ = torch.autograd.grad(y, x, g)
    exact = formula.backward(
        g.double().contiguous(), x.detach().double().contiguous(), w.double(), gamma.double(), groups, 1e-5, True, False
    )[0]
    torch.testing.assert_close(dx.double(), exact, atol=2e-5, rtol=1e-4)


def _channels_last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


@pytest.mark.parametrize("kind", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", [QuadNorm, QuadRMSNorm, lambda C: QuadNorm(C, mode="instance", measure="counting")])
def test_half_precision_is_the_float32_result_rounded(kernel, make, kind, dtype):
    layer = make(6)
    x, g = ((torch.randn(3, 6, 21, 20) * 3 + 1).to(dtype).to(memory_format=kind) for _ in range(2))
    results = []
    for leaf in (x.clone().requires_grad_(), x.float().requires_grad_()):
        layer.zero_grad()
        y = layer(leaf)
        y.backward(g.to(leaf.dtype))
        results.append((y.detach(), leaf.grad, layer.weight.grad.clone()))
    by_pytorch = layer.measure == Grid("counting") and kind == torch.contiguous_format and dtype == torch.bfloat16
    for half, full in zip(*results, strict=True):
        if by_pytorch and kernel == "numba":  # in float32; in bfloat16 it is ours: one rounding apart at most
            torch.testing.assert_close(half, full.to(half.dtype), rtol=2**-7, atol=1e-6)
        else:
            assert torch.equal(half, full.to(half.dtype))
    assert results[0][0].dtype == results[0][1].dtype == dtype
    assert results[0][0].is_contiguous(memory_format=kind)


def test_bfloat16_rounds_as_pytorch_does():
    """Ties to even, overflow to infinity, NaN stays NaN: every bfloat16 number and what lies above it."""
    pytest.importorskip("numba")
    from numba import njit

    from quadnorm.norms.kernels.numba.numbers import number, stored

    @njit
    def through(x, kind, out, back):
        for i in range(x.size):
            out[i] = stored(x[i], kind)
            back[i] = number(out[i])

    upper = torch.arange(2**16, dtype=torch.int32) << 16
    low = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    x = (upper[:, None] | low).flatten().view(torch.float32)
    rounded, back = torch.empty(x.shape, dtype=torch.uint16), torch.empty_like(x)
    bits = rounded.numpy()
    through(x.numpy(), bits[0], bits, back.numpy())
    want = x.to(torch.bfloat16)
    assert torch.equal(rounded.view(torch.bfloat16).nan_to_num(7.0), want.nan_to_num(7.0))
    assert torch.equal(rounded.view(torch.bfloat16).isnan(), want.isnan())
    assert torch.equal(back.nan_to_num(7.0), want.float().nan_to_num(7.0))


def test_tokens_are_not_copied():
    """The output of tokens (B, N, C) is contiguous as they are, and no temporary of their size is made."""
    pytest.importorskip("numba")
    layer = QuadNorm(16, layout=(32, 32))
    x = torch.randn(2, 1024, 16)
    with dispatch.use_kernel("numba"):
        y = layer(x)
        assert y.is_contiguous()
        with torch.profiler.profile(profile_memory=True) as profile, torch.no_grad():
            layer(x)
    names = {e.key for e in profile.key_averages()}
    assert not names & {"aten::copy_", "aten::clone", "aten::contiguous"}, names


def test_counting_on_contiguous_memory_is_still_pytorchs(kernel):
    x = torch.randn(2, 8, 32, 32) + 1000
    for make in COUNTING.values():
        layer = make()
        assert torch.equal(layer(x), F.group_norm(x, 1, layer.weight, layer.bias))


def test_transforms_and_traces_see_the_accurate_norm():
    """What is not a plain call copies first, and then is PyTorch's own."""
    layer, x = QuadNorm(8, measure=Grid("counting")), torch.randn(2, 1, 8, 32, 32) + 5000
    x = x.movedim(2, -1).contiguous().movedim(-1, 2)
    y = torch.func.vmap(layer)(x)
    want = reference(x[:, 0], counting_weights((32, 32)))
    torch.testing.assert_close(y[:, 0].detach().double(), want, atol=2e-3, rtol=0)
