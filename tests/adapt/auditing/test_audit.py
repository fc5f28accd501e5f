"""The audit finds what is known to leak, and only that."""

import math

import pytest
import torch
from torch import nn

import quadnorm
from quadnorm.adapt import anchor, at_native, audit, extend
from quadnorm.adapt.auditing.commute import Restriction
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from tests.adapt.fields import smooth

SIZES = [9, 17, 33, 65]


def network(*layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 1), *layers, nn.Conv2d(4, 1, 1)).double()


def test_counting_norms_leak_at_first_order_and_pointwise_modules_do_not():
    result = audit(network(nn.GELU(), nn.GroupNorm(1, 4), nn.Tanh()), smooth, [17, 33, 65, 129])
    assert [r.name for r in result.leaks] == ["2"]
    row = result.leaks[0]
    assert row.order == pytest.approx(1.0, abs=0.15)
    assert "counting measure" in row.cause
    assert row.remedy == "anchor, or train with QuadNorm"
    silent = {r.name: r.introduced for r in result.rows if r.name in list("0134")}
    assert set(silent) == {"0", "1", "3", "4"}
    assert max(silent.values()) < 1e-14
    assert result.order["as it is"] == pytest.approx(1.0, abs=0.15)
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.15)
    assert result.recommendation.startswith("anchor: ")


def test_grids_that_share_their_largest_spacing_have_no_order():
    """Refined along one axis only: h, the largest spacing, stays 1/8, and no slope in h exists."""

    def field(grid):
        return smooth(65)[:, :, ::8, :: 64 // (grid[1] - 1)]

    result = audit(network(nn.GroupNorm(1, 4)), field, [(9, 9), (9, 17), (9, 33)], interventions=False)
    assert [(row.name, row.order) for row in result.leaks] == [("1", None)]
    assert set(result.order.values()) == {None}


def test_numbers_are_those_of_the_runs():
    """Introduced, cumulative and the totals, computed again by hand for one module."""
    model = network(nn.GroupNorm(1, 4))
    result = audit(model, smooth, [9, 33])
    with torch.no_grad():
        x, z = model[0](smooth(33)), model[0](smooth(9))
        fine, coarse = model[1](x)[..., ::4, ::4], model[1](x[..., ::4, ::4])
        row = result.leaks[0]
        assert row.introduced == pytest.approx(((fine - coarse).norm() / fine.norm()).item(), rel=1e-9)
        assert row.cumulative == pytest.approx(((fine - model[1](z)).norm() / model[1](z).norm()).item(), rel=1e-9)
        y, y0 = model(smooth(33))[..., ::4, ::4], model(smooth(9))
        assert result.totals["as it is"] == [0.0, pytest.approx(((y - y0).norm() / y0.norm()).item(), rel=1e-9)]
    assert row.alone == pytest.approx(result.totals["as it is"][1], rel=1e-9)  # the only module: alone it is the model
    assert row.fixed == pytest.approx(result.totals["anchored"][1], rel=1e-9)


def test_interventions_separate_a_harmless_module_from_a_harmful_one():
    """The norm at 3 is undone by the one behind it, which removes its means and scales again."""
    model = network(nn.InstanceNorm2d(4), nn.Tanh(), nn.GroupNorm(4, 4), nn.GroupNorm(4, 4, eps=1e-12))
    rows = {r.name: r for r in audit(model, smooth, SIZES).rows}
    assert rows["3"].introduced > 0.2 * rows["1"].introduced
    baseline = audit(model, smooth, SIZES, interventions=False).totals["anchored"][-1]
    assert rows["3"].alone - baseline < 0.02 * (rows["1"].alone - baseline)


@pytest.mark.parametrize(
    ("layer", "cause"),
    [
        (nn.Conv2d(4, 4, 3, padding=1), "kernel of 3×3 samples"),
        (nn.Sequential(nn.ZeroPad2d(2), nn.AvgPool2d(5, stride=1)), "pools a fixed number of samples"),
    ],
)
def test_fixed_pixels_are_named_and_sent_to_the_training_grid(layer, cause):
    result = audit(network(nn.GELU(), layer), smooth, SIZES)
    causes = " ".join([r.cause for r in result.rows] + [e.why for e in result.left])
    assert cause in causes
    assert result.recommendation.startswith("at_native")
    assert "anchored" not in result.totals


def with_token_norms(kind):
    """Two blocks whose only sums over space are those of the attention."""
    torch.manual_seed(0)
    model = kind(width=8, heads=2, layers=2, norm="token").double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("kind", [GalerkinTransformer, Transolver])
def test_the_attention_that_leaks_is_named(kind):
    model = with_token_norms(kind)
    result = audit(model, smooth, SIZES)
    assert {r.name for r in result.leaks} == {"blocks.0.attention", "blocks.1.attention"}
    for row in result.leaks:
        assert row.cause.startswith("counting measure in attention")
        assert row.order == pytest.approx(1.0, abs=0.3)
        assert row.alone > 2 * result.totals["anchored"][-1]  # leaving only it as trained brings much of the leak back


@pytest.mark.parametrize("kind", [GalerkinTransformer, Transolver])
def test_an_attention_may_have_a_measure_of_its_own(kind):
    """One block's attention by quadrature, the other's counting: only the latter leaks at first order."""
    model = with_token_norms(kind)
    model.blocks[0].attention.measure = "trapezoid"
    rows = {r.name: r for r in audit(model, smooth, SIZES).rows}
    assert rows["blocks.0.attention"].order > 1.8
    assert rows["blocks.1.attention"].order < 1.3


def test_recommendation_from_targets():
    """Truths made by each way in turn: the audit must find the one that made them."""
    torch.manual_seed(0)
    model = FNO(width=6, modes=3, layers=1).double().requires_grad_(False)
    ways = {"anchor": anchor(model, 9), "at_native": at_native(model, 9), "extend": extend(model, 9)}

    def field(n):  # with scales that the training grid misses
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + 0.5 * torch.sin(8 * math.pi * r)[:, None]

    for name, way in ways.items():
        result = audit(model, lambda n, way=way: (field(n), way(field(n))), [9, 17, 33], interventions=False)
        assert result.recommendation.startswith(name), str(result)
        assert max(result.errors[name]) < 1e-12
    as_it_is = audit(model, lambda n: (field(n), model(field(n))), [9, 17, 33], interventions=False)
    assert as_it_is.recommendation.startswith("nothing")
    assert as_it_is.detail > 0.1
    assert "within 2 %" not in as_it_is.recommendation


def test_aliasing_of_the_input_is_told_from_leaks():
    """A wave between the training samples: what remains after anchoring disappears with it."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4))

    def field(n):
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + torch.sin(8 * math.pi * r)[:, None]

    assert "aliasing of the input" in audit(model, field, [9, 17, 33, 65], interventions=False).rest


def test_the_data_says_which_way_it_favours():
    """Smooth on nested grids, fine inputs, kinks, grids that do not nest, coarser ones, samples that end early."""
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.Conv1d(4, 1, 1)).double()

    def axis(n, left=False):
        return torch.arange(n, dtype=torch.float64) / (n - (not left))

    def favoured(field, sizes, target=None, **more):
        def make(n):
            r = axis(n, "placement" in more)
            x, y = (f(r)[None, None] for f in (field, target or field))
            return (x, y) if target else x

        result = audit(model, make, sizes, interventions=False, **more)
        assert f"as a rule, such data favours {result.favours}" in str(result)
        return result.favours

    def fine(r):
        return torch.exp(r) + 0.5 * torch.sin(24 * math.pi * r)

    def kinks(r):
        return 1 + 0.2 * torch.sin(9 * math.pi * r + 1).abs()

    assert favoured(torch.exp, [17, 33, 65]).startswith("at_native: inputs are smooth")
    assert favoured(torch.exp, [17, 40]).startswith("at_native: inputs are smooth")
    assert favoured(fine, [17, 65]).startswith("anchor or extend if outputs have")
    assert favoured(fine, [17, 65], torch.exp).startswith("at_native: what upsampling misses")
    assert favoured(fine, [17, 40]).startswith("anchor: the input has fine scales and the grids do not nest")
    assert favoured(torch.exp, [33, 17]).startswith("extend or at_native")
    assert favoured(torch.exp, [16, 32], placement="left").endswith("where upsampling extrapolates")
    for constant, way in (
        (0.0, "at_native"),
        (1.13, "anchor or extend: targets have kinks"),
    ):  # errors of 100 and 5 %
        model[2].weight.data.zero_()
        model[2].bias.data.fill_(constant)
        assert favoured(torch.exp, [17, 65], kinks).startswith(way)


def test_consistent_models_need_nothing():
    result = audit(network(nn.GELU()), smooth, SIZES)
    assert not result.leaks
    assert result.recommendation.startswith("nothing")
    assert "no module introduces more than rounding" in str(result)


def test_table_frame_figure_and_page(tmp_path):
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [9, 17, 33])
    text = str(result)
    assert "GroupNorm" in text
    assert "recommended: " in text
    assert "error against the targets" in text
    frame = result.to_frame()
    assert list(frame["name"]) == ["", "0", "1", "2"]
    assert [a.get_title() for a in result.figure().axes] == [
        "discrepancy of the output",
        "by module",
        "error against the targets",
    ]
    assert len(audit(network(nn.GroupNorm(1, 4)), smooth, [9, 17]).figure().axes) == 2  # no targets, no errors
    only_native = audit(network(nn.Conv2d(4, 4, 3, padding=1)), lambda n: (smooth(n), smooth(n)), [9, 17])
    assert len(only_native.figure().axes) == 3  # nothing to anchor: two ways instead of four
    assert "introduced: what the module itself does" in text
    assert result.rows[0].cause == "that of its parts"
    page = result.html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page
    assert "NaN" not in page[page.index("<h2>") :]  # the picture before it is base64, which may spell anything


def test_the_recommendation_can_be_typed():
    """The last line is Python that runs."""
    model = network(nn.GroupNorm(1, 4))
    for sizes in ([9, 17, 33], [(9, 9), (17, 17), (33, 33)]):
        how = str(audit(model, lambda n: smooth(n if isinstance(n, int) else n[0]), sizes)).splitlines()[-1]
        names = {"quadnorm": quadnorm, "model": model}
        fixed = eval(how.removeprefix("  in Python: "), names)
        assert "anchored at 9×9" in fixed.anchor_report.title


def test_modules_may_refuse_other_grids_in_any_way():
    """A module that asserts what it is given has no row of its own; the rest of the audit stands."""

    class Fussy(nn.Module):
        largest = 0

        def forward(self, x):
            assert x.shape[-1] >= self.largest, "never a coarser grid than before"
            self.largest = x.shape[-1]
            return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.fussy = nn.GroupNorm(1, 1), Fussy()

        def forward(self, x):
            self.fussy.largest = 0
            return self.fussy(self.norm(x))

    result = audit(Model().double(), smooth, [9, 17])
    assert [r.name for r in result.leaks] == ["norm"]


def test_the_model_is_untouched():
    model = network(nn.BatchNorm2d(4), nn.GroupNorm(1, 4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    audit(model, smooth, [9, 17])
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model.training
    assert not any(m._forward_hooks for m in model.modules())


def test_restriction_reads_shapes():
    r = Restriction((9, 9), (5, 5), ("endpoint", "endpoint"))
    x = torch.randn(2, 3, 9, 9)
    assert torch.equal(r(x), x[..., ::2, ::2])
    assert torch.equal(r(x.flatten(2)), x[..., ::2, ::2].flatten(2))
    assert torch.equal(r(x.flatten(2).transpose(1, 2)), x[..., ::2, ::2].flatten(2).transpose(1, 2))
    assert torch.equal(r(x.movedim(1, -1)), x[..., ::2, ::2].movedim(1, -1))
    assert r(((9, 9), [9, 9], 9, "a", None)) == ((5, 5), [5, 5], 9, "a", None)
    assert r(torch.zeros(3, 4)).shape == (3, 4)
    assert r({"x": x})["x"].shape == (2, 3, 5, 5)


def test_errors():
    model = network(nn.GroupNorm(1, 4))
    with pytest.raises(ValueError, match="at least one other"):
        audit(model, smooth, [9])
    with pytest.raises(ValueError, match="must give a tensor"):
        audit(model, lambda n: torch.zeros(n, n), [9, 17])
    with pytest.raises(ValueError, match="the same grid"):
        audit(model, lambda n: smooth(9), [9, 17])
    with pytest.raises(ValueError, match="different batches"):
        audit(model, lambda n: smooth(n).expand(n, -1, -1, -1), [9, 17])
    with pytest.raises(TypeError, match="returns one tensor"):
        audit(Pair().double(), lambda n: (smooth(n), smooth(n)), [9, 17])
    with pytest.raises(ValueError, match=r"does not run at 17×17 .*quadnorm\.at_native any model"):
        audit(network(nn.LayerNorm([4, 9, 9])), smooth, [9, 17])


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 1)

    def forward(self, x):
        return self.norm(x), x


# --- from a fine training grid to coarser ones -----------------------------------------------------------------------


def test_from_a_fine_training_grid_to_coarser_ones():
    """The same leak, the same order: a run on 129² is restricted to 17², and nothing is interpolated upwards."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4), nn.Tanh())
    result = audit(model, smooth, [129, 65, 33, 17])
    assert [r.name for r in result.leaks] == ["2"]
    row = result.leaks[0]
    assert row.order == pytest.approx(1.0, abs=0.15)
    assert max(r.introduced for r in result.rows if r.name in list("0134")) < 1e-14
    with torch.no_grad():
        y, y0 = model(smooth(17)), model(smooth(129))[..., ::8, ::8]
        h = model[1](model[0](smooth(129)))
        fine, coarse = model[2](h)[..., ::8, ::8], model[2](h[..., ::8, ::8])
    assert result.totals["as it is"][3] == pytest.approx(((y - y0).norm() / y0.norm()).item(), rel=1e-9)
    assert row.introduced == pytest.approx(((fine - coarse).norm() / fine.norm()).item(), rel=1e-9)
    assert row.alone == pytest.approx(result.totals["as it is"][3], rel=1e-9)
    assert row.fixed == pytest.approx(result.totals["anchored"][3], rel=1e-9)
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.2)
    assert "rows compare 129 with 17" in str(result)
    assert result.recommendation.startswith("extend: ")


def test_calls_of_the_models_own_code_going_coarser():
    class Mean(nn.Module):
        def forward(self, x):
            return torch.tanh(x - x.mean((-2, -1), keepdim=True))

    result = audit(Mean(), smooth, [33, 17])
    (row,) = result.leaks
    x = smooth(33)
    fine, coarse = x.mean(), x[..., ::2, ::2].mean()
    assert row.kind == "call mean"
    assert row.introduced == pytest.approx(abs(fine / coarse - 1).item(), rel=1e-9)


def test_fine_scales_of_the_training_input_that_a_coarse_grid_misses():
    """On 17 samples sin(30πr) looks like −sin(2πr): what anchoring leaves is the input's aliasing, and is called so."""

    def rough(n):
        r = torch.linspace(0, 1, n, dtype=torch.float64)
        return smooth(n) + 0.3 * torch.sin(30 * math.pi * r)[:, None]

    result = audit(network(nn.GroupNorm(1, 4), nn.Tanh()), rough, [65, 17])
    assert result.detail > 0.02
    assert "aliasing of the input" in result.rest
    assert "of the training grid's input lies between the samples at 17" in str(result)


def test_targets_at_coarser_grids():
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [33, 17])
    assert set(result.errors) == {"as it is", "anchor", "at_native", "extend"}
    assert result.traits.target_detail is None
