"""The audit finds what is known to leak, and only that."""

import pytest
import torch
from torch import nn

from quadnorm import QuadNorm
from quadnorm.adapt import audit
from quadnorm.adapt.auditing.gaps import Restriction
from tests.adapt.auditing.networks import network
from tests.adapt.fields import smooth

SIZES = [9, 17, 33, 65]


def test_counting_norms_leak_at_first_order_and_pointwise_modules_do_not():
    result = audit(network(nn.GELU(), nn.GroupNorm(1, 4), nn.Tanh()), smooth, [17, 33, 65, 129], placement="endpoint")
    assert [r.name for r in result.leaks] == ["2"]
    row = result.leaks[0]
    assert row.order == pytest.approx(1.0, abs=0.15)
    assert "counting measure" in row.cause
    assert row.remedy == "anchor, or train with QuadNorm"
    silent = {r.name: r.introduced for r in result.rows if r.name in list("0134")}
    assert set(silent) == {"0", "1", "3", "4"}
    assert max(silent.values()) < 1e-14
    assert result.order["as trained"] == pytest.approx(1.0, abs=0.15)
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.15)
    assert result.recommendation.startswith("transfer, ")


def test_grids_that_share_their_largest_spacing_have_no_order():
    """Refined along one axis only: h, the largest spacing, stays 1/8, and no slope in h exists."""

    def field(grid):
        return smooth(65)[:, :, ::8, :: 64 // (grid[1] - 1)]

    result = audit(
        network(nn.GroupNorm(1, 4)), field, [(9, 9), (9, 17), (9, 33)], interventions=False, placement="endpoint"
    )
    assert [(row.name, row.order) for row in result.leaks] == [("1", None)]
    assert set(result.order.values()) == {None}


def test_numbers_are_those_of_the_runs():
    """Introduced, cumulative and the totals, computed again by hand for one module."""
    model = network(nn.GroupNorm(1, 4))
    result = audit(model, smooth, [9, 33], placement="endpoint")
    with torch.no_grad():
        x, z = model[0](smooth(33)), model[0](smooth(9))
        fine, coarse = model[1](x)[..., ::4, ::4], model[1](x[..., ::4, ::4])
        row = result.leaks[0]
        assert row.introduced == pytest.approx(((fine - coarse).norm() / fine.norm()).item(), rel=1e-9)
        assert row.cumulative == pytest.approx(((fine - model[1](z)).norm() / model[1](z).norm()).item(), rel=1e-9)
        y, y0 = model(smooth(33))[..., ::4, ::4], model(smooth(9))
        assert result.totals["as trained"] == [0.0, pytest.approx(((y - y0).norm() / y0.norm()).item(), rel=1e-9)]
    assert row.alone == pytest.approx(
        result.totals["as trained"][1], rel=1e-9
    )  # the only module: alone it is the model
    assert row.fixed == pytest.approx(result.totals["anchored"][1], rel=1e-9)


def test_interventions_separate_a_harmless_module_from_a_harmful_one():
    """The norm at 3 is undone by the one behind it, which removes its means and scales again."""
    model = network(nn.InstanceNorm2d(4), nn.Tanh(), nn.GroupNorm(4, 4), nn.GroupNorm(4, 4, eps=1e-12))
    rows = {r.name: r for r in audit(model, smooth, SIZES, placement="endpoint").rows}
    assert rows["3"].introduced > 0.2 * rows["1"].introduced
    baseline = audit(model, smooth, SIZES, interventions=False, placement="endpoint").totals["anchored"][-1]
    assert rows["3"].alone - baseline < 0.02 * (rows["1"].alone - baseline)


@pytest.mark.parametrize(
    ("layer", "cause"),
    [
        (nn.Conv2d(4, 4, 3, padding=1), "kernel of 3×3 samples"),
        (nn.Sequential(nn.ZeroPad2d(2), nn.AvgPool2d(5, stride=1)), "pools a fixed number of samples"),
    ],
)
def test_fixed_pixels_are_named_and_sent_to_the_training_grid(layer, cause):
    result = audit(network(nn.GELU(), layer), smooth, SIZES, placement="endpoint")
    causes = " ".join([r.cause for r in result.rows] + [e.why for e in result.left])
    assert cause in causes
    assert result.recommendation.startswith("transfer, ")
    assert "anchored" not in result.totals


def test_consistent_models_need_nothing():
    result = audit(network(nn.GELU()), smooth, SIZES, placement="endpoint")
    assert not result.leaks
    assert result.recommendation.startswith("nothing")
    assert "no module introduces more than rounding" in str(result)


@pytest.mark.parametrize(
    ("make_input", "resolutions", "message"),
    [
        (17, SIZES, "a function make_input"),
        (torch.zeros(1, 1, 17), SIZES, "got Tensor"),
        (smooth, 17, "at least one other, got 17"),
        (smooth, [17], "at least one other"),
        (smooth, [17, 17], "at least one other"),
    ],
)
def test_wrong_arguments_are_refused(make_input, resolutions, message):
    with pytest.raises((TypeError, ValueError), match=message):
        audit(network(nn.GELU()), make_input, resolutions, placement="endpoint")


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

    result = audit(Model().double(), smooth, [9, 17], placement="endpoint")
    assert [r.name for r in result.leaks] == ["norm"]


def test_the_model_is_untouched():
    model = network(nn.BatchNorm2d(4), nn.GroupNorm(1, 4)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    audit(model, smooth, [9, 17], placement="endpoint")
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
        audit(model, smooth, [9], placement="endpoint")
    with pytest.raises(ValueError, match="must give a tensor"):
        audit(model, lambda n: torch.zeros(n, n), [9, 17], placement="endpoint")
    with pytest.raises(ValueError, match="the same grid"):
        audit(model, lambda n: smooth(9), [9, 17], placement="endpoint")
    with pytest.raises(ValueError, match="different batches"):
        audit(model, lambda n: smooth(n).expand(n, -1, -1, -1), [9, 17], placement="endpoint")
    with pytest.raises(TypeError, match="returns one tensor"):
        audit(Pair().double(), lambda n: (smooth(n), smooth(n)), [9, 17], placement="endpoint")
    with pytest.raises(ValueError, match=r"does not run at 17×17 .*quadnorm\.at_native any model"):
        audit(network(nn.LayerNorm([4, 9, 9])), smooth, [9, 17], placement="endpoint")


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 1)

    def forward(self, x):
        return self.norm(x), x


def test_a_quadrature_norm_is_named_as_such():
    """Its error is O(h²), of one finer grid as large as that: not an unknown sum."""
    result = audit(network(nn.GELU(), QuadNorm(4), nn.Tanh()), smooth, [9, 17, 33], placement="endpoint")
    row = next(r for r in result.rows if r.kind == "QuadNorm")
    assert row.order == pytest.approx(2.0, abs=0.2)
    assert row.cause == "Grid('trapezoid') is a quadrature already: what is left is its own error"
    assert row.remedy == "extend"
