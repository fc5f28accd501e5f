"""Operators under PyTorch's tools: compile, export, autocast, checkpoints, several processes."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from quadnorm import Anchored
from tests.operators.small_models import MODELS, OWN_WARNINGS, build


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def trained_alike(model, other, sizes=(8, 11)):
    """Both take the same training steps at several resolutions and stay equal."""
    generator = torch.Generator().manual_seed(1)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, other)]
    for n in sizes:
        x, y = (torch.randn(2, 1, n, n, generator=generator) for _ in range(2))
        a, b = (step(m, o, x, y) for m, o in zip((model, other), optimizers, strict=True))
        assert a == pytest.approx(b, rel=1e-5)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


@OWN_WARNINGS
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fno", {}),
        pytest.param("hermitian", {"norm": "anchored:8", "measure": Anchored(8)}, marks=pytest.mark.slow),
        ("galerkin", {"norm": "anchored:8", "measure": Anchored(8)}),
        ("transolver", {"norm": "quad", "measure": "trapezoid"}),
    ],
)
def test_one_graph_for_training_on_all_square_grids(name, options):
    """One trace without breaks serves every resolution, forward and backward.

    Without code generation, which takes most of the time and tests nothing of ours. Counting asks what the measure is
    inside of the trace; anchoring must not ask for the size. Not the training grid first: its size must not be compiled
    in.
    """
    model = build(name, **options)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        trained_alike(compiled, copy.deepcopy(model), sizes=(9, 8, 17))


@OWN_WARNINGS
@pytest.mark.parametrize("name", ["fno", "galerkin", "transolver"])
def test_export_with_free_resolution(name):
    model = build(name, norm="quad", measure="trapezoid").eval()
    free = {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    program = torch.export.export(model, (torch.randn(2, 1, 9, 10),), dynamic_shapes=(free,))
    for shape in ((2, 1, 9, 10), (3, 1, 13, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)


@OWN_WARNINGS
@pytest.mark.parametrize(
    ("name", "options"), [("fno", {"norm": "anchored:8", "measure": Anchored(8)}), ("galerkin", {}), ("transolver", {})]
)
def test_export_with_one_size_for_both_axes(name, options):
    model = build(name, **options).eval()
    n = torch.export.Dim("n", min=6, max=500)
    program = torch.export.export(model, (torch.randn(2, 1, 9, 9),), dynamic_shapes=({2: n, 3: n},))
    for size in (8, 9, 33):
        x = torch.randn(2, 1, size, size)
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)


@OWN_WARNINGS
@pytest.mark.parametrize(("mode", "pre_dispatch"), [("real", True), ("symbolic", False)])
@pytest.mark.parametrize("name", ["fno", "hermitian", "transolver"])
def test_make_fx_records_plain_operations(name, mode, pre_dispatch):
    """Nothing is written into a tensor that the recorder does not see, and sizes may be symbols."""
    model = build(name, norm="quad", measure="trapezoid").eval()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def f(x, state):
        return torch.func.functional_call(model, state, (x,))

    with torch.no_grad():
        graph = make_fx(f, tracing_mode=mode, pre_dispatch=pre_dispatch)(torch.randn(2, 1, 9, 10), state)
    assert not any("out" in node.kwargs for node in graph.graph.nodes)
    x = torch.randn(2, 1, 9, 10)
    torch.testing.assert_close(graph(x, state), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_safetensors_round_trip(name, tmp_path):
    """Complex numbers included; nothing in the file depends on the resolution that the model has seen."""
    from safetensors.torch import load_model, save_model

    model, other = build(name), MODELS[name]()
    x = torch.randn(1, 1, 9, 9)
    before = {k: v.shape for k, v in model.state_dict().items()}
    y = model(x)
    assert {k: v.shape for k, v in model.state_dict().items()} == before
    assert {k for k, _ in model.named_parameters()} == set(before)
    save_model(model, str(tmp_path / "model.safetensors"))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert torch.equal(other(x), y)
    model.measure = "trapezoid"
    other.load_state_dict(model.state_dict())  # measures are no part of the state


@pytest.mark.parametrize("name", MODELS)
def test_bf16_autocast(name):
    """Matrix products in half precision, Fourier sums and statistics not; within half precision of the full result."""
    model = build(name)
    x = torch.randn(2, 1, 16, 16)
    full = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(x)
        half.float().square().mean().backward()
    assert (half.float() - full).norm() < 0.03 * full.norm()
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in model.parameters())
    assert all(
        torch.isfinite(torch.view_as_real(p.grad) if p.is_complex() else p.grad).all() for p in model.parameters()
    )


def test_half_precision_input_keeps_its_type():
    layer = build("fno").blocks[0].spectral
    x = torch.randn(1, 4, 8, 8)
    y = layer(x.bfloat16())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x.bfloat16().float()), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_activation_checkpointing(name):
    model = build(name)
    x = torch.randn(2, 1, 8, 8, requires_grad=True)
    (a,) = torch.autograd.grad(model(x).square().sum(), x)
    (b,) = torch.autograd.grad(checkpoint(model, x, use_reentrant=False).square().sum(), x)
    torch.testing.assert_close(a, b)


def test_training_resumes_from_a_checkpoint(tmp_path):
    """Model and optimizer state, complex moments included, written and read without pickled code."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    model = build("fno")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step(model, optimizer, x, y)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "c.pt")
    resumed = MODELS["fno"]()
    again = torch.optim.AdamW(resumed.parameters(), lr=1e-2)
    saved = torch.load(tmp_path / "c.pt", weights_only=True)
    resumed.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    assert step(model, optimizer, x, y) == step(resumed, again, x, y)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), resumed.parameters(), strict=True))


def _one_of_two(rank, address, reference):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    try:
        model = build("fno")
        both = torch.nn.parallel.DistributedDataParallel(model)
        x, y = (torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
        mine = slice(2 * rank, 2 * rank + 2)
        (both(x[mine]) - y[mine]).square().mean().backward()
        for p, q in zip(model.parameters(), torch.load(reference, weights_only=True), strict=True):
            torch.testing.assert_close(p.grad, q, rtol=1e-4, atol=1e-6)
        del both  # before its group: a group that the other process has left may never answer
        dist.barrier()
    finally:
        dist.destroy_process_group()


@OWN_WARNINGS
def test_two_processes_average_complex_gradients(tmp_path):
    model = build("fno")
    x, y = (torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    (model(x) - y).square().mean().backward()
    torch.save([p.grad for p in model.parameters()], tmp_path / "gradients.pt")
    mp.spawn(_one_of_two, (f"file://{tmp_path}/meeting", str(tmp_path / "gradients.pt")), nprocs=2)
