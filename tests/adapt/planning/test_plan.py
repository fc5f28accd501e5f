"""Constant fields that are computed from parameters."""

import copy

import torch
from torch import nn

import quadnorm as qn
from tests.adapt.small import FINE, N, field, mean


class Placed(nn.Module):
    """Positions j/n through a network of their own."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Conv2d(1, 8, 1), nn.Conv2d(8, 1, 1)
        self.place = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8))

    def forward(self, x):
        axes = (torch.arange(n) / n for n in x.shape[-2:])
        r = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        h = self.up(x) + self.place(r).movedim(-1, 0)
        return self.down(torch.tanh(h - mean(h)))


def test_fields_from_parameters_follow_the_parameters():
    torch.manual_seed(0)
    anchored, x = qn.anchor(Placed(), N, "endpoint"), field(FINE)
    anchored(x).sum().backward()
    assert all(p.grad is not None for p in anchored.parameters())
    with torch.no_grad():
        for p in anchored.parameters():
            p += 0.1 * torch.randn_like(p)
    torch.testing.assert_close(anchored(x), copy.deepcopy(anchored)(x))
    other = Placed().requires_grad_(False)
    frozen = qn.anchor(Placed().requires_grad_(False), N, "endpoint")
    frozen(x)
    frozen.load_state_dict(other.state_dict())
    torch.testing.assert_close(frozen(x), qn.anchor(other, N, "endpoint")(x))
