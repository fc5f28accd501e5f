"""From a fine training grid to coarser ones."""

import math

import pytest
import torch
from torch import nn

from quadnorm.adapt import audit
from tests.adapt.auditing.networks import network
from tests.adapt.fields import smooth


def test_from_a_fine_training_grid_to_coarser_ones():
    """The same leak, the same order: a run on 129² is restricted to 17², and nothing is interpolated upwards."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4), nn.Tanh())
    result = audit(model, smooth, [129, 65, 33, 17], placement="endpoint")
    assert [r.name for r in result.leaks] == ["2"]
    row = result.leaks[0]
    assert row.order == pytest.approx(1.0, abs=0.15)
    assert max(r.introduced for r in result.rows if r.name in list("0134")) < 1e-14
    with torch.no_grad():
        y, y0 = model(smooth(17)), model(smooth(129))[..., ::8, ::8]
        h = model[1](model[0](smooth(129)))
        fine, coarse = model[2](h)[..., ::8, ::8], model[2](h[..., ::8, ::8])
    assert result.totals["as trained"][3] == pytest.approx(((y - y0).norm() / y0.norm()).item(), rel=1e-9)
    assert row.introduced == pytest.approx(((fine - coarse).norm() / fine.norm()).item(), rel=1e-9)
    assert row.alone == pytest.approx(result.totals["as trained"][3], rel=1e-9)
    assert row.fixed == pytest.approx(result.totals["anchored"][3], rel=1e-9)
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.2)
    assert "rows compare 129 with 17" in str(result)
    assert result.recommendation.startswith("transfer, ")


def test_calls_of_the_models_own_code_going_coarser():
    class Mean(nn.Module):
        def forward(self, x):
            return torch.tanh(x - x.mean((-2, -1), keepdim=True))

    result = audit(Mean(), smooth, [33, 17], placement="endpoint")
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

    result = audit(network(nn.GroupNorm(1, 4), nn.Tanh()), rough, [65, 17], placement="endpoint")
    assert result.detail > 0.02
    assert "aliasing of the input" in result.rest
    assert "of the training grid's input lies between the samples at 17" in str(result)


def test_targets_at_coarser_grids():
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [33, 17], placement="endpoint")
    assert set(result.errors) == {"as trained", "anchored", "run at the training grid", "extended", "transferred"}
    assert result.traits.target_detail is None
