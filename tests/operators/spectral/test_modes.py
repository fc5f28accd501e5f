"""Cosines and sines to modes and back."""

import cmath
import math
from itertools import product

import pytest
import torch

from quadnorm.operators.spectral.modes import Modes, complex_modes, from_modes, real_coefficients, to_modes


@pytest.mark.parametrize("kept", [(4, 3), (3, 5), (1, 1), (4,), (2, 3, 2)])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_quick_ways_between_modes_and_coefficients(kept, more):
    """Without intermediate copies in two dimensions: what the general form gives, also with k or −k alone."""
    modes = Modes(kept, tuple(max(0, m - 1 + more) for m in kept[:-1]))
    t = torch.randn(*(2 * top + 2 for top in modes.tops), 2, 3)
    x = complex_modes(t, modes)
    assert torch.equal(x, torch.complex(*to_modes(t, modes)))
    assert torch.equal(real_coefficients(x, modes), from_modes(x.real, x.imag, modes))


@pytest.mark.parametrize("kept", [(3,), (3, 2), (2, 3, 2)])
def test_modes_are_the_sums_of_complex_waves(kept):
    """X_k = Σ_j x_j e^{−2πi k·s_j}, summed one by one, from the sums of cosines and sines."""
    modes = Modes(kept, tuple(m - 1 for m in kept[:-1]))
    shape = (5, 4, 3)[: len(kept)]
    x = torch.randn(shape, dtype=torch.float64)
    t = x
    for axis, (n, top) in enumerate(zip(shape, modes.tops, strict=True)):
        phase = 2 * math.pi * torch.outer(torch.arange(top + 1), torch.arange(n)).double() / n
        waves = torch.cat([phase.cos(), phase.sin()])  # (2·(top + 1), n)
        t = torch.tensordot(waves, t, dims=([1], [axis])).movedim(0, axis)
    for ks, mode in zip(modes.frequencies(), complex_modes(t[..., None, None], modes).flatten().tolist(), strict=True):
        expected = 0
        for j in product(*map(range, shape)):
            turns = sum(k * a / n for k, a, n in zip(ks, j, shape, strict=True))
            expected += x[j].item() * cmath.exp(-2j * math.pi * turns)
        assert mode == pytest.approx(expected, abs=1e-12)
