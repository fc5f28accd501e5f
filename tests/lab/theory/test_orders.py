"""Every statement holds as measured, and fails when its weights are broken."""

import numpy as np
import pytest

from quadnorm.lab.theory import averages, layers, statement

NAMES = ("means", "uniform", "consistency", "layers", "periodic", "endpoint", "blend", "anchoring", "outside")


def failing(name):
    return {check.what for check in statement(name).measure().checks if not check.holds}


@pytest.mark.parametrize("name", NAMES)
def test_it_holds(name):
    evidence = statement(name).measure()
    assert evidence.checks
    assert not [check for check in evidence.checks if not check.holds]
    for series in evidence.series:
        assert len(series.x) >= 5
        assert series.fit.misfit < series.misfit


# What must fail, at least, when equal weights take the place of quadrature.
EQUAL = {
    "means": {f"order of {d}-D, trapezoid" for d in (1, 2, 3)} | {f"{d}-D, error / (C h²)" for d in (1, 2, 3)},
    "uniform": {"identity, in units of rounding", "mixture of the weights, in units of rounding"},
    "consistency": {"order of trapezoid (QuadNorm)"},
    "layers": {f"order of {m}, trapezoid, {p} P" for m in layers.MODES for p in ("linear", "cubic")}
    | {f"order of {m}, to the exact output" for m in layers.MODES},
    "periodic": {"trapezoid folded − periodic weights", "control with both ends: largest difference"},
    "endpoint": {"order of trapezoid − uniform", "perturbation / (h |∫u − ½(u(0)+u(1))|)"},
    "blend": {
        "μ_b against the measure's mean, in units of rounding",
        "v_b against the measure's variance, likewise",
        "BlendQuadNorm against the formula, likewise",
        "order of bias of the mean, α = 0",
    },
    "anchoring": {f"order of mean, {d}-D" for d in (1, 2, 3)}
    | {"order of layer output, 2-D", "order of mean, uneven training nodes"}
    | {"order of training grid to 4× finer, anchored"},
    "outside": {"order of disc, trapezoid mean", "order of ReLU, trapezoid mean"}
    | {"order of cell centres, trapezoid weights"},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_equal_weights_fail(name, equal_weights):
    assert failing(name) >= EQUAL[name]


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("means", "order of 2-D, trapezoid"),
        ("uniform", "identity, in units of rounding"),
        ("layers", "order of layer, trapezoid, cubic P"),
        ("endpoint", "perturbation / (h |∫u − ½(u(0)+u(1))|)"),
        ("blend", "v_b against the measure's variance, likewise"),
        ("anchoring", "order of mean, 1-D"),
    ],
)
def test_nearly_right_weights_fail(name, check, heavy_ends):
    assert check in failing(name)


def test_the_inequality_of_the_proof_holds_and_is_sharp(monkeypatch):
    """An inequality does not care about weights; it fails for another norm, and with constants a little smaller."""
    assert statement("lipschitz").measure().holds
    whole = layers.left_over_right
    monkeypatch.setattr(layers, "left_over_right", lambda *sides: whole(*sides) / 0.99)
    assert len(failing("lipschitz")) == 3  # the three worst triples
    monkeypatch.setattr(layers, "left_over_right", whole)
    monkeypatch.setattr(layers, "normalized", lambda x, mean, variance: 2 * (x - mean) / (variance + layers.EPSILON))
    assert "worst triple, x alone moves: left / right" in failing("lipschitz")


def test_half_weights_on_a_periodic_grid_fail(halved_periodic):
    assert failing("periodic") >= {"weights that are not 1/N", "QuadNorm − PyTorch's norm, in units of rounding"}


def _integral(f):
    """Gauss–Legendre with 60 nodes: exact to rounding for these integrands."""
    t, w = np.polynomial.legendre.leggauss(60)
    return float((w / 2) @ f((t + 1) / 2))


def test_closed_forms_of_the_fields():
    def f(t):
        return np.exp(t) + np.sin(3 * t)

    assert pytest.approx(_integral(f), rel=1e-13) == averages.MEAN
    assert pytest.approx(_integral(lambda t: f(t) ** 2), rel=1e-13) == averages.SQUARE
    assert pytest.approx((f(0) + f(1)) / 2) == averages.ENDS
    assert pytest.approx(np.e + 3 * np.cos(3) - 4) == averages.SLOPES


def test_closed_forms_of_the_rough_field():
    """∫₀¹ |t − 1/3|^{3/2}: substitute s = |t − 1/3| = r² on either side of the kink."""
    left = _integral(lambda r: 2 * (r * 3**-0.5) ** 4 * 3**-0.5)
    right = _integral(lambda r: 2 * (r * (2 / 3) ** 0.5) ** 4 * (2 / 3) ** 0.5)
    assert pytest.approx(left + right, rel=1e-13) == averages.ROUGH_MEAN
    assert pytest.approx((3**-1.5 + (2 / 3) ** 1.5) / 2) == averages.ROUGH_ENDS


def test_closed_forms_of_the_layers_field():
    """Moments of f(x)f(y), f(x), f(x)y², x² − f(y), by a product Gauss rule."""
    t, w = np.polynomial.legendre.leggauss(40)
    x, y = np.meshgrid((t + 1) / 2, (t + 1) / 2, indexing="ij")
    W = np.outer(w, w) / 4

    def f(t):
        return np.exp(t) + np.sin(3 * t)

    channels = (f(x) * f(y), f(x), f(x) * y**2, x**2 - f(y))
    np.testing.assert_allclose([(W * u).sum() for u in channels], layers.MEANS, rtol=1e-12)
    np.testing.assert_allclose([(W * u**2).sum() for u in channels], layers.SQUARES, rtol=1e-12)
    s = np.linspace(0, 1, 5)
    x, y = np.meshgrid(s, s, indexing="ij")
    np.testing.assert_allclose(layers.field(5)[0], (f(x) * f(y), f(x), f(x) * y**2, x**2 - f(y)), rtol=1e-13)
