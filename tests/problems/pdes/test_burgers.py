"""Burgers flow against the exact solution, against finite differences, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.problems.pdes.burgers import _exponentials, waves


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.parametrize("placement", ["endpoint", "periodic"])
def test_cole_and_hopf(placement: str) -> None:
    """u = −2ν ∂x log φ, where φ solves the heat equation from φ₀ = exp(−∫u₀/2ν).

    With u = 0 at both ends u continues as an odd function of period 2, φ as an even one: a periodic problem too. The
    heat equation is solved by an FFT on 4096 nodes, and ∫u₀ by the same.
    """
    p = problem("burgers", placement=placement)
    length, n = (1.0, 4096) if placement == "periodic" else (2.0, 4096)
    x0, y = p.sample(3, n if placement == "periodic" else n // 2 + 1, seed=1, dtype=torch.float64)
    initial, expected = x0[:, 0].numpy(), y[:, 0].numpy()
    if placement == "endpoint":
        initial = np.concatenate([initial, -initial[:, -2:0:-1]], 1)
    k = 2j * np.pi * np.fft.rfftfreq(n, length / n)
    integral = np.fft.irfft(np.divide(np.fft.rfft(initial), k, where=k != 0, out=np.zeros((3, len(k)), complex)), n)
    potential = -integral / (2 * p.viscosity)
    heat = np.fft.rfft(np.exp(potential - potential.max(1, keepdims=True))) * np.exp(p.viscosity * k**2 * p.horizon)
    u = -2 * p.viscosity * np.fft.irfft(k * heat, n) / np.fft.irfft(heat, n)
    assert relative(expected, u[:, : expected.shape[1]]) < 2e-6


@pytest.mark.parametrize("placement", ["endpoint", "periodic"])
def test_two_dimensions_agree_with_finite_differences_to_their_order(placement: str) -> None:
    """Central differences and the classical Runge–Kutta method on two grids; the error falls by four."""
    p = problem("burgers-2d", placement=placement, viscosity=0.05, horizon=0.05)
    errors = []
    for n in (32, 64):
        shape = n if placement == "periodic" else n + 1
        x, y = p.sample(1, shape, seed=2, dtype=torch.float64)
        u, h, steps = x[0, 0].numpy(), 1 / n, 400

        def rate(u: np.ndarray, h: float = h) -> np.ndarray:
            if placement == "periodic":
                e, w, s, t = (np.roll(u, d, a) for a in (0, 1) for d in (-1, 1))
                inner = u
            else:
                e, w, s, t = u[2:, 1:-1], u[:-2, 1:-1], u[1:-1, 2:], u[1:-1, :-2]
                inner = u[1:-1, 1:-1]
            change = -inner * (e - w + s - t) / (2 * h) + p.viscosity * (e + w + s + t - 4 * inner) / h**2
            return change if placement == "periodic" else np.pad(change, 1)

        dt = p.horizon / steps
        for _ in range(steps):
            a = rate(u)
            b = rate(u + dt / 2 * a)
            c = rate(u + dt / 2 * b)
            u = u + dt / 6 * (a + 2 * b + 2 * c + rate(u + dt * c))
        errors.append(relative(u, y[0, 0].numpy()))
    assert errors[1] < 0.02
    assert errors[0] / errors[1] > 2.8


@pytest.mark.parametrize("name", ["burgers", "burgers-2d"])
def test_the_mean_square_of_the_initial_field_is_one(name: str) -> None:
    """In the coefficients, since the waves are orthonormal, and over the nodes."""
    for placement in ("cell", "periodic"):
        p = problem(name, placement=placement)
        c = p.initial(range(400), 0)
        assert np.mean((c**2).reshape(400, -1).sum(1)) == pytest.approx(1, rel=0.1)
        basis = waves(placement, 600, p.modes)[0]  # orthonormal under the mean over these nodes
        assert np.abs(basis.T @ basis / 600 - np.eye(p.modes)).max() < 1e-12


def test_grids_share_their_values_and_the_boundary_is_zero() -> None:
    p = problem("burgers")
    (x, y), (fine_x, fine_y) = p.sample_many(2, [17, 65], seed=0)
    assert relative(fine_x[..., ::4].numpy(), x.numpy()) < 1e-6
    assert relative(fine_y[..., ::4].numpy(), y.numpy()) < 1e-6
    assert float(y[..., [0, -1]].abs().max()) == 0
    assert float(y.abs().max()) <= float(p.sample(2, 4097)[0].abs().max()) * (1 + 1e-6)  # the maximum principle
    (a, b), (c, d) = problem("burgers", placement="periodic").sample_many(2, [16, 64], seed=0)
    assert relative(c[..., ::4].numpy(), a.numpy()) < 1e-6
    assert relative(d[..., ::4].numpy(), b.numpy()) < 1e-6
    assert float(b.mean().abs()) < 0.1  # Burgers' equation keeps the mean, here zero


@pytest.mark.parametrize("placement", ["endpoint", "periodic"])
def test_more_waves_change_little(placement: str) -> None:
    def solved(modes: int) -> np.ndarray:
        p = problem("burgers-2d", placement=placement, modes=modes, horizon=0.03)
        return p.sample(1, 48, seed=3, dtype=torch.float64)[1].numpy()

    assert relative(solved(96), solved(108)) < 1e-5


def test_a_samples_bits_do_not_depend_on_its_neighbours() -> None:
    p = problem("burgers")
    one, several = p.instances([3]), p.instances([1, 3, 5], workers=2)
    assert one["after"][0].tobytes() == several["after"][1].tobytes()


def test_factors_of_a_step_near_zero_and_far_from_it() -> None:
    """Without diffusion the scheme is the classical Runge–Kutta method; with much of it the state is gone."""
    full, half, single, first, middle, last = _exponentials(np.array([0.0, -1e6]), 0.1)
    assert full == pytest.approx([1, 0])
    assert half == pytest.approx([1, 0])
    assert single[0] == pytest.approx(0.05)
    assert [first[0], middle[0], last[0]] == pytest.approx([0.1 / 6, 0.1 / 3, 0.1 / 6])
