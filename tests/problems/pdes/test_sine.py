"""Poisson, Helmholtz, reaction–diffusion: exact series against sums, finite differences and sparse solves."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import spsolve

from quadnorm.problems import problem

CASES = {"poisson": (1.0, 0.0), "reaction-diffusion": (0.05, 1.0), "helmholtz": (1.0, None)}  # −DΔu + ru = f


def shift(p, i):
    """The r of sample i: a constant, or k² of the Helmholtz sample."""
    r = CASES[p.name][1]
    return p.instances([i])["k"][0] ** 2 if r is None else r


def fields(p, n, i=0):
    x, y = p.sample([i], n, dtype=torch.float64)
    return x[0, 0].numpy(), y[0, 0].numpy()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("placement", ["endpoint", "cell", "interior"])
def test_values_are_the_series(name, placement):
    """Σ f̂ sin sin and Σ f̂/(Dπ²(m²+n²) + r) sin sin, term by term at coordinates built here."""
    p = problem(name, modes=5, placement=placement)
    f_hat = p.instances([2])["f"][0]
    k = np.arange(1, 6)
    diffusion = CASES[name][0]
    u_hat = f_hat / (diffusion * np.pi**2 * (k[:, None] ** 2 + k**2) + shift(p, 2))
    at = {
        "endpoint": lambda n: np.linspace(0, 1, n),
        "cell": lambda n: np.linspace(0.5 / n, 1 - 0.5 / n, n),
        "interior": lambda n: np.linspace(0, 1, n + 2)[1:-1],
    }[placement]
    x, y = p.sample([2], (9, 14), dtype=torch.float64)
    sx, sy = np.sin(np.pi * np.outer(at(9), k)), np.sin(np.pi * np.outer(at(14), k))
    np.testing.assert_allclose(x[0, 0], sx @ f_hat @ sy.T, atol=1e-12)
    np.testing.assert_allclose(y[0, 0], sx @ u_hat @ sy.T, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_a_sparse_direct_solve_converges_to_it(name):
    """The 5-point scheme with the sampled f approaches the sampled u with second order."""
    p = problem(name, modes=6)
    diffusion, errors = CASES[name][0], []
    for n in (33, 65, 129):
        f, u = fields(p, n)
        second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n - 2, n - 2)) * (n - 1) ** 2
        eye = sp.eye_array(n - 2)
        a = diffusion * (sp.kron(second, eye) + sp.kron(eye, second)) + shift(p, 0) * sp.eye_array((n - 2) ** 2)
        got = spsolve(sp.csc_array(a), f[1:-1, 1:-1].ravel())
        errors.append(np.abs(got - u[1:-1, 1:-1].ravel()).max() / np.abs(u).max())
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(rates - 2) < 0.15).all()
    assert errors[-1] < 2e-3


@pytest.mark.parametrize("name", CASES)
def test_boundary_values_are_exactly_zero(name):
    for n in (32, 33, 100):
        _, u = fields(problem(name), n)
        assert (u[[0, -1]] == 0).all()
        assert (u[:, [0, -1]] == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_mean_square_of_the_force_is_one(name):
    """E ∫ f² = 1. The midpoint rule integrates products of these sines exactly once n > modes."""
    p = problem(name, placement="cell", decay=1.0)
    x, _ = p.sample(400, 40)
    mean = (x[:, 0].double() ** 2).mean((1, 2))
    assert abs(mean.mean() - 1) < 5 * mean.std() / 20


def test_helmholtz_wavenumber_channel():
    p = problem("helmholtz")
    x, _ = p.sample(300, 5, dtype=torch.float64)
    k = x[:, 1, 0, 0]
    assert torch.equal(x[:, 1], k[:, None, None].expand(300, 5, 5))
    assert k.min() >= 1
    assert k.max() <= 10
    assert abs(k.mean() - 5.5) < 4 * 9 / np.sqrt(12 * 300)  # uniform on [1, 10]
    assert torch.equal(k, torch.from_numpy(p.instances(300)["k"]))


def test_forces_of_different_problems_differ():
    a, _ = problem("poisson").sample(1, 9)
    b, _ = problem("reaction-diffusion").sample(1, 9)
    assert not torch.equal(a, b)
