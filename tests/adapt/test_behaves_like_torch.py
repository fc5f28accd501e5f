"""Anchored models pickle, compile, export, train and save as the model did."""

import pickle
import subprocess
import sys
import warnings

import pytest
import torch
import torch.multiprocessing
from torch import nn

from quadnorm.adapt import CannotFollowError, SpatialMean, anchor, convert, extend
from quadnorm.measures import Anchored
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer
from tests.adapt.small_models import small


def test_state_dict_is_the_models():
    from safetensors.torch import load, save

    model = small()
    fixed = anchor(model, 17, "endpoint")
    assert list(fixed.state_dict()) == list(model.state_dict())
    again = anchor(small(), 17, "endpoint")
    again.load_state_dict(load(save(fixed.state_dict())))
    x = torch.randn(1, 1, 33, 33)
    assert torch.equal(again(x), fixed(x))


def test_pickle_in_a_process_that_knows_only_quadnorm(tmp_path):
    models = [
        anchor(small(), 17, "endpoint"),
        anchor(FNO(width=4, modes=3, layers=1), 17, force=True),
        convert(small(), "quad")[0],
        anchor(GalerkinTransformer(width=8, heads=2, layers=1, norm="blend"), 17),
        anchor(nn.Sequential(nn.Conv2d(1, 2, 1), nn.RMSNorm((2, 17, 17)), nn.LayerNorm((17, 17))), 17, "endpoint"),
        anchor(nn.Sequential(nn.Flatten(2), nn.Unflatten(1, (1,)), nn.GroupNorm(1, 1)), (17, 17), "endpoint"),
    ]
    x = torch.randn(1, 1, 33, 33)
    (tmp_path / "models.pkl").write_bytes(pickle.dumps((models, x)))
    code = (
        "import pickle, torch, sys, quadnorm\n"
        "models, x = pickle.load(open(sys.argv[1] + '/models.pkl', 'rb'))\n"
        "torch.save([m(x).detach() for m in models], sys.argv[1] + '/out.pt')\n"
        "print(models[0].anchor_report.title)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "2 sums anchored" in run.stdout
    for model, y in zip(models, torch.load(tmp_path / "out.pt"), strict=True):
        assert torch.allclose(model(x), y, atol=1e-6)


def swapped():
    """PyTorch's norms, swapped for ours with the training grid's measure: one program for all resolutions."""
    norms = nn.Sequential(nn.Conv2d(1, 4, 1), nn.LayerNorm((4, 17, 17)), nn.Tanh(), *small()[1:])
    model = convert(norms, "quad", measure=Anchored((17, 17)))[0]
    x = torch.randn(1, 1, 33, 33)
    assert torch.allclose(model(x), anchor(norms, 17, "endpoint", force=True)(x), atol=1e-5)
    return model


def of_ours():
    """A blend, a quadrature norm, an RMS norm: three kinds of measure after anchoring."""
    norms = (make_norm(name, 4) for name in ("blend", "quad:instance", "rms"))
    return anchor(nn.Sequential(nn.Conv2d(1, 4, 1), *norms, SpatialMean()), 17, "endpoint")


@pytest.mark.parametrize("make", [swapped, pytest.param(of_ours, marks=pytest.mark.slow)])
def test_compiled_and_exported_models_serve_all_resolutions(make):
    fixed = make().eval()
    n = torch.export.Dim("n", min=8, max=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.export.export(fixed, (torch.randn(2, 1, 21, 21),), dynamic_shapes=({2: n, 3: n},))
        torch._dynamo.reset()
        compiled = torch.compile(fixed, backend="aot_eager", dynamic=True, fullgraph=True)
    for size in (17, 33, 50):
        x = torch.randn(2, 1, size, size)
        with torch.no_grad():
            assert torch.allclose(program.module()(x), fixed(x), atol=1e-5)
            assert torch.allclose(compiled(x), fixed(x), atol=1e-5)


def test_gradients_reach_parameters_and_input():
    fixed = anchor(small().double(), 9, "endpoint")
    x = torch.randn(2, 1, 13, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fixed, x, fast_mode=True)
    fixed(x).sum().backward()
    assert all(p.grad is not None for p in fixed.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_and_wrapped_models():
    scripted = torch.jit.script(nn.GroupNorm(1, 4))
    with pytest.raises(TypeError, match="cannot anchor a scripted model"):
        anchor(scripted, (9, 9), "endpoint")
    with pytest.raises(CannotFollowError, match="0 is scripted, and TorchScript shows nothing of what it calls"):
        anchor(nn.Sequential(scripted, nn.GroupNorm(1, 4)), (9, 9), "endpoint")
    with pytest.raises(TypeError, match=r"model\._orig_mod"):
        anchor(torch.compile(small()), 17, "endpoint")
    with pytest.raises(TypeError, match=r"needs an nn\.Module"):
        anchor(torch.sin, 17, "endpoint")


def _half(rank, folder):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = DistributedDataParallel(anchor(small(), 17, "endpoint"))
    torch.manual_seed(1)
    x = torch.randn(4, 1, 33, 33)
    model(x[2 * rank : 2 * rank + 2]).square().mean().backward()
    torch.save([p.grad for p in model.parameters()], f"{folder}/gradients{rank}.pt")
    del model  # before its group: a group that the other process has left may never answer
    dist.barrier()
    dist.destroy_process_group()


def test_data_parallel_training_of_an_anchored_model(tmp_path):
    """Two processes with half of the batch each have the gradients of one with all of it."""
    torch.multiprocessing.spawn(_half, (str(tmp_path),), nprocs=2)
    whole = anchor(small(), 17, "endpoint")
    torch.manual_seed(1)
    whole(torch.randn(4, 1, 33, 33)).square().mean().backward()
    for rank in (0, 1):
        for got, p in zip(torch.load(tmp_path / f"gradients{rank}.pt"), whole.parameters(), strict=True):
            assert torch.allclose(got, p.grad, atol=1e-6)


def test_symbolic_trace_keeps_anchored_modules_as_nodes():
    fixed = anchor(
        nn.Sequential(*(make_norm(name, 1) for name in ("layer", "blend", "rms")), SpatialMean()), (9, 9), "endpoint"
    )
    graph = torch.fx.symbolic_trace(fixed)
    for n in (9, 17):
        x = torch.randn(2, 1, n, n)
        assert torch.equal(graph(x), fixed(x))


@pytest.mark.parametrize("make", [small, lambda: FNO(width=4, modes=3, layers=1)])
def test_a_default_device_does_not_leak_in(make):
    """Models, their parameters and the probes that they are examined with stay on the model's device."""
    model, x = make(), torch.randn(1, 1, 17, 17)
    want = anchor(model, 9, "endpoint")(x), extend(model, 9, "endpoint")(x), convert(model, "blend")[0](x)
    with torch.device("meta"):
        got = anchor(model, 9, "endpoint")(x), extend(model, 9, "endpoint")(x), convert(model, "blend")[0](x)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
