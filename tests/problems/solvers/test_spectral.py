"""The spectral solver on the torus: exact flows, conserved quantities, order in time, an independent solver."""

import numpy as np
import pytest

from quadnorm.problems.solvers.spectral import Stepper, band_of, evaluate, state_of

TAU = 2 * np.pi


def points(n):
    x = np.arange(n) / n
    return np.meshgrid(x, x, indexing="ij")


def state(values, stepper):
    """Coefficients of fields on N×N points, by numpy's FFT."""
    hat = np.fft.rfft2(values, norm="forward")[..., : stepper.band + 1].reshape(-1, stepper.points, stepper.band + 1)
    k = np.fft.fftfreq(stepper.points, 1 / stepper.points)
    hat[:, np.abs(k) > stepper.band] = 0
    return hat


def random_field(n, seed=0, kmax=4):
    """A smooth random vorticity without mean, as a sum of waves written out."""
    g = np.random.default_rng(seed)
    X, Y = points(n)
    waves = [(a, b) for a in range(-kmax, kmax + 1) for b in range(-kmax, kmax + 1) if (a, b) != (0, 0)]
    return sum(
        g.standard_normal() * np.cos(TAU * (a * X + b * Y) + g.uniform(0, TAU)) / (a**2 + b**2) for a, b in waves
    )


def test_taylor_green_decays_at_its_rate_to_second_order():
    """ω = cos 2πmx·cos 2πny has u·∇ω = 0, so ω(t) = ω(0)·exp(−λt), λ = 4π²(m²+n²)ν: only diffusion acts, order 2.

    Crank–Nicolson over c·dt errs by a factor 1 + (λc·dt)³/12, the three stages have c = 8/15, 2/15 and 1/3.
    """
    X, Y = points(32)
    omega, nu, time = np.cos(2 * TAU * X) * np.cos(TAU * Y), 0.01, 0.5
    rate = TAU**2 * 5 * nu
    exact = omega * np.exp(-rate * time)
    errors = []
    for steps in (10, 20, 40):
        s = Stepper(32, nu, time / steps)
        result = evaluate(band_of(s.advance(state(omega, s), steps)), (32, 32))[0]
        errors.append(np.abs(result - exact).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    predicted = np.exp(-rate * time) * rate * time * (rate * time / 40) ** 2 * (8**3 + 2**3 + 5**3) / 15**3 / 12
    np.testing.assert_allclose(errors[-1], predicted, rtol=0.01)
    np.testing.assert_allclose(orders, 2, atol=0.05)


def test_a_steady_flow_stays_where_its_force_holds_it():
    """ψ = sin 2πx·cos 4πy + ½cos 2π(x−y): u, ω and ∇ω by hand, f = u·∇ω − νΔω. Checks signs, factors and aliasing."""
    n, nu = 32, 0.003
    X, Y = points(n)
    a, b, c = TAU * X, 2 * TAU * Y, TAU * (X - Y)
    u = -2 * TAU * np.sin(a) * np.sin(b) + 0.5 * TAU * np.sin(c)  # ∂ψ/∂y
    v = -TAU * np.cos(a) * np.cos(b) + 0.5 * TAU * np.sin(c)  # −∂ψ/∂x
    p, q = TAU**2 * 5, TAU**2 * 2  # −Δ of the two terms
    omega = p * np.sin(a) * np.cos(b) + 0.5 * q * np.cos(c)
    wx = p * TAU * np.cos(a) * np.cos(b) - 0.5 * q * TAU * np.sin(c)
    wy = -p * 2 * TAU * np.sin(a) * np.sin(b) + 0.5 * q * TAU * np.sin(c)
    laplacian = -(p**2) * np.sin(a) * np.cos(b) - 0.5 * q**2 * np.cos(c)
    s = Stepper(n, nu, 1e-3)
    np.testing.assert_allclose(s.velocity(state(omega, s))[0], np.stack([u, v]), atol=1e-12)
    rate = evaluate(band_of(s.convection(state(omega, s))), (n, n))[0]
    np.testing.assert_allclose(rate, -(u * wx + v * wy), atol=1e-9)
    force = state(u * wx + v * wy - nu * laplacian, s)
    after = evaluate(band_of(s.advance(state(omega, s), 50, force)), (n, n))[0]
    np.testing.assert_allclose(after, omega, atol=1e-9)


def test_convection_is_the_exact_convolution_in_the_band():
    """Every triad by hand: (u·∇ω)ₖ = Σ over p+q=k of (i2πq·û_p)·ω̂_q, all of them inside the band of 16 points."""
    s = Stepper(16, 0.0, 0.1)
    K = s.band
    rng = np.random.default_rng(1)
    w = {}
    for a in range(-K, K + 1):
        for b in range(-K, K + 1):
            if (a, b) > (0, 0):
                w[a, b] = complex(*rng.standard_normal(2))
                w[-a, -b] = w[a, b].conjugate()
    band = np.zeros((1, 2 * K + 1, K + 1), complex)
    for (a, b), value in w.items():
        if b >= 0:
            band[0, a + K, b] = value
    expected = np.zeros_like(band)
    for (p1, p2), wp in w.items():
        psi = wp / (TAU**2 * (p1**2 + p2**2))
        u, v = 1j * TAU * p2 * psi, -1j * TAU * p1 * psi
        for (q1, q2), wq in w.items():
            k1, k2 = p1 + q1, p2 + q2
            if abs(k1) <= K and 0 <= k2 <= K:
                expected[0, k1 + K, k2] -= (u * 1j * TAU * q1 + v * 1j * TAU * q2) * wq
    np.testing.assert_allclose(band_of(s.convection(state_of(band, 16))), expected, atol=1e-12)


def test_energy_and_enstrophy_are_conserved_without_viscosity():
    omega = random_field(48)
    drifts = []
    for steps in (40, 80):
        s = Stepper(48, 0.0, 0.4 / steps)
        before, after = (budget(x, s) for x in (state(omega, s), s.advance(state(omega, s), steps)))
        drifts.append([abs(after[i] / before[i] - 1) for i in range(2)])
    assert np.max(drifts) < 2e-6
    assert np.min(np.log2(np.array(drifts[0]) / drifts[1])) > 2.5


def budget(x, s, nu=0.0, force=None):
    """Energy, enstrophy and their rates: E = ½∫|u|², Z = ½∫ω², dE/dt = ∫ψ(νΔω+f), dZ/dt = ∫ω(νΔω+f), by Parseval."""
    k1 = np.fft.fftfreq(s.points, 1 / s.points)[:, None]
    k2 = np.arange(s.band + 1)[None]
    square = TAU**2 * (k1**2 + k2**2)
    inverse = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)
    count = np.where(k2 == 0, 1, 2)
    drive = -nu * square * x + (0 if force is None else force)

    def dot(a, b):
        return float((count * (a * b.conj()).real).sum())

    return 0.5 * dot(inverse * x, x), 0.5 * dot(x, x), dot(inverse * x, drive), dot(x, drive)


def test_budgets_balance_with_viscosity_and_force():
    """E(T) − E(0) equals the time integral of work minus dissipation, by Simpson's rule along the run."""
    nu, steps, n = 2e-3, 60, 48
    s = Stepper(n, nu, 0.5 / steps)
    X, Y = points(n)
    force = state(0.5 * (np.sin(TAU * (X + Y)) + np.cos(TAU * (X + Y))), s)
    x, history = state(random_field(n, 3), s), []
    for _ in range(steps):
        history.append(budget(x, s, nu, force))
        x = s.advance(x, 1, force)
    history = np.array([*history, budget(x, s, nu, force)])
    simpson = np.r_[1, np.tile([4, 2], steps // 2)[:-1], 1] * s.dt / 3
    for i in range(2):
        change, integral = history[-1, i] - history[0, i], simpson @ history[:, i + 2]
        assert abs(change) > 1e-3 * history[0, i]
        np.testing.assert_allclose(change, integral, rtol=2e-4)


def test_order_in_time_of_the_whole_scheme():
    omega, errors = random_field(32, 5), []
    finest = Stepper(32, 5e-3, 1 / 1280)
    exact = finest.advance(state(omega, finest), 640)
    for steps in (20, 40, 80):
        s = Stepper(32, 5e-3, 0.5 / steps)
        errors.append(np.abs(s.advance(state(omega, s), steps) - exact).max() / np.abs(exact).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 1e-5
    assert (orders > 1.9).all()


def test_against_an_independent_solver():
    """scipy's RK45 on u·∇ω in advective form, padded to 3/2 of the points, derivatives by the full FFT."""
    from scipy.integrate import solve_ivp

    n, big, nu, time = 24, 48, 2e-3, 0.3
    omega = random_field(n, 7, kmax=3)
    X, Y = points(n)
    force = 0.3 * np.cos(TAU * (X + 2 * Y))
    k = np.fft.fftfreq(n, 1 / n)
    kept = np.abs(k) <= 7
    k1, k2 = k[:, None], k[None]
    square = TAU**2 * (k1**2 + k2**2)
    inverse = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)
    where = np.ix_(k[kept].astype(int), k[kept].astype(int))

    def on_big(hat):
        padded = np.zeros((big, big), complex)
        padded[where] = hat[np.ix_(kept, kept)]
        return np.fft.ifft2(padded, norm="forward").real

    def rate(_, flat):
        w = flat.view(complex).reshape(n, n)
        psi = inverse * w
        product = on_big(1j * TAU * k2 * psi) * on_big(1j * TAU * k1 * w)
        product -= on_big(1j * TAU * k1 * psi) * on_big(1j * TAU * k2 * w)
        change = np.zeros((n, n), complex)
        change[np.ix_(kept, kept)] = np.fft.fft2(product, norm="forward")[where]
        return (np.fft.fft2(force, norm="forward") - change - nu * square * w).reshape(-1).view(float)

    start = np.fft.fft2(omega, norm="forward").reshape(-1).view(float)
    solved = solve_ivp(rate, (0, time), start, rtol=1e-9, atol=1e-12)
    reference = np.fft.ifft2(solved.y[:, -1].copy().view(complex).reshape(n, n), norm="forward").real
    s = Stepper(n, nu, time / 300)
    result = evaluate(band_of(s.advance(state(omega, s), 300, state(force, s))), (n, n))[0]
    np.testing.assert_allclose(result, reference, atol=2e-6 * np.abs(reference).max())
    assert np.abs(reference - omega).max() > 0.1 * np.abs(omega).max()


def test_a_band_needs_room():
    with pytest.raises(ValueError, match="24 points hold wavenumbers up to 7, got 8"):
        state_of(np.zeros((1, 17, 9), complex), 24)
