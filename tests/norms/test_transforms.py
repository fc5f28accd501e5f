"""torch.compile, torch.export, ONNX, vmap, functional transforms, data parallelism."""

import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from quadnorm.measures import Weights
from quadnorm.norms import AnchoredNorm, BlendQuadNorm, QuadNorm, QuadRMSNorm, quad_norm
from tests.norms.reference import counting_weights, reference, trapezoid_weights

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


# Weights without a closed form; torch 2.6 compiles as it exports, and holds them for one size only.
OPAQUE = ("boole", "simpson") if hasattr(torch.compiler, "is_exporting") else ("left", "interior")


class Tower(nn.Module):
    """One layer of each kind in a row, so that one compilation serves them all."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(
            [
                QuadNorm(4),
                QuadNorm(4, mode="instance", measure="midpoint"),
                QuadNorm(4, mode="group", num_groups=2, measure=OPAQUE[0]),
                QuadNorm(4, mode="group", num_groups=2, measure=OPAQUE[1]),
                BlendQuadNorm(4),
                BlendQuadNorm(4, learn_alpha=True),
                AnchoredNorm(4, 9),
            ]
        )

    def forward(self, x):
        for norm in self.norms:
            x = norm(torch.sin(x))
        return x


def test_compile_without_breaks_or_recompilations():
    torch._dynamo.reset()
    tower = Tower().double()
    frames = []

    def backend(graph, inputs):
        frames.append(graph)
        return graph

    compiled = torch.compile(tower, fullgraph=True, backend=backend)
    for n, m in [(8, 10), (9, 9), (33, 17)]:
        x = torch.randn(2, 4, n, m, dtype=torch.float64, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        compiled(x).cos().sum().backward()
        tower(z).cos().sum().backward()
        torch.testing.assert_close(compiled(x), tower(z))
        torch.testing.assert_close(x.grad, z.grad)
    assert len(frames) <= 2  # the first size, then any size


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # inductor's and the C++ compiler's own
def test_compile_with_inductor():
    """The default compiler, forward and backward, with weights given at call time and a masked sample of NaN."""
    torch._dynamo.reset()
    layer = QuadNorm(4)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for n in (9, 12):
        x, w = torch.randn(2, 4, n, 5), torch.rand(2, n, 5)
        x[1, :, 2, 2], w[1, 2, 2] = float("nan"), 0
        y = compiled(x.requires_grad_(), weights=w)
        torch.testing.assert_close(y, layer(x, weights=w), atol=1e-5, rtol=1e-5)
        g = torch.randn_like(x)
        (a,), (b,) = torch.autograd.grad(y, x, g), torch.autograd.grad(layer(x, weights=w), x, g)
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    constant = compiled(torch.full((2, 4, 9, 5), 3.3), weights=torch.rand(2, 9, 5))
    assert torch.equal(constant, torch.zeros(2, 4, 9, 5))
    nothing = compiled(torch.randn(2, 4, 9, 5), weights=torch.zeros(2, 9, 5))
    assert torch.isfinite(nothing).all()  # cannot be checked in a trace: finite, without meaning


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the exporters'
def test_export_and_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    tower = nn.Sequential(QuadNorm(4), BlendQuadNorm(4), QuadNorm(4, mode="instance")).eval()
    n, m = (torch.export.Dim(k, min=4, max=1000) for k in ("n", "m"))
    program = torch.export.export(tower, (torch.randn(2, 4, 9, 7),), dynamic_shapes=({2: n, 3: m},))
    file = str(tmp_path / "norms.onnx")
    torch.onnx.export(
        tower, (torch.randn(2, 4, 9, 7),), file, dynamo=True, dynamic_shapes=({2: n, 3: m},), verbose=False
    )
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for shape in [(2, 4, 9, 7), (2, 4, 17, 12)]:
        x = torch.randn(shape)
        want = tower(x).detach()
        torch.testing.assert_close(program.module()(x).detach(), want, atol=1e-5, rtol=1e-5)
        (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(got, want.numpy(), atol=1e-5)


RULES = ["simpson", "boole", "gauss-legendre", "gauss-lobatto", "clenshaw-curtis", "left", "midpoint", "periodic"]


def all_rules():
    norms = [QuadNorm(4, mode="instance", measure=rule) for rule in RULES]
    norms += [BlendQuadNorm(4, measure="simpson"), QuadNorm(4, measure=Weights(torch.rand(9, 8)))]
    norms += [QuadNorm(4, measure="boole", layout="first"), QuadRMSNorm(4, measure="simpson"), AnchoredNorm(4, (9, 5))]
    return nn.Sequential(*norms).eval()


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_rule_exports_as_plain_operations(strict):
    """All rules in one program: numbers where a rule has no closed form."""
    tower, x = all_rules(), torch.randn(2, 4, 9, 8)
    program = torch.export.export(tower, (x,), strict=strict)
    assert not any("quadnorm" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x).detach(), tower(x).detach(), atol=2e-5, rtol=1e-5)
    sizes = {2: torch.export.Dim("n", min=4, max=100)}
    with pytest.raises(ValueError, match="no closed form"):
        torch.export.export(QuadNorm(4, measure="simpson"), (x,), dynamic_shapes=(sizes,), strict=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the exporters'
def test_every_rule_in_onnxruntime(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    tower, x = all_rules(), torch.randn(2, 4, 9, 8)
    file = str(tmp_path / "rules.onnx")
    torch.onnx.export(tower, (x,), file, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    z = torch.randn(2, 4, 9, 8)
    (got,) = session.run(None, {session.get_inputs()[0].name: z.numpy()})
    np.testing.assert_allclose(got, tower(z).detach().numpy(), atol=2e-5)


@pytest.mark.filterwarnings("ignore")  # the exporter's
def test_the_older_onnx_exporter(tmp_path):
    """It traces, so the graph is for one grid; any batch."""
    onnxruntime = pytest.importorskip("onnxruntime")
    layer, file = QuadNorm(4), str(tmp_path / "traced.onnx")
    torch.onnx.export(layer, (torch.randn(2, 4, 9, 8),), file, dynamo=False, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    x = torch.randn(2, 4, 9, 8)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(got, layer(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_vmap(kernel, groups):
    x, w, gamma = torch.randn(3, 2, 4, 5), torch.rand(3, 5), torch.randn(3, 4)
    loop = torch.stack([quad_norm(x[i], w[i], groups, gamma[i]) for i in range(3)])
    torch.testing.assert_close(torch.vmap(lambda x, w, g: quad_norm(x, w, groups, g))(x, w, gamma), loop)
    shared = torch.vmap(lambda x: quad_norm(x, w[0], groups, gamma[0]), in_dims=1, out_dims=1)
    torch.testing.assert_close(
        shared(x.transpose(0, 1)).transpose(0, 1),
        torch.stack([quad_norm(x[i], w[0], groups, gamma[0]) for i in range(3)]),
    )
    over_weights = torch.vmap(lambda w: quad_norm(x[0], w, groups))(w)
    torch.testing.assert_close(over_weights, torch.stack([quad_norm(x[0], w[i], groups) for i in range(3)]))


def test_per_sample_gradients(kernel):
    layer = QuadNorm(4)
    parameters = dict(layer.named_parameters())
    x = torch.randn(5, 1, 4, 6)

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).sin().sum()

    batched = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(5):
        single = torch.func.grad(loss)(parameters, x[i])
        torch.testing.assert_close(batched["weight"][i], single["weight"])
        torch.testing.assert_close(batched["bias"][i], single["bias"])
    dx = torch.vmap(torch.func.grad(loss, argnums=1), in_dims=(None, 0))(parameters, x)
    torch.testing.assert_close(dx[2], torch.func.grad(loss, argnums=1)(parameters, x[2]))


def test_jvp_and_hessian(kernel):
    x, v = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)
    layer = QuadNorm(4, dtype=torch.float64)
    _, tangent = torch.func.jvp(layer, (x,), (v,))
    h = 1e-6
    torch.testing.assert_close(tangent, (layer(x + h * v) - layer(x - h * v)) / (2 * h), atol=1e-7, rtol=1e-6)
    hessian = torch.func.hessian(lambda x: layer(x).sin().sum())(x)
    torch.testing.assert_close(hessian.reshape(40, 40), hessian.reshape(40, 40).T, atol=1e-10, rtol=0)


def _train(rank, port, result):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), QUADNORM_KERNEL="torch")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(QuadNorm(3))
    x = torch.randn(4, 3, 9, generator=torch.Generator().manual_seed(1))
    net(x[rank::2]).sin().mean().backward()
    if rank == 0:
        torch.save({k: p.grad for k, p in net.module.named_parameters()}, result)
    del net  # before its group: a group that the other process has left may never answer
    dist.barrier()
    dist.destroy_process_group()


def test_data_parallel(tmp_path):
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(_train, (port, str(tmp_path / "grads.pt")), nprocs=2)
    layer = QuadNorm(3)
    x = torch.randn(4, 3, 9, generator=torch.Generator().manual_seed(1))
    layer(x).sin().mean().backward()
    got = torch.load(tmp_path / "grads.pt", weights_only=True)
    torch.testing.assert_close(got["weight"], layer.weight.grad)
    torch.testing.assert_close(got["bias"], layer.bias.grad)


def test_compiled_values_are_right_in_themselves():
    """Not only equal to eager: against the slow reference, at a size that was not the first."""
    torch._dynamo.reset()
    compiled = torch.compile(QuadNorm(3), fullgraph=True, backend="eager")
    anchored = torch.compile(AnchoredNorm(3, 9), fullgraph=True, backend="eager")
    for n in (6, 8, 9):
        x = torch.randn(2, 3, n)
        torch.testing.assert_close(compiled(x).double(), reference(x, trapezoid_weights((n,))), atol=1e-5, rtol=0)
    torch.testing.assert_close(anchored(x).double(), reference(x, counting_weights((9,))), atol=1e-5, rtol=0)
    far = torch.randn(2, 3, 9) + 1e5  # a mean of 10⁵ standard deviations
    torch.testing.assert_close(compiled(far).double(), reference(far, trapezoid_weights((9,))), atol=1e-4, rtol=0)
