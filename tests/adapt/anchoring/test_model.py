"""What anchoring keeps of a model, and what it says when it cannot."""

import pickle
import subprocess
import sys
import warnings

import pytest
import torch
import torch.multiprocessing
from torch import nn

from quadnorm import Grid
from quadnorm.adapt import Place, SpatialMean, anchor, register_anchor
from quadnorm.adapt.anchoring.registry import RULES
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver


class Transpose(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4), nn.GELU(), nn.InstanceNorm2d(4), nn.Conv2d(4, 1, 1))


def test_a_model_is_untouched_whether_anchoring_works_or_not():
    model = FNO(width=4, modes=3, layers=1)
    before = {n: type(m) for n, m in model.named_modules()}, {k: v.clone() for k, v in model.state_dict().items()}
    anchor(model, 17, share=True)
    with pytest.raises(ValueError, match="check the resolution"):
        anchor(model, 33, example=torch.randn(1, 1, 17, 17))
    assert {n: type(m) for n, m in model.named_modules()} == before[0]
    assert all(torch.equal(v, before[1][k]) for k, v in model.state_dict().items())
    assert all(m.measure == Grid("counting") for m in model.modules() if hasattr(m, "measure"))


@pytest.mark.parametrize("kind", [FNO, GalerkinTransformer, Transolver])
def test_single_precision_at_the_training_grid(kind):
    torch.manual_seed(0)
    model = kind(norm="layer")
    x = torch.randn(2, 1, 33, 33)
    with torch.no_grad():
        y, z = model(x), anchor(model, 33)(x)
    assert (y - z).norm() <= 1e-5 * y.norm()


def test_shared_modules_stay_shared():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = nn.GroupNorm(1, 3)
            self.means = nn.ModuleList([m := Mean(), m])

        def forward(self, x):
            return self.b(self.a(x).square()) + self.means[0](x) + self.means[1](x)

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3), keepdim=True)

    fixed = anchor(Twice(), (9, 9), example=torch.randn(1, 3, 9, 9))
    assert fixed.a is fixed.b
    assert fixed.means[0] is fixed.means[1]
    assert "the same module as b" in fixed.anchor_report["a"].why
    assert type(fixed.means[0]).__name__ == "SpatialMean"


def test_a_module_on_two_grids_is_left_with_words():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.other = nn.GroupNorm(1, 3), nn.GroupNorm(1, 3)

        def forward(self, x):
            return self.norm(x).mean() + self.norm(x[..., ::2, ::2]).mean() + self.other(x).mean()

    report = anchor(Two(), (9, 9), force=True).anchor_report  # a mean of zero mean drifts by rounding alone
    assert "several grids in one run (5×5 and 9×9)" in report["norm"].why
    assert report["other"].action == "anchored"


def test_hooks_mode_dtype_and_parameters_are_kept():
    model = small().double().train()
    calls = []
    model[1].register_forward_hook(lambda *_: calls.append("norm"))
    model[3].eval()
    fixed = anchor(model, 17)
    calls.clear()
    fixed(torch.randn(1, 1, 33, 33, dtype=torch.float64))
    assert calls == ["norm"]
    assert [m.training for m in fixed] == [True, True, True, False, True]
    assert all(p.dtype == torch.float64 for p in fixed.parameters())
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), fixed.parameters(), strict=True))
    assert all(p is not q for p, q in zip(model.parameters(), fixed.parameters(), strict=True))
    shared = anchor(model, 17, share=True)
    assert all(p is q for p, q in zip(model.parameters(), shared.parameters(), strict=True))
    assert type(model[1]) is nn.GroupNorm


def test_buffers_and_random_state_are_untouched():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Dropout(), nn.GroupNorm(1, 4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    fixed = anchor(model, 9)
    assert torch.equal(torch.rand(4), expected)
    assert all(torch.equal(v, before[k]) for k, v in fixed.state_dict().items())
    assert fixed.training


def test_state_dict_is_the_models():
    from safetensors.torch import load, save

    model = small()
    fixed = anchor(model, 17)
    assert list(fixed.state_dict()) == list(model.state_dict())
    again = anchor(small(), 17)
    again.load_state_dict(load(save(fixed.state_dict())))
    x = torch.randn(1, 1, 33, 33)
    assert torch.equal(again(x), fixed(x))


def test_pickle_in_a_process_that_knows_only_quadnorm(tmp_path):
    from quadnorm.adapt import convert

    models = [
        anchor(small(), 17),
        anchor(FNO(width=4, modes=3, layers=1), 17, force=True),
        convert(small(), "quad")[0],
        anchor(GalerkinTransformer(width=8, heads=2, layers=1, norm="blend"), 17),
        anchor(nn.Sequential(nn.Conv2d(1, 2, 1), nn.RMSNorm((2, 17, 17)), nn.LayerNorm((17, 17))), 17),
        anchor(nn.Sequential(nn.Flatten(2), nn.Unflatten(1, (1,)), nn.GroupNorm(1, 1)), (17, 17)),
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


def over_the_grid():
    return nn.Sequential(nn.Conv2d(1, 4, 1), nn.LayerNorm((4, 17, 17)), nn.Tanh(), nn.RMSNorm((4, 17, 17)))


def of_ours():
    """A blend, a quadrature norm, an RMS norm: three kinds of measure after anchoring."""
    norms = (make_norm(name, 4) for name in ("blend", "quad:instance", "rms"))
    return nn.Sequential(nn.Conv2d(1, 4, 1), *norms, SpatialMean())


@pytest.mark.parametrize("make", [small, *(pytest.param(m, marks=pytest.mark.slow) for m in (over_the_grid, of_ours))])
def test_compiled_and_exported_models_serve_all_resolutions(make):
    fixed = anchor(make(), 17).eval()
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


def test_samples_in_a_row_are_compiled_for_each_size():
    """The grid follows from the number of samples, which a trace must then know."""
    attention = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.Flatten(2), Transpose(), attention).eval()
    fixed = anchor(model, 9)
    torch._dynamo.reset()
    compiled = torch.compile(fixed, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for n in (9, 17, 33):
            x = torch.randn(1, 1, n, n)
            assert torch.allclose(compiled(x), fixed(x), atol=1e-5)


def test_gradients_reach_parameters_and_input():
    fixed = anchor(small().double(), 9)
    x = torch.randn(2, 1, 13, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fixed, x, fast_mode=True)
    fixed(x).sum().backward()
    assert all(p.grad is not None for p in fixed.parameters())


def test_users_modules():
    class Energy(nn.Module):
        measure = None

        def forward(self, x):
            w = None if self.measure is None else self.measure.weights(x.shape[2:])
            return x.square().mean((2, 3)) if w is None else (x.square() * w).sum((2, 3))

    def rule(module, place):
        assert isinstance(place, Place)
        assert place.shapes == ((1, 2, 9, 9),)
        module.measure = place.measure
        return module

    register_anchor(Energy, rule)
    try:
        model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.GELU(), Energy()).double()
        fixed = anchor(model, (9, 9))
        x = torch.randn(1, 1, 9, 9, dtype=torch.float64)
        assert torch.allclose(fixed(x), model(x), atol=1e-14)
        register_anchor(Energy, lambda module, place: "it is mine")
        with pytest.raises(ValueError, match="it is mine"):
            anchor(model, (9, 9))
        register_anchor(Energy, lambda module, place: nn.Flatten(2))
        with pytest.raises((RuntimeError, ValueError)):
            anchor(model, (9, 9))
        register_anchor(Energy, lambda module, place: 3)
        with pytest.raises(TypeError, match="returned 3"):
            anchor(model, (9, 9))
    finally:
        RULES.pop(Energy)
    with pytest.raises(TypeError, match="class of modules"):
        register_anchor(3, rule)


def test_subclasses_with_a_forward_of_their_own_are_not_presumed():
    class Mine(nn.GroupNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    class Renamed(nn.GroupNorm):
        pass

    report = anchor(nn.Sequential(Mine(1, 3), Renamed(1, 3)), (9, 9)).anchor_report
    assert (report["0"].kind, report["0"].action) == (
        "call group_norm",
        "anchored",
    )  # by what it calls, not by its class
    assert report["1"].action == "anchored"


def test_wrong_resolutions():
    model = small()
    for bad in (0, -3, 2.5, True, (), (17, 0)):
        with pytest.raises(ValueError, match="samples per axis"):
            anchor(model, bad)
    with pytest.raises(ValueError, match="got shapes \\(1, 1, 17, 17\\); check the resolution"):
        anchor(model, 33, example=torch.randn(1, 1, 17, 17))
    with pytest.raises(ValueError, match="one number per axis, as in \\(33, 33\\)"):
        anchor(nn.Sequential(nn.Linear(2, 3), nn.GroupNorm(1, 3)), 33)
    with pytest.raises(ValueError, match="did you mean 'endpoint'"):
        anchor(model, 17, "endpoints")


def test_models_without_spatial_sums():
    with pytest.raises(ValueError, match="found no spatial sum"):
        anchor(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GELU()), 17)
    with pytest.raises(ValueError, match="kernel of 3×3 samples"):
        anchor(nn.Conv2d(1, 4, 3), 17)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_and_wrapped_models():
    scripted = torch.jit.script(nn.GroupNorm(1, 4))
    with pytest.raises(TypeError, match="cannot anchor a scripted model"):
        anchor(scripted, (9, 9))
    report = anchor(nn.Sequential(scripted, nn.GroupNorm(1, 4)), (9, 9)).anchor_report
    assert "scripted" in report["0"].why
    with pytest.raises(TypeError, match=r"model\._orig_mod"):
        anchor(torch.compile(small()), 17)
    with pytest.raises(TypeError, match=r"needs an nn\.Module"):
        anchor(torch.sin, 17)


def test_models_that_hold_a_graph_cannot_be_copied():
    model = small()
    model.cache = model(torch.randn(1, 1, 17, 17))
    with pytest.raises(TypeError, match="detach them"):
        anchor(model, 17)


def test_without_an_input_there_is_nothing_to_compare_with():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(1, 3)

        def forward(self, fields):
            return self.norm(fields["u"])

    with pytest.raises(ValueError, match="pass example="):
        anchor(Odd(), (9, 9))
    example = ({"u": torch.randn(1, 3, 9, 9)},)
    assert "equal to" in anchor(Odd(), (9, 9), example=example).anchor_report.notes[0]


def _half(rank, folder):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = DistributedDataParallel(anchor(small(), 17))
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
    whole = anchor(small(), 17)
    torch.manual_seed(1)
    whole(torch.randn(4, 1, 33, 33)).square().mean().backward()
    for rank in (0, 1):
        for got, p in zip(torch.load(tmp_path / f"gradients{rank}.pt"), whole.parameters(), strict=True):
            assert torch.allclose(got, p.grad, atol=1e-6)
