"""Where PyTorch's own norms work, ours do: in-place operations, tracers, transforms, memory formats, extreme values."""

import io

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from quadnorm.measures import Grid, Weights
from quadnorm.norms import AnchoredNorm, BlendQuadNorm, LayerNorm, QuadNorm, QuadRMSNorm, quad_norm, quad_norm_ragged
from quadnorm.norms.weights import leaves_samples_out
from tests.norms.reference import counting_weights, reference, trapezoid_weights

LAYERS = {
    "quad": lambda: QuadNorm(4),
    "blend": lambda: BlendQuadNorm(4),
    "learned": lambda: BlendQuadNorm(4, learn_alpha=True),
    "anchored": lambda: AnchoredNorm(4, 5),
    "rms": lambda: QuadRMSNorm(4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_operations_in_place_after_a_norm(kernel, name):
    layer = LAYERS[name]()
    x = torch.randn(2, 4, 6, 5, requires_grad=True)

    def f(inplace):
        y = layer(x)
        if inplace:
            y += x
            y[:, 0] = 0
            return nn.ReLU(inplace=True)(y)
        return torch.cat([torch.zeros_like(y[:, :1]), (y + x)[:, 1:]], 1).relu()

    a, b = (torch.autograd.grad(f(k).square().sum(), x)[0] for k in (True, False))
    torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("grad", [True, False])
def test_jit_trace_records_the_formula(kernel, name, grad):
    layer, x, z = LAYERS[name](), torch.randn(2, 4, 6, 5), torch.randn(3, 4, 6, 5)
    with torch.set_grad_enabled(grad):
        traced = torch.jit.trace(layer, x)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for program in (traced, torch.jit.load(file)):
        torch.testing.assert_close(program(z), layer(z), atol=1e-5, rtol=1e-5)  # other values, another batch
        with pytest.raises(RuntimeError):
            program(torch.randn(6, 4, 3, 5))  # another grid has other weights: loud, not wrong


@pytest.mark.parametrize("mode", ["real", "symbolic"])
@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_make_fx_records_the_formula(kernel, mode, pre_dispatch):
    weight, bias = torch.rand(4), torch.rand(4)
    layer = QuadNorm(4)

    def f(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    with torch.no_grad():
        graph = make_fx(f, tracing_mode=mode, pre_dispatch=pre_dispatch)(torch.randn(2, 4, 6, 5), weight, bias)
    x = torch.randn(2, 4, 6, 5)
    torch.testing.assert_close(graph(x, weight, bias), f(x, weight, bias), atol=1e-5, rtol=1e-5)
    assert not any("quadnorm" in str(node.target) for node in graph.graph.nodes)


def test_symbolic_trace_keeps_a_norm_as_one_node(kernel):
    model = nn.Sequential(nn.Conv2d(2, 4, 1), QuadNorm(4), nn.ReLU(inplace=True), LayerNorm(4))
    graph = torch.fx.symbolic_trace(model)
    assert [n.target for n in graph.graph.nodes if n.op == "call_module"] == ["0", "1", "2", "3"]
    for n in (5, 9):
        x = torch.randn(2, 2, n, n)
        assert torch.equal(graph(x), model(x))
    with pytest.raises(TypeError, match="trace the model that contains it"):
        torch.fx.symbolic_trace(QuadNorm(4))


def test_functionalize_leaves_nothing_behind(kernel):
    x = torch.randn(2, 4, 11, 13)
    for layer in (QuadNorm(4), QuadNorm(4, measure="gauss-legendre"), BlendQuadNorm(4)):
        inside = torch.func.functionalize(layer)(x)
        fresh = QuadNorm(4, measure=layer.measure)
        for later in (layer, fresh):
            torch.testing.assert_close(later(x), inside, atol=1e-5, rtol=1e-5)
            assert not torch._is_functional_tensor(later(x))


def test_inference_mode_leaves_nothing_behind(kernel):
    """Evaluation in inference mode, then a training step at the same size, which no other test has."""
    for batch, make in enumerate(LAYERS.values(), start=11):
        layer, x = make(), torch.randn(batch, 4, 7, 23, requires_grad=True)
        with torch.inference_mode():
            evaluated = layer(x)
        y = layer(x)
        torch.testing.assert_close(y.detach(), evaluated.clone())
        y.square().sum().backward()


def test_many_gradients_at_once(kernel):
    layer = QuadNorm(4, mode="group", num_groups=2, dtype=torch.float64)
    x = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    y = layer(x)
    gs = torch.randn(3, *y.shape, dtype=torch.float64)
    inputs = (x, layer.weight, layer.bias)
    batched = torch.autograd.grad(y, inputs, gs, is_grads_batched=True, retain_graph=True)
    for k in range(3):
        for a, b in zip(batched, torch.autograd.grad(y, inputs, gs[k], retain_graph=True), strict=True):
            torch.testing.assert_close(a[k], b)
    jacobian = torch.autograd.functional.jacobian
    torch.testing.assert_close(jacobian(layer, x, vectorize=True), jacobian(layer, x))
    w = torch.rand(5, dtype=torch.float64)
    torch.testing.assert_close(*(jacobian(lambda w: quad_norm(x, w, 2), w, vectorize=v) for v in (True, False)))


@pytest.mark.parametrize(("shape", "kind"), [((2, 4, 6, 5), "channels_last"), ((2, 4, 3, 4, 5), "channels_last_3d")])
def test_memory_format_is_kept(kernel, shape, kind):
    kind = getattr(torch, kind)
    x = torch.randn(shape).to(memory_format=kind).requires_grad_()
    for layer in (QuadNorm(4), BlendQuadNorm(4), AnchoredNorm(4, 9)):
        y = layer(x)
        assert y.is_contiguous(memory_format=kind)
        y += 1
        (dx,) = torch.autograd.grad(y.sin().sum(), x)
        assert dx.is_contiguous(memory_format=kind)
        torch.testing.assert_close(y - 1, layer(x.detach().contiguous()))
    assert torch.func.vmap(layer)(x.detach()[:, None]).shape == (2, 1, *shape[1:])


@pytest.mark.parametrize("mode", ["layer", "instance"])
def test_extreme_values_give_what_native_gives(kernel, mode):
    """Variances that overflow, a variance of 0 without ε, an infinity: values, not exceptions."""
    groups = 1 if mode == "layer" else 4
    layer = QuadNorm(4, mode=mode, eps=0.0)
    constant = torch.ones(2, 4, 33, 33)
    assert torch.equal(layer(constant).isnan(), F.group_norm(constant, groups, eps=0.0).isnan())
    large = torch.randn(2, 4, 33, 33) * 2e19
    torch.testing.assert_close(layer(large), F.group_norm(large, groups, eps=0.0))  # 1/√∞ = 0
    large.requires_grad_()
    layer(large).sum().backward()
    for far in (1e20, 1e25):  # where the square of the mean is infinite too
        x = ((torch.randn(2, 4, 5, 5) + 1) * far).requires_grad_()
        y = layer(x)
        torch.testing.assert_close(y, F.group_norm(x, groups, eps=0.0))
        y.sum().backward()
        assert x.grad.isfinite().all()
    there = torch.ones(5, 5, dtype=torch.bool).tril(2)
    for far, dtype in ((1e30, torch.float32), (1e160, torch.float64), (1e300, torch.float64)):
        layer = QuadNorm(4, mode=mode, dtype=dtype)
        x = (torch.randn(2, 4, 5, 5, dtype=dtype) + 1) * far
        points, cloud = x.flatten(2).transpose(1, 2).reshape(-1, 4), torch.arange(2).repeat_interleave(25)
        results = {
            "eager": layer(x),
            "traced": torch.func.vmap(lambda v, layer=layer: layer(v[None])[0])(x),
            "mask": layer(x, mask=there),
            "traced mask": torch.func.functionalize(lambda v, layer=layer: layer(v, mask=there))(x),
            "ragged": quad_norm_ragged(points, torch.ones(50), cloud, groups),
        }
        for how, y in results.items():
            assert (y == 0).all(), how
    x = torch.randn(2, 4, 33)
    x[0, 1, 5] = float("inf")
    y = QuadRMSNorm(4, affine=False)(x)
    assert y[0, 1, 5].isnan()
    assert (y[0, 1, :5] == 0).all()
    torch.testing.assert_close(y[1], QuadRMSNorm(4, affine=False)(x[1:])[0])


@pytest.mark.parametrize("measure", ["midpoint", "periodic"])
def test_quadratures_with_equal_weights_are_accurate(kernel, measure):
    """docs/reference/norms.md: a quadrature promises accuracy, counting PyTorch's own result to the last bit."""
    layer, counting = QuadNorm(4, measure=measure), QuadNorm(4, measure="counting")
    nn.init.normal_(layer.bias)
    y = layer(torch.full((1, 4, 64, 64), 60000.0))
    assert torch.equal(y, layer.bias[None, :, None, None].expand_as(y))
    x = torch.randn(2, 4, 40, 40) + 1e5
    layer = QuadNorm(4, measure=measure)
    torch.testing.assert_close(layer(x).double(), reference(x, counting_weights((40, 40))), atol=2e-5, rtol=0)
    for native in (
        counting,
        LayerNorm(4),
        AnchoredNorm(4, 40),
        BlendQuadNorm(4, 1.0),
        BlendQuadNorm(4, 0.3, measure="counting"),
    ):
        assert torch.equal(native(x), F.group_norm(x, 1, native.weight, native.bias))


@pytest.mark.filterwarnings("ignore")  # inductor's and the C++ compiler's own
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_norms_are_as_accurate_as_eager_ones(backend):
    torch._dynamo.reset()
    layer = torch.compile(QuadNorm(1, mode="instance"), fullgraph=True, backend=backend)
    n = 513
    outlier, offset = torch.randn(1, 1, n, n), torch.randn(1, 1, n, n) + 1e4
    at = int(Grid("trapezoid").weights((n, n)).argmax())
    outlier.view(-1)[at] = 1e5
    offset.view(-1)[at] = 0
    for x in (outlier, offset, offset + 1e5):
        want = reference(x, trapezoid_weights((n, n)), 1)
        torch.testing.assert_close(layer(x).double(), want, atol=2e-5, rtol=5e-6)
        torch.testing.assert_close(
            torch.vmap(QuadNorm(1, mode="instance"))(x[None])[0].double(), want, atol=5e-5, rtol=1e-5
        )


def test_explicit_measures_are_not_kept_alive():
    import gc
    import weakref

    from quadnorm.measures._cache import CACHE

    x, alive = torch.randn(1, 2, 50), []
    for k in range(5):
        w = torch.ones(50)
        w[k] = 0
        measure = Weights(w)
        alive.append(weakref.ref(measure))
        assert leaves_samples_out(measure, (50,))
        QuadNorm(2, measure=measure)(x)
        quad_norm(x, measure)
        del measure
    CACHE.clear()  # bounded by bytes; its own business
    gc.collect()
    assert [r() for r in alive] == [None] * 5
