"""The dilated ResNet: what a periodic axis and its reach mean, and that it is known everywhere by its name."""

import pytest
import torch

import quadnorm as qn
from quadnorm.operators import ResNet
from quadnorm.training import TrainConfig
from quadnorm.training.model.build import Sizes, build_model


@torch.no_grad()
@pytest.mark.parametrize("dim", [1, 2])
def test_periodic_shifts_commute(dim):
    model, x = ResNet(2, 3, width=4, layers=1, dim=dim, placement="periodic"), torch.randn(2, 2, *[12] * dim)
    torch.testing.assert_close(model(x.roll(5, -1)), model(x).roll(5, -1), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(ResNet(2, 3, width=4, layers=1, dim=dim)(x.roll(5, -1)), model(x).roll(5, -1))


@torch.no_grad()
def test_reach_is_twelve_samples():
    """Lift and head one each, five dilated kernels 1 + 2 + 4 + 2 + 1."""
    model, x = ResNet(width=4, layers=1, dim=1).double(), torch.zeros(1, 1, 41, dtype=torch.float64)
    still = model(x)
    x[..., 20] = 1
    moved = ((model(x) - still).abs() > 1e-12).nonzero()[:, -1]
    assert (moved.min(), moved.max()) == (8, 32)


@torch.no_grad()
def test_extended_it_keeps_its_lengths():
    """On twice the grid the extended network has the training grid's values at the shared nodes of a periodic axis."""
    model = ResNet(width=4, layers=1, dim=1, placement="periodic").double().eval()
    x = torch.sin(2 * torch.pi * torch.arange(32, dtype=torch.float64) / 32)[None, None]
    native = model(x[..., ::2])
    torch.testing.assert_close(qn.extend(model, (16,), "periodic")(x)[..., ::2], native)
    assert not torch.allclose(model(x)[..., ::2], native, atol=1e-3)


def test_by_name_and_with_a_norm():
    config = TrainConfig(operator={"name": "resnet", "params": {"width": 8, "layers": 1, "norm": "layer"}})
    model = build_model(config, Sizes(1, 1, 2, "cell"))
    assert config.lr == 1e-3
    assert type(model.operator.norms[0]).__name__ == type(qn.make_norm("layer", 8)).__name__
    with pytest.raises(ValueError, match="all or none"):
        ResNet(placement=("periodic", "endpoint"))
