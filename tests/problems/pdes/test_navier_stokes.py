"""Navier–Stokes on the torus as a problem: its law, accuracy, sampling contract and parameters."""

import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.problems.solvers.spectral import band_of, evaluate

TAU = 2 * np.pi


@pytest.fixture(scope="module")
def short():
    return problem("navier-stokes", start=0.25, horizon=0.5)


@pytest.fixture(scope="module")
def instances(short):
    return short.instances(range(3), seed=4)


def test_default_accuracy_against_finer_runs():
    """A third of the step, and half as many points again: both within 10⁻⁵, as the card says."""
    default = problem("navier-stokes").instances([0], seed=4)
    for change in ({"dt": 1 / 96}, {"points": 192}):
        finer = problem("navier-stokes", **change).instances([0], seed=4)
        for name in ("before", "after"):
            a, b = (evaluate(i[name], (192, 192))[0] for i in (default, finer))
            assert np.linalg.norm(a - b) < 1e-5 * np.linalg.norm(b)


def test_initial_law_and_force(short):
    """E|ω̂ₖ|² = 7³(4π²|k|²+49)^(−2.5), no mean; f as written in the card, on nodes built here."""
    band = short.initial(range(400), seed=1)
    assert (band[:, 42, 0] == 0).all()
    np.testing.assert_array_equal(band[:, 41, 0], np.conj(band[:, 43, 0]))
    for k1, k2 in [(0, 1), (1, 0), (-3, 2), (10, 10), (-42, 42)]:
        expected = 7**3 * (4 * np.pi**2 * (k1**2 + k2**2) + 49) ** -2.5
        ratio = (np.abs(band[:, k1 + 42, k2]) ** 2).mean() / expected
        assert 0.8 < ratio < 1.25  # 400 samples of an exponential variable: standard error 5 %
    X, Y = np.meshgrid(np.arange(20) / 20, np.arange(20) / 20, indexing="ij")
    f = evaluate(band_of(short.force()), (20, 20))[0]
    np.testing.assert_allclose(f, 0.1 * (np.sin(TAU * (X + Y)) + np.cos(TAU * (X + Y))), atol=1e-14)


@pytest.mark.parametrize("shape", [(8, 8), (31, 12), (85, 85), (128, 128), (150, 90)])
def test_evaluation_is_the_sum_of_waves(short, instances, shape):
    coefficients = instances["after"][:1]
    k1, k2 = np.arange(-42, 43), np.arange(43)
    left = np.exp(1j * TAU * np.outer(np.arange(shape[0]) / shape[0], k1))
    right = np.exp(1j * TAU * np.outer(k2, np.arange(shape[1]) / shape[1])) * np.where(k2 == 0, 1, 2)[:, None]
    np.testing.assert_allclose(evaluate(coefficients, shape)[0], (left @ coefficients[0] @ right).real, atol=1e-12)


def test_matched_instances(short):
    grids = [8, 16, 32, 64, 128, 33, 66, (24, 40), (48, 80)]
    values = dict(zip(map(str, grids), short.sample_many([1], grids, seed=2, dtype=torch.float64), strict=True))
    for coarse, fine in [(8, 16), (16, 32), (64, 128), (33, 66), ((24, 40), (48, 80))]:
        for a, b in zip(values[str(coarse)], values[str(fine)], strict=True):
            torch.testing.assert_close(b[..., ::2, ::2], a, rtol=0, atol=1e-13)
    x, y = values["32"]
    assert x.shape == y.shape == (1, 1, 32, 32)
    assert (x - y).norm() > 0.02 * x.norm()


def test_the_same_bits_whatever_the_batch(short, instances):
    alone = short.instances([2], seed=4)
    turned = short.instances([2, 0], seed=4, workers=2)
    for name in ("before", "after", "courant"):
        assert (alone[name][0] == instances[name][2]).all()
        assert (turned[name] == instances[name][[2, 0]]).all()
    assert not (short.initial([0], seed=5) == short.initial([0], seed=4)).all()


def test_through_the_cache(tmp_path, monkeypatch):
    """Coefficients are kept in full: what is read back is what was made, to the bit."""
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path))
    p = problem("navier-stokes", start=0.0, horizon=1 / 16)
    for _ in range(2):  # made, then read
        for kept, fresh in zip(p.dataset([1, 5], 20, seed=2), p.sample([1, 5], 20, seed=2), strict=True):
            assert torch.equal(kept, fresh)


def test_a_step_too_long_is_halved_and_recorded():
    p = problem("navier-stokes", start=0.0, horizon=1.0, dt=1.0)
    drawn = p.instances([0])
    steps = int(drawn["steps"][0])
    assert steps in (2, 4, 8, 16)
    assert drawn["courant"][0] < 1.7
    direct = problem("navier-stokes", start=0.0, horizon=1.0, dt=1 / steps).instances([0])
    assert (direct["after"] == drawn["after"]).all()
    with pytest.raises(RuntimeError, match=r"sample 0 of seed 0 is unstable even with a step of"):
        problem("navier-stokes", start=0.0, horizon=20.0, dt=1.0, forcing=100.0).instances([0])


def test_steps_lie_on_one_trajectory():
    """Sample 2 of three starts begins where two steps of sample 2 lead from the first start, and ends after a third."""
    p = problem("navier-stokes-steps", start=0.0, horizon=0.125, starts=3)
    pair, one = p.instances([2], seed=1), p.after(1).instances([2], seed=1)
    two, three = (p.after(n).instances([2], seed=1) for n in (2, 3))
    for got, expected in ((pair["before"], two["after"]), (pair["after"], three["after"])):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
    assert (one["before"] == three["before"]).all()
    assert np.abs(one["after"] - two["after"]).max() > 1e-4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"points": 64}, "at least 127"),
        ({"viscosity": -1.0}, "viscosity must be a number at least 0"),
        ({"dt": 0.0}, "dt must be a number above 0"),
        ({"dt": 10}, "at most 1, got 10.0"),
        ({"horizon": 0.0}, "horizon must be a number above 0"),
        ({"placement": "endpoint"}, "unknown placement 'endpoint'"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        problem("navier-stokes", **parameters)


def test_card_and_placement(short):
    assert short.placement == "periodic"
    for word in ("∂ω/∂t", "dealiasing", "Crank–Nicolson", "viscosity=0.0001", "Left open"):
        assert word in short.card()
