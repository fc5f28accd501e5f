"""Normalisers: one mean and deviation per channel, in the problem's units."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from quadnorm.training import Normalised
from quadnorm.training.model import moments


def test_normalisers_are_one_mean_and_deviation_per_channel() -> None:
    """Channel 0 takes −1, 3 equally often: μ = 1, σ = 2. Channel 1 is constant: μ = 5 and σ is set to 1."""
    x = torch.tensor([-1.0, 3.0]).repeat(3, 8).reshape(3, 1, 4, 4)
    x = torch.cat([x, torch.full_like(x, 5.0)], 1)
    mean, std = moments(x)
    assert mean.tolist() == [1.0, 5.0]
    assert std.tolist() == [2.0, 1.0]


def test_deviation_survives_a_large_mean() -> None:
    x = 1e6 + torch.tensor([-1.0, 1.0]).repeat(1000).reshape(1, 1, 2000)
    assert moments(x)[1].item() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_deviation_in_units_whose_squares_leave_the_range(unit: float) -> None:
    """Channel 0 takes −1 and 3 units: μ = 1, σ = 2 units; channel 1 is constant."""
    x = unit * torch.tensor([[-1.0, 3.0], [5.0, 5.0]], dtype=torch.float64).expand(4, 2, 2)
    mean, std = moments(x)
    torch.testing.assert_close(mean / unit, torch.tensor([1.0, 5.0], dtype=torch.float64))
    torch.testing.assert_close(std, torch.tensor([2.0 * unit, 1.0], dtype=torch.float64))


def test_the_model_works_in_the_problems_units() -> None:
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x**2

    model = Normalised(Square(), 1, 1)
    x, y = 3 + 2 * torch.randn(50, 1, 7), 10 - 4 * torch.randn(50, 1, 7)
    model.fit(x, y)
    z = (x - x.mean()) / x.std(correction=0)
    torch.testing.assert_close(model(x), z**2 * y.std(correction=0) + y.mean(), rtol=1e-4, atol=1e-4)
    assert set(model.state_dict()) == {"x_mean", "x_std", "y_mean", "y_std"}
