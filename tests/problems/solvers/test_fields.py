"""Random fields: exact evaluation, and the law (−Δ + τ²)^(−α)."""

import numpy as np
import pytest

from quadnorm.problems import problem
from quadnorm.problems.base import stream
from quadnorm.problems.solvers import fields


def phi(k, t):
    return np.ones_like(t) if k == 0 else np.sqrt(2) * np.cos(k * np.pi * t)


def naive(c, x, y):
    """Σ c(k,l) φ_k(x) φ_l(y), term by term."""
    out = np.zeros((len(x), len(y)))
    for k in range(c.shape[0]):
        for m in range(c.shape[1]):
            out += c[k, m] * np.outer(phi(k, x), phi(m, y))
    return out


@pytest.mark.parametrize("n", [5, 6, 9, 17, 40])
def test_fine_grid_is_the_series(n):
    """Also when the grid has fewer nodes than the series has modes, where modes alias and must be summed."""
    c = np.random.default_rng(0).standard_normal((14, 14))
    x = np.linspace(0, 1, n)
    np.testing.assert_allclose(fields.on_fine_grid(c, n), naive(c, x, x), atol=1e-11)


def test_any_grid_is_the_series():
    c = np.random.default_rng(1).standard_normal((2, 7, 7))
    got = fields.at_nodes(c, "cell", (6, 11))
    x, y = (np.arange(6) + 0.5) / 6, (np.arange(11) + 0.5) / 11
    for sample, field in zip(c, got, strict=True):
        np.testing.assert_allclose(field, naive(sample, x, y), atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8, 33, 256])
def test_sines_and_cosines(n):
    k = np.arange(1, 41)
    for placement, x in (
        ("endpoint", np.arange(n) / (n - 1)),
        ("cell", (np.arange(n) + 0.5) / n),
        ("interior", (np.arange(n) + 1) / (n + 1)),
        ("periodic", np.arange(n) / n),
    ):
        np.testing.assert_allclose(fields.sines(placement, n, 40), np.sin(np.pi * np.outer(x, k)), atol=1e-13)
        np.testing.assert_allclose(
            fields.cosines(placement, n, 40, first=1), np.cos(np.pi * np.outer(x, k)), atol=1e-13
        )
    assert (fields.sines("endpoint", n, 40)[[0, -1]] == 0).all()


def test_spectrum_of_the_darcy_field():
    """The field that Darcy thresholds has E|ĝ(k,l)|² ∝ (π²(k²+l²) + 9)^(−2), DC excluded.

    ĝ is recovered from nodal values by the trapezoid rule, which integrates products of cosines below the
    Nyquist mode exactly: ∫ g φ_k φ_l over [0, 1]². 300 samples: the mean square over a ring has a relative
    error of sqrt(2/(300·modes in the ring)); 5 of these are allowed.
    """
    modes, n, samples = 24, 33, 300
    p = problem("darcy", fine=n, modes=modes)
    x = np.linspace(0, 1, n)
    w = np.full(n, 1 / (n - 1))
    w[[0, -1]] /= 2
    project = np.stack([phi(k, x) * w for k in range(modes)])  # (M, n)
    power = np.zeros((modes, modes))
    for i in range(samples):
        g = fields.on_fine_grid(p.field(i), n)
        power += (project @ g @ project.T) ** 2 / samples
    assert power[0, 0] < 1e-25
    k = np.arange(modes)
    radius2 = k[:, None] ** 2 + k**2
    ratio = power * (np.pi**2 * radius2 + 9) ** 2 / 9  # τ^(2α−2) = 9
    for low, high in ((1, 2), (2, 16), (16, 64), (64, 256), (256, 2 * modes**2)):
        ring = (radius2 >= low) & (radius2 < high)
        assert abs(ratio[ring].mean() - 1) < 5 * np.sqrt(2 / (samples * ring.sum()))


def test_draws_do_not_depend_on_the_batch():
    c = fields.amplitudes(6, 2.0, 3.0)
    both = fields.draw([stream("t", 0, i) for i in range(3)], c)
    one = fields.draw([stream("t", 0, 2)], c)
    assert (both[2] == one[0]).all()
    assert (both[:, 0, 0] == 0).all()
