"""Waves at any places: on the samples themselves they are the FFT and its inverse."""

import math

import pytest
import torch

from quadnorm.carry.waves import multiplicities, real_analysis, real_waves, waves


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
def test_real_waves_are_the_real_fft_and_its_inverse(n):
    x = torch.randn(3, n, dtype=torch.float64)
    turns = torch.arange(n, dtype=torch.float64) / n
    spectrum = torch.fft.rfft(x)
    parts = torch.cat([spectrum.real, spectrum.imag], -1)  # (3, 2(n//2 + 1))
    analysis = real_analysis(n, turns, torch.ones(n, dtype=torch.float64))
    assert analysis.shape == (n, 2 * (n // 2 + 1))
    torch.testing.assert_close(x @ analysis, parts, rtol=0, atol=1e-12)
    torch.testing.assert_close(parts @ real_waves(n, turns) / n, x, rtol=0, atol=1e-12)
    assert multiplicities(n).sum() == n


def test_analysis_weighs_the_samples():
    w = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    turns = torch.tensor([0.0, 0.3, 0.7], dtype=torch.float64)
    x = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    got = x @ real_analysis(4, turns, w)
    for k in range(3):
        angle = 2 * math.pi * k * turns
        assert got[k] == pytest.approx((w * x * torch.cos(angle)).sum().item(), abs=1e-14)
        assert got[3 + k] == pytest.approx(-(w * x * torch.sin(angle)).sum().item(), abs=1e-14)


def test_a_wave_has_its_value_at_any_place():
    got = waves(torch.tensor([0, 2, -1]), torch.tensor([0.125, 0.25], dtype=torch.float64))
    expected = torch.tensor([[1, 1], [1j, -1], [(1 - 1j) / math.sqrt(2), -1j]], dtype=torch.complex128)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-14)
