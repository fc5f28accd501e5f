"""A model trained on a grid, asked at scattered points: what the same model gives on grids, and the places between."""

import numpy as np
import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt.watching.watch import CannotFollowError
from quadnorm.measures.placement import PLACEMENTS
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from quadnorm.training.model import Normalised
from tests.adapt.models import Calls, ClassicFNO, field

MODELS = {
    "fno": lambda: FNO(width=8, modes=4, layers=2, norm="quad:instance"),
    "fno by quadrature": lambda: FNO(width=8, modes=4, layers=1, norm="layer", measure="trapezoid"),
    "galerkin": lambda: GalerkinTransformer(width=16, heads=2, layers=2, norm="blend:0.3"),
    "transolver": lambda: Transolver(width=16, heads=2, layers=2, slices=4, norm="layer"),
    "normalised": lambda: Normalised(FNO(width=8, modes=4, layers=1), 1, 1),
    "padded": lambda: ClassicFNO(pad=5),
    "padded on both sides": lambda: ClassicFNO(pad=3, crop="both"),
    "convolution": lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 1, 1)),
}


class Tokens(nn.Module):
    """Attention on samples in a row, (B, N, 1)."""

    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Linear(1, 8), nn.Linear(8, 1)

    def forward(self, x):
        y = self.lift(x)
        return self.head(nn.functional.scaled_dot_product_attention(y, y, y))


def nodes(placement, *sizes):
    axes = [PLACEMENTS[placement].nodes(n) for n in sizes]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sizes))


@pytest.mark.parametrize("name", MODELS)
def test_at_a_grids_nodes_it_is_the_model_on_that_grid(name):
    torch.manual_seed(0)
    everywhere = qn.extend(MODELS[name]().eval(), 17, "endpoint", example=field(17, 17))
    x = field(23, 30, batch=2)
    everywhere.stencils = "carried"  # points have no neighbours at the training grid's spacing
    with torch.no_grad():
        want = everywhere(x).flatten(2)
        got = everywhere.at_points(nodes("endpoint", 23, 30), x, values=x.flatten(2))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max()))


@pytest.mark.parametrize("placement", ["cell", "periodic", "left"])
def test_placements(placement):
    torch.manual_seed(0)
    model = FNO(width=8, modes=4, layers=2, norm="instance", placement=placement).eval()
    everywhere = qn.extend(model, 16, placement, example=field(16, 16, placement=placement))
    x = field(32, 24, placement=placement)
    with torch.no_grad():
        want = everywhere(x).flatten(2)
        got = everywhere.at_points(nodes(placement, 32, 24), x)  # values by interpolation: the nodes are x's own
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max()))


def test_between_the_nodes_the_network_is_evaluated():
    """Scattered points and their own input values: the limit of ever finer grids, not an interpolation of one."""
    torch.manual_seed(0)
    everywhere = qn.extend(
        FNO(width=8, modes=4, layers=2, norm="layer").double().eval(), 9, "endpoint", example=field(9, 9).double()
    )
    fine = 8 * 16 + 1
    at = torch.randint(0, fine, (40, 2), generator=torch.Generator().manual_seed(1))
    x = field(fine, fine, dtype=torch.float64)
    x = x + 0.3 * torch.sin(40 * torch.pi * PLACEMENTS["endpoint"].nodes(fine))  # detail that 9² does not hold
    values = x[..., at[:, 0], at[:, 1]]
    with torch.no_grad():
        want = everywhere(x)[..., at[:, 0], at[:, 1]]
        got = everywhere.at_points(at / (fine - 1), x, values=values)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_one_axis_three_axes_and_tokens():
    torch.manual_seed(0)
    line = qn.extend(Calls(lambda x: nn.functional.group_norm(x, 2), dim=1), 9, "endpoint")
    x = field(21)
    torch.testing.assert_close(line.at_points(nodes("endpoint", 21), x), line(x), rtol=1e-4, atol=1e-5)
    cube = qn.extend(Calls(lambda x: x - x.mean((2, 3, 4), keepdim=True), dim=3), (5, 6, 7), "endpoint")
    x = field(7, 8, 9)
    torch.testing.assert_close(cube.at_points(nodes("endpoint", 7, 8, 9), x), cube(x).flatten(2), rtol=1e-4, atol=1e-5)
    tokens = qn.extend(Tokens(), (7, 8), "endpoint", layout="tokens", example=field(7, 8).flatten(2).mT)
    x = field(9, 11).flatten(2).mT
    got = tokens.at_points(nodes("endpoint", 9, 11), x, grid=(9, 11))
    torch.testing.assert_close(got, tokens(x, grid=(9, 11)), rtol=1e-4, atol=1e-5)


def test_it_is_differentiable():
    torch.manual_seed(0)
    model = FNO(width=4, modes=2, layers=1, projection=4).double()
    everywhere = qn.extend(model, 5, "endpoint", example=torch.randn(1, 1, 5, 5, dtype=torch.float64))
    points = np.random.default_rng(0).random((6, 2))
    x = torch.randn(1, 1, 7, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: everywhere.at_points(points, x), (x,))
    everywhere.at_points(points, x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_what_cannot_be_is_said():
    everywhere = qn.extend(Calls(lambda x: x - x.mean((2, 3), keepdim=True)), 9, "endpoint")
    x = field(9, 9)
    with pytest.raises(ValueError, match=r"shape \(P, 2\), one row for each, got \(3,\)"):
        everywhere.at_points([0.1, 0.2, 0.3], x)
    with pytest.raises(ValueError, match="subtract the domain's lower end"):
        everywhere.at_points([[0.1, 1.7]], x)
    with pytest.raises(ValueError, match=r"values at the points have the shape \(1, 1, 2\), got \(1, 1, 1\)"):
        everywhere.at_points([[0.1, 0.7], [0.2, 0.3]], x, values=torch.zeros(1, 1, 1))
    rows = qn.extend(Calls(lambda x: x - x.mean(3, keepdim=True)), 9, "endpoint")
    with pytest.raises(CannotFollowError, match="single axes"):
        rows.at_points([[0.1, 0.7]], x)
