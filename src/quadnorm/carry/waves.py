r"""Waves as matrices, :math:`e^{2\pi i k t}`: the one place that builds them."""

from __future__ import annotations

import torch
from torch import Tensor


def frequencies(n: int, half: bool) -> Tensor:
    """The waves of a transform of n samples in its order: 0, 1, …, n//2 if ``half``, else with negative ones after.

    >>> frequencies(4, True).tolist(), frequencies(4, False).tolist()
    ([0.0, 1.0, 2.0], [0.0, 1.0, -2.0, -1.0])
    """
    if half:
        return torch.arange(n // 2 + 1, dtype=torch.float64, device="cpu")
    k: Tensor = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64, device="cpu")
    return k


def angles(k: Tensor, turns: Tensor) -> Tensor:
    """2πk·t (K, N), whole turns taken off: large arguments would cost digits."""
    whole = k[:, None] * turns
    return 2 * torch.pi * (whole - whole.round())


def waves(k: Tensor, turns: Tensor) -> Tensor:
    """(K, N) complex: wave k at the places ``turns``, in periods."""
    angle = angles(k, turns)
    return torch.polar(torch.ones_like(angle), angle)


def multiplicities(n: int) -> Tensor:
    """How often each wave of half a spectrum of n samples counts, (n//2 + 1,): twice if its negative is another one.

    >>> multiplicities(4).tolist(), multiplicities(5).tolist()
    ([1.0, 2.0, 1.0], [1.0, 2.0, 2.0])
    """
    k = frequencies(n, True)
    return torch.where((k == 0) | (2 * k == n), 1.0, 2.0).double()


def real_waves(n: int, turns: Tensor) -> Tensor:
    """Half a spectrum's waves of n samples as real rows (2(n//2 + 1), N): cosines, then −sines, each as often as it
    counts; their product with [Re Y, Im Y] is the inverse transform, not divided by n."""
    angle, times = angles(frequencies(n, True), turns), multiplicities(n)[:, None]
    return torch.cat([times * torch.cos(angle), -times * torch.sin(angle)])


def real_analysis(n: int, turns: Tensor, weights: Tensor) -> Tensor:
    """(N, 2(n//2 + 1)): a real field's product with it is [Re X, Im X] of its sums against e^{−2πikt}."""
    angle = angles(frequencies(n, True), turns)
    return torch.cat([weights * torch.cos(angle), -weights * torch.sin(angle)]).T.contiguous()
