"""The helper for other libraries' tests."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt.watching.nodes import relative_gap
from quadnorm.operators import FNO
from quadnorm.testing import assert_grid_consistent, grid_drift


def test_drift_is_the_relative_difference_at_the_training_nodes() -> None:
    """A model that gives 1 + 1/n everywhere moves by 1/9 − 1/17 of 1 + 1/9."""

    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ones_like(x) + 1 / x.shape[-1]

    x = torch.zeros(2, 1, 9, 9)
    assert grid_drift(Counts(), (9, 9), "endpoint", example=x) == pytest.approx((1 / 9 - 1 / 17) / (10 / 9), rel=1e-5)
    drift = grid_drift(Counts(), (9, 9), "endpoint", finer=(33, 33), example=x)
    assert drift == pytest.approx((1 / 9 - 1 / 33) / (10 / 9), rel=1e-5)


def test_an_operator_drifts_and_extended_does_not() -> None:
    model = FNO(width=8, modes=4, layers=2).eval()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    assert grid_drift(model, 17) > 1e-3
    assert grid_drift(qn.extend(model, 17, "endpoint"), 17, "endpoint", example=torch.randn(1, 1, 17, 17)) < 1e-5
    with pytest.raises(AssertionError, match=r"more than rtol=0\.0001; quadnorm\.audit tells"):
        assert_grid_consistent(model, 17, rtol=1e-4)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_outputs_off_the_grid_are_refused() -> None:
    class Crops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[..., 1:]

    with pytest.raises(ValueError, match="a drift needs outputs on the grid of the inputs"):
        grid_drift(Crops(), (9, 9), "endpoint", example=torch.zeros(2, 1, 9, 9))


def test_an_output_that_is_not_finite_is_not_consistent() -> None:
    class NotFinite(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * float("nan"), x

    with pytest.raises(AssertionError, match="moves by nan"):
        assert_grid_consistent(NotFinite(), (9,), "endpoint", example=torch.randn(1, 1, 9))


def test_a_gap_to_a_finite_output_is_never_lost() -> None:
    finite, broken = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    assert relative_gap([broken, finite], [finite, finite]) == float("inf")
    assert relative_gap([finite, finite], [finite, finite]) == 0.0
