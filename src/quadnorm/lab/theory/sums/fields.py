"""Smooth fields with integrals in closed form. Nodes are built here, not taken from the measures under test.

The profile of every axis is

    f(t) = e^t + sin 3t,    ∫f = e − 1 + (1 − cos 3)/3,    ∫f² = (e²−1)/2 + 2∫e^t sin 3t + ½ − (sin 6)/12

with ∫₀¹ e^t sin 3t = (e(sin 3 − 3 cos 3) + 3)/10. It is in C^∞, its end values differ from its mean, and f'(1) ≠ f'(0),
so that neither the first- nor the second-order error vanishes by accident.
"""

from __future__ import annotations

from math import cos, e, sin

import torch
from torch import Tensor

MEAN = e - 1 + (1 - cos(3)) / 3
SQUARE = (e**2 - 1) / 2 + 2 * (e * (sin(3) - 3 * cos(3)) + 3) / 10 + 0.5 - sin(6) / 12
ENDS = (1 + e + sin(3)) / 2  # ½(f(0) + f(1))
SLOPES = e + 3 * cos(3) - 4  # f'(1) − f'(0)


def endpoint_nodes(n: int) -> Tensor:
    """j/(n−1): both ends included."""
    return torch.arange(n, dtype=torch.float64) / (n - 1)


def cell_nodes(n: int) -> Tensor:
    """(j+½)/n: the centres of n cells."""
    return (torch.arange(n, dtype=torch.float64) + 0.5) / n


def profile(t: Tensor) -> Tensor:
    """f(t) = e^t + sin 3t."""
    return torch.exp(t) + torch.sin(3 * t)


def product(t: Tensor, dim: int) -> Tensor:
    """f(x)·f(y)·… at the nodes t × t × …, shape (n,)*dim; its mean is MEAN**dim, its mean square SQUARE**dim."""
    f = values = profile(t)
    for _ in range(dim - 1):
        values = values.unsqueeze(-1) * f
    return values


def trapezoid_by_hand(n: int) -> Tensor:
    """h/2, h, …, h, h/2 with h = 1/(n−1), as the paper writes them."""
    w = torch.full((n,), 1 / (n - 1), dtype=torch.float64)
    w[0] = w[-1] = 0.5 / (n - 1)
    return w
