"""Weights of a real convolution: modes k and −k in the plane k_last = 0 share one matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm.operators.spectral.modes import Modes


def tie(modes: Modes) -> tuple[Tensor, Tensor, int]:
    """Where each of the K modes finds its matrix, and the sign of its imaginary part.

    Free matrices: one for every mode with k_last > 0 and for every pair ±k with k_last = 0; the mode 0 has a real one
    of its own, at index 0. Returns ``source`` (K,) into [real one, free ones], ``sign`` (K,) in {1, −1}, and the
    number of free ones.

    >>> tie(Modes((2, 2), (1,)))  # modes (0,0) (0,1) (1,0) (1,1) (−1,0) (−1,1)
    (tensor([0, 1, 2, 3, 2, 4]), tensor([ 1.,  1.,  1.,  1., -1.,  1.]), 4)
    """
    place: dict[tuple[int, ...], int] = {}
    source, sign = [], []
    for k in modes.frequencies():
        mirror = tuple(-c for c in k)
        if k[-1] == 0 and mirror in place:  # the wave 0 is its own mirror, and is not in `place` yet
            source.append(place[mirror])
            sign.append(-1.0)
        else:
            place[k] = len(place)
            source.append(place[k])
            sign.append(1.0)
    return torch.tensor(source, device="cpu"), torch.tensor(sign, device="cpu"), len(place) - 1


def untie(dc: Tensor, free: Tensor, source: Tensor, sign: Tensor) -> Tensor:
    """All K matrices (K, I, O) from the real ``dc`` (I, O) and the ``free`` ones."""
    both = torch.stack([torch.cat([dc[None], free.real]), torch.cat([torch.zeros_like(dc)[None], free.imag])], -1)
    picked = both.index_select(0, source)
    flip = torch.stack([torch.ones_like(sign), sign], -1).to(picked.dtype)
    return torch.view_as_complex(picked * flip[:, None, None, :])
