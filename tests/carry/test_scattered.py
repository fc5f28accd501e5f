"""Linear interpolation between point clouds, and models run on their training mesh."""

import pytest
import torch
from scipy.interpolate import LinearNDInterpolator

from quadnorm.adapt import at_native
from quadnorm.carry.scattered import linear_map
from quadnorm.operators import GalerkinTransformer


def cloud(n, d, seed):
    g = torch.Generator().manual_seed(seed)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * d).reshape(-1, d)
    return torch.cat([corners, torch.rand(n, d, generator=g, dtype=torch.float64)])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_linear_fields_are_exact(d):
    s, t = cloud(40, d, 0), cloud(60, d, 1)
    slope = torch.arange(1, d + 1, dtype=torch.float64)
    index, weight = linear_map(s, t)
    assert torch.allclose(((s @ slope + 2)[index] * weight).sum(1), t @ slope + 2, atol=1e-12)
    assert weight.min() >= -1e-9


def test_it_is_scipys_linear_interpolation():
    s, t = cloud(50, 2, 2), cloud(30, 2, 3)
    f = torch.sin(5 * s).prod(1)
    index, weight = linear_map(s, t)
    expected = LinearNDInterpolator(s.numpy(), f.numpy())(t.numpy())
    assert torch.allclose((f[index] * weight).sum(1), torch.from_numpy(expected), atol=1e-12)


def test_points_that_are_there_keep_their_values_and_outside_takes_the_nearest():
    s = cloud(20, 2, 4)
    index, weight = linear_map(s, s.flip(0))
    f = torch.randn(len(s), dtype=torch.float64)
    assert torch.equal((f[index] * weight).sum(1), f.flip(0))
    index, weight = linear_map(s, torch.tensor([[2.0, 2.0]]))
    corner = int((s == 1).all(1).nonzero()[0, 0])
    assert (f[index] * weight).sum(1).item() == f[corner].item()


def test_a_model_on_its_training_mesh():
    torch.manual_seed(0)
    model = GalerkinTransformer(width=8, heads=2, layers=1).double().requires_grad_(False)
    train, new = cloud(60, 2, 5), cloud(200, 2, 6)
    w = torch.rand(len(train), dtype=torch.float64)
    wrapped = at_native(model, train, weights=w)
    x = torch.sin(3 * train).sum(1)[None, :, None]
    native = model(x, coordinates=train, weights=w)
    assert torch.allclose(wrapped(x, coordinates=train), native, atol=1e-12)
    z = torch.sin(3 * new).sum(1)[None, :, None].requires_grad_(True)
    y = wrapped(z, coordinates=new)
    assert y.shape == (1, len(new), 1)
    expected = LinearNDInterpolator(train.numpy(), model(_at(z.detach(), new, train), coordinates=train, weights=w)[0])(
        new
    )
    assert torch.allclose(y[0], torch.from_numpy(expected), atol=1e-10)
    y.sum().backward()
    assert z.grad.abs().sum() > 0


def _at(z, new, train):
    return torch.from_numpy(LinearNDInterpolator(new.numpy(), z[0].numpy())(train.numpy()))[None]


class Kernel(torch.nn.Module):
    """Σ_j cos(9|q − r_j|) x_j / N at any points q, rough between the r."""

    def forward(self, x, coordinates, queries=None):
        q = coordinates if queries is None else queries
        return torch.cos(9 * torch.cdist(q, coordinates)) @ x / len(coordinates)


def test_a_model_that_can_be_asked_is_asked():
    """The output function of the training mesh at the new points: exact where the input is linear."""
    home, new = (torch.rand(n, 2, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (40, 900))
    corners = torch.cartesian_prod(*[torch.arange(2.0, dtype=torch.float64)] * 2)
    new = torch.cat([new, corners])  # no training point outside of their hull
    linear, model = torch.tensor([[1.0], [2.0]], dtype=torch.float64), Kernel()
    truth = model((home @ linear)[None], home, new)
    asked = at_native(model, home, queries="queries")((new @ linear)[None], new)
    assert torch.allclose(asked, truth, atol=1e-12)
    carried = at_native(model, home, "endpoint")((new @ linear)[None], new)
    assert (carried - truth).norm() > 0.01 * truth.norm()
    with pytest.raises(ValueError, match="queries belong to the points"):
        at_native(model, 17, queries="queries")


@pytest.mark.parametrize(("d", "few"), [(1, 1), (2, 2), (3, 3)])
def test_too_few_points_for_a_cell_give_the_nearest(d, few):
    source = torch.eye(few, d, dtype=torch.float64)
    index, weight = linear_map(source, source + 0.1)
    assert index[:, 0].tolist() == list(range(few))
    assert torch.equal(weight, torch.eye(1, d + 1, dtype=torch.float64).expand(few, -1))


def test_errors():
    with pytest.raises(ValueError, match="shape"):
        linear_map(torch.zeros(3), torch.zeros(3, 2))
    for shape in ((0, 2), (3, 4)):
        with pytest.raises(ValueError, match=r"source points must have shape \(N, d\)"):
            linear_map(torch.zeros(shape), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="dimensions"):
        linear_map(torch.zeros(3, 1), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="NaN"):
        linear_map(torch.full((3, 2), float("nan")), torch.zeros(3, 2))
    wrapped = at_native(torch.nn.Identity(), torch.rand(5, 2))
    with pytest.raises(ValueError, match="expected x"):
        wrapped(torch.zeros(1, 4, 1), coordinates=torch.rand(5, 2))
    with pytest.raises(ValueError, match="belong to the points"):
        at_native(torch.nn.Identity(), (9, 9), weights=torch.ones(9))
