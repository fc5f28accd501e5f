"""What anchoring keeps of a model, and what it says when it cannot."""

import pytest
import torch
import torch.multiprocessing
from torch import nn

from quadnorm import Grid
from quadnorm.adapt import Place, anchor, register_anchor
from quadnorm.adapt.modules import REGISTERED
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from tests.adapt.small_models import small


def test_a_model_is_untouched_whether_anchoring_works_or_not():
    model = FNO(width=4, modes=3, layers=1)
    before = {n: type(m) for n, m in model.named_modules()}, {k: v.clone() for k, v in model.state_dict().items()}
    anchor(model, 17, "endpoint", share=True)
    with pytest.raises(ValueError, match="check the resolution"):
        anchor(model, 33, "endpoint", example=torch.randn(1, 1, 17, 17))
    assert {n: type(m) for n, m in model.named_modules()} == before[0]
    assert all(torch.equal(v, before[1][k]) for k, v in model.state_dict().items())
    assert all(m.measure == Grid("counting") for m in model.modules() if hasattr(m, "measure"))


@pytest.mark.parametrize("kind", [FNO, GalerkinTransformer, Transolver])
def test_single_precision_at_the_training_grid(kind):
    torch.manual_seed(0)
    model = kind(norm="layer")
    x = torch.randn(2, 1, 33, 33)
    with torch.no_grad():
        y, z = model(x), anchor(model, 33, "endpoint")(x)
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

    fixed = anchor(Twice(), (9, 9), "endpoint", example=torch.randn(1, 3, 9, 9))
    assert fixed.model.a is fixed.model.b
    assert fixed.model.means[0] is fixed.model.means[1]
    assert "the same module as b" in fixed.anchor_report["a"].why


def test_a_module_on_two_grids_is_anchored_on_both():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.other = nn.GroupNorm(1, 3), nn.GroupNorm(1, 3)

        def forward(self, x):
            return self.norm(x).mean() + self.norm(x[..., ::2, ::2]).mean() + self.other(x).mean()

    report = anchor(Two(), (9, 9), "endpoint", force=True).anchor_report  # a mean of zero mean drifts by rounding alone
    assert {(e.name, e.why) for e in report if e.call == "group_norm"} == {
        ("norm", "counting → anchored"),
        ("norm", "counting → anchored; sees 5×5 samples in training"),
        ("other", "counting → anchored"),
    }


def test_a_module_of_ours_on_two_grids_is_left_with_words():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.other = make_norm("layer", 3), nn.GroupNorm(1, 3)

        def forward(self, x):
            return self.norm(x).mean() + self.norm(x[..., ::2, ::2]).mean() + self.other(x).mean()

    report = anchor(Two(), (9, 9), "endpoint", force=True).anchor_report
    assert "several grids in one run (5×5 and 9×9)" in report["norm"].why
    assert report["other"].action == "anchored"


def test_hooks_mode_dtype_and_parameters_are_kept():
    model = small().double().train()
    calls = []
    model[1].register_forward_hook(lambda *_: calls.append("norm"))
    model[3].eval()
    fixed = anchor(model, 17, "endpoint")
    calls.clear()
    fixed(torch.randn(1, 1, 33, 33, dtype=torch.float64))
    assert calls == ["norm"]
    assert [m.training for m in fixed.model] == [True, True, True, False, True]
    assert all(p.dtype == torch.float64 for p in fixed.parameters())
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), fixed.parameters(), strict=True))
    assert all(p is not q for p, q in zip(model.parameters(), fixed.parameters(), strict=True))
    shared = anchor(model, 17, "endpoint", share=True)
    assert all(p is q for p, q in zip(model.parameters(), shared.parameters(), strict=True))
    assert type(model[1]) is nn.GroupNorm


def test_buffers_and_random_state_are_untouched():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Dropout(), nn.GroupNorm(1, 4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    fixed = anchor(model, 9, "endpoint")
    assert torch.equal(torch.rand(4), expected)
    assert all(torch.equal(v, before[k]) for k, v in fixed.state_dict().items())
    assert fixed.training


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
        fixed = anchor(model, (9, 9), "endpoint")
        x = torch.randn(1, 1, 9, 9, dtype=torch.float64)
        assert torch.allclose(fixed(x), model(x), atol=1e-14)
        register_anchor(Energy, lambda module, place: "it is mine")
        with pytest.raises(ValueError, match="it is mine"):
            anchor(model, (9, 9), "endpoint")
        register_anchor(Energy, lambda module, place: nn.Flatten(2))
        with pytest.raises((RuntimeError, ValueError)):
            anchor(model, (9, 9), "endpoint")
        register_anchor(Energy, lambda module, place: 3)
        with pytest.raises(TypeError, match="returned 3"):
            anchor(model, (9, 9), "endpoint")
    finally:
        REGISTERED.pop(Energy)
    with pytest.raises(TypeError, match="class of modules"):
        register_anchor(3, rule)


def test_subclasses_with_a_forward_of_their_own_are_not_presumed():
    class Mine(nn.GroupNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    class Renamed(nn.GroupNorm):
        pass

    report = anchor(nn.Sequential(Mine(1, 3), Renamed(1, 3)), (9, 9), "endpoint").anchor_report
    assert (report["0"].kind, report["0"].action) == (
        "call group_norm",
        "anchored",
    )  # by what it calls, not by its class
    assert report["1"].action == "anchored"


def test_wrong_resolutions():
    model = small()
    for bad in (0, -3, 2.5, True, (), (17, 0)):
        with pytest.raises(ValueError, match="samples per axis"):
            anchor(model, bad, "endpoint")
    with pytest.raises(ValueError, match="got shapes \\(1, 1, 17, 17\\); check the resolution"):
        anchor(model, 33, "endpoint", example=torch.randn(1, 1, 17, 17))
    with pytest.raises(ValueError, match="one number per axis, as in \\(33, 33\\)"):
        anchor(nn.Sequential(nn.Linear(2, 3), nn.GroupNorm(1, 3)), 33, "endpoint")
    with pytest.raises(ValueError, match="did you mean 'endpoint'"):
        anchor(model, 17, "endpoints")


def test_models_without_spatial_sums():
    with pytest.raises(ValueError, match="found no spatial sum"):
        anchor(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GELU()), 17, "endpoint")
    with pytest.raises(ValueError, match="kernel of 3×3 samples"):
        anchor(nn.Conv2d(1, 4, 3), 17, "endpoint")


def test_models_that_hold_a_graph_cannot_be_copied():
    model = small()
    model.cache = model(torch.randn(1, 1, 17, 17))
    with pytest.raises(TypeError, match="detach them"):
        anchor(model, 17, "endpoint")


def test_without_an_input_there_is_nothing_to_compare_with():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(1, 3)

        def forward(self, fields):
            return self.norm(fields["u"])

    with pytest.raises(ValueError, match="pass example="):
        anchor(Odd(), (9, 9), "endpoint")
    example = ({"u": torch.randn(1, 3, 9, 9)},)
    assert "equal to" in anchor(Odd(), (9, 9), "endpoint", example=example).anchor_report.notes[0]


class Wrapped(nn.Module):
    """A model whose output is made into something else."""

    def __init__(self, change):
        super().__init__()
        self.net, self.change = small(), change

    def forward(self, x):
        return self.change(self.net(x))


def test_what_was_not_compared_is_not_called_equal():
    def note(change):
        return anchor(Wrapped(change), 9, "endpoint").anchor_report.notes[0]

    assert note(lambda y: None).startswith("not compared with the model")
    assert note(lambda y: y > 0).startswith("not compared with the model")
    assert note(lambda y: torch.complex(y, y)).startswith("compared with the model")
    assert note(lambda y: [{"a": (y,)}]).startswith("compared with the model")
