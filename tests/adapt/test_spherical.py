"""Operators whose sums are quadratures by tables of their own grid: what is right for them is said, and done."""

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y
from torch import nn

import quadnorm as qn

GRID, FINE, DEGREES = (16, 32), (32, 64), 6
PLACES = ("cell", "periodic")


def nodes(n, m):
    """Colatitudes and longitudes of an n×m grid of cell centres by meridians."""
    return (np.arange(n) + 0.5) * np.pi / n, 2 * np.pi * np.arange(m) / m


class RealSHT(nn.Module):
    """To the coefficients of spherical harmonics, by tables of one grid, as torch-harmonics has it."""

    def __init__(self, n, m):
        super().__init__()
        theta, _ = nodes(n, m)
        zero = np.zeros_like(theta)
        orders = range(DEGREES)
        harmonics = [[sph_harm_y(d, k, theta, 0).real if k <= d else zero for k in orders] for d in orders]
        self.register_buffer("forth", torch.tensor(np.array(harmonics) * np.sin(theta) * 2 * np.pi**2 / n).float())
        self.register_buffer("back", torch.tensor(np.array(harmonics)).float())
        self.grid = n, m

    def forward(self, x):
        assert tuple(x.shape[-2:]) == self.grid, "wrong grid"
        spectrum = torch.fft.rfft(x, norm="forward")[..., :DEGREES]
        return torch.einsum("bckm,lmk->bclm", spectrum, self.forth.cfloat())

    def inverse(self, s):
        y = torch.einsum("bclm,lmk->bckm", s, self.back.cfloat())
        return torch.fft.irfft(y, n=self.grid[1], norm="forward")


class Spherical(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.lift, self.skip, self.head = nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 1, 1)
        self.transform = RealSHT(n, m)
        self.kernel = nn.Parameter(torch.randn(4, 4, DEGREES) / 4)

    def forward(self, x):
        v = self.lift(x)
        s = torch.einsum("bclm,cdl->bdlm", self.transform(v), self.kernel.cfloat())
        return self.head(nn.functional.gelu(self.transform.inverse(s) + self.skip(v)))


def fields(n, m, batch, seed, detail):
    """Random harmonics; ``detail`` times as much from degree 6 on, to 13, which 16 latitudes hardly hold."""
    draw, (theta, phi) = np.random.default_rng(seed), nodes(n, m)
    x = np.zeros((batch, 1, n, m))
    for d in range(14):
        for k in range(d + 1):
            y = sph_harm_y(d, k, theta[:, None], phi)
            a = draw.normal(size=(2, batch, 1, 1)) / (1 + d) * (detail if d >= DEGREES else 1)
            x[:, 0] += a[0] * y.real + a[1] * y.imag
    return torch.tensor(x).float()


def models():
    """One for the training grid, and the same with the tables of the finer grid."""
    torch.manual_seed(0)
    model, finer = Spherical(*GRID), Spherical(*FINE)
    finer.load_state_dict({k: v for k, v in model.state_dict().items() if "transform" not in k}, strict=False)
    return model.requires_grad_(False), finer.requires_grad_(False)


@pytest.mark.parametrize("way", [qn.anchor, qn.extend])
def test_a_model_of_one_grid_is_refused_with_what_is_right(way):
    with pytest.raises(qn.adapt.CannotFollowError, match=r"RealSHT are quadratures already.*load the same weights"):
        way(models()[0], GRID, PLACES)


@pytest.mark.parametrize("detail", [0.0, 0.5, 1.0])
def test_transfer_does_no_harm_and_says_what_is_right(detail):
    model, finer = models()
    x0, x = fields(*GRID, 12, 1, detail), fields(*FINE, 6, 0, detail)
    y0 = model(x0)
    noise = 0.05 * y0.std() * torch.randn(y0.shape, generator=torch.Generator().manual_seed(1))
    moved = qn.transfer(model, GRID, PLACES, data=(x0, y0 + noise))
    ways = qn.at_native(model, GRID, PLACES), moved
    native, transferred = (float((way(x) - finer(x)).norm() / finer(x).norm()) for way in ways)
    print(f"{detail}: native {100 * native:.2f} %, transferred {100 * transferred:.2f} %")
    assert transferred < 1.1 * native + 1e-3
    assert "RealSHT are quadratures already" in str(moved.report)
