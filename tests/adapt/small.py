"""A small training grid, a finer one, and fields on them."""

import torch

import quadnorm as qn

WAYS = [qn.anchor, qn.extend]
N, FINE = (9, 9), 17


def field(n: int, batch: int = 1) -> torch.Tensor:
    r = torch.linspace(0, 1, n)
    x = torch.sin(2 * r)[:, None] * r.exp()
    return torch.stack([x + k / 4 for k in range(batch)])[:, None]


def mean(h):
    return h.mean((-2, -1), keepdim=True)
