"""The table of 1-D rules, against calculus. Nodes are built here, from the definition of each placement."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.measures import RULES, rule

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 33, 64, 65, 128, 256]


def nodes(placement: str, n: int) -> np.ndarray:
    """The placements' definitions, written down a second time."""
    if placement == "cell":
        return np.array([(j + 0.5) / n for j in range(n)])
    if placement in ("periodic", "left"):
        return np.array([j / n for j in range(n)])
    if n == 1:
        return np.array([0.5])
    if placement == "endpoint":
        return np.array([j / (n - 1) for j in range(n)])
    if placement == "clenshaw-curtis":
        return np.array([(1 - math.cos(math.pi * j / (n - 1))) / 2 for j in range(n)])
    if placement == "gauss-legendre":
        return (1 + np.polynomial.legendre.leggauss(n)[0]) / 2
    if placement == "interior":
        return np.array([(j + 1) / (n + 1) for j in range(n)])
    assert placement == "gauss-lobatto"
    inner = np.polynomial.legendre.Legendre.basis(n - 1).deriv().roots() if n > 2 else np.empty(0)
    return (1 + np.concatenate([[-1], np.sort(inner.real), [1]])) / 2


EXACT = {  # degree, by rule and n
    "counting": lambda n: 0,
    "trapezoid": lambda n: 1,
    "simpson": lambda n: 3 if n >= 3 else 1,
    "boole": lambda n: 5 if n >= 5 else 3 if n >= 3 else 1,
    "midpoint": lambda n: 1,
    "left": lambda n: 1 if n > 1 else 0,
    "interior": lambda n: 1,
    "gauss-legendre": lambda n: 2 * n - 1,
    "gauss-lobatto": lambda n: 2 * n - 3 if n > 1 else 1,
    "clenshaw-curtis": lambda n: n if n % 2 else n - 1,
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", RULES)
def test_weights_sum_to_one_and_sit_on_the_stated_nodes(name, n):
    r = rule(name)
    w = r.weights(n)
    assert w.shape == (n,)
    assert w.dtype == torch.float64
    assert w.sum().item() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(r.nodes(n).numpy(), nodes(r.placement, n), atol=3e-13)


@pytest.mark.parametrize("n", [n for n in SIZES if n <= 33])
@pytest.mark.parametrize("name", EXACT)
def test_exactness(name, n):
    """∫₀¹ x^k dx = 1/(k+1) for every k up to the degree, and not for the next one."""
    x, w = nodes(rule(name).placement, n), rule(name).weights(n).numpy()
    top = EXACT[name](n)
    for k in range(min(top, 24) + 1):
        assert w @ x**k == pytest.approx(1 / (k + 1), abs=1e-13), k
    if top < 12 and n > 1 and not (name == "counting" and n == 2):
        # Around ½, so that a symmetric rule is not exact for one degree more by luck of parity alone.
        k = top + 1
        exact = 0.0 if k % 2 else 2 * 0.5 ** (k + 1) / (k + 1)
        missed = abs(w @ (x - 0.5) ** k - exact)
        even = abs(w @ (x - 0.5) ** (k + 1) - 2 * 0.5 ** (k + 2) / (k + 2))
        assert max(missed, even) > 1e-9


def test_the_table_states_its_degrees_honestly():
    for name, degree in EXACT.items():
        for n in SIZES:
            stated = rule(name).degree(n)
            assert stated == degree(n) or (name == "counting" and n < 3 and stated == 1)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n", SIZES)
def test_weights_are_positive(name, n):
    w = rule(name).weights(n)
    if name == "left" and n == 2:
        assert w.tolist() == [0, 1]  # the only weights on {0, ½} that integrate lines over [0, 1]
    else:
        assert (w > 0).all()


@pytest.mark.parametrize("name", [r for r in RULES if r != "left"])
@pytest.mark.parametrize("n", [5, 6, 7, 8, 64])
def test_weights_are_symmetric(name, n):
    w = rule(name).weights(n)
    torch.testing.assert_close(w, w.flip(0), rtol=0, atol=1e-16)


def observed_order(name: str, sizes: list[int], f, exact: float) -> float:
    errors = []
    for n in sizes:
        x, w = nodes(rule(name).placement, n), rule(name).weights(n).numpy()
        errors.append(abs(w @ f(x) - exact))
    h = [1 / (n + {"endpoint": -1, "interior": 1}.get(rule(name).placement, 0)) for n in sizes]
    return np.polyfit(np.log(h), np.log(errors), 1)[0]


@pytest.mark.parametrize(
    ("name", "order", "sizes"),
    [
        ("counting", 1, [17, 33, 65, 129, 257]),
        ("counting", 1, [16, 32, 64, 128, 256]),
        ("trapezoid", 2, [17, 33, 65, 129, 257]),
        ("trapezoid", 2, [16, 32, 64, 128, 256]),
        ("simpson", 4, [17, 33, 65, 129, 257]),
        ("simpson", 4, [16, 32, 64, 128, 256]),
        ("boole", 6, [17, 33, 65, 129]),
        ("boole", 6, [16, 32, 64, 128]),
        ("boole", 6, [18, 34, 66, 130]),
        ("boole", 6, [19, 35, 67, 131]),
        ("midpoint", 2, [16, 32, 64, 128, 256]),
        ("interior", 2, [16, 32, 64, 128, 256]),
        ("left", 2, [256, 512, 1024, 2048]),  # its h² and h³ terms cancel near n = 25
    ],
)
def test_order_on_a_smooth_function(name, order, sizes):
    """∫₀¹ e^{2x} sin 3x dx = [e^{2x}(2 sin 3x − 3 cos 3x)/13]₀¹."""
    primitive = lambda x: math.exp(2 * x) * (2 * math.sin(3 * x) - 3 * math.cos(3 * x)) / 13  # noqa: E731
    exact = primitive(1) - primitive(0)
    slope = observed_order(name, sizes, lambda x: np.exp(2 * x) * np.sin(3 * x), exact)
    assert slope == pytest.approx(order, abs=0.25 if order < 6 else 0.6)


@pytest.mark.parametrize("name", ["gauss-legendre", "gauss-lobatto", "clenshaw-curtis"])
def test_spectral_accuracy(name):
    """∫₀¹ e^x dx = e − 1, to rounding with a dozen nodes."""
    x, w = nodes(rule(name).placement, 14), rule(name).weights(14).numpy()
    assert w @ np.exp(x) == pytest.approx(math.e - 1, abs=1e-13)


@pytest.mark.parametrize("name", ["gauss-legendre", "gauss-lobatto", "clenshaw-curtis"])
def test_large_n_stays_accurate(name):
    r = rule(name)
    x, w = r.nodes(1500), r.weights(1500)
    assert (torch.diff(x) > 0).all()
    assert (w * torch.cos(200 * x)).sum().item() == pytest.approx(math.sin(200) / 200, abs=1e-12)


def test_gauss_legendre_against_numpy():
    x, w = np.polynomial.legendre.leggauss(40)
    torch.testing.assert_close(rule("gauss-legendre").nodes(40), torch.from_numpy((1 + x) / 2), rtol=0, atol=1e-15)
    torch.testing.assert_close(rule("gauss-legendre").weights(40), torch.from_numpy(w / 2), rtol=1e-12, atol=0)


@given(st.integers(2, 60), st.integers(0, 59))
def test_periodic_rule_is_exact_for_trigonometric_polynomials(n, k):
    """(1/n) Σ_j e^{2πikj/n} = 0 for 0 < k < n, and 1 for k = 0."""
    k = k % n
    x, w = nodes("periodic", n), rule("periodic").weights(n).numpy()
    assert w @ np.exp(2j * np.pi * k * x) == pytest.approx(float(k == 0), abs=1e-13)


def test_classical_weights():
    assert rule("trapezoid").weights(5).tolist() == [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8]
    np.testing.assert_allclose(rule("simpson").weights(5) * 12, [1, 4, 2, 4, 1], rtol=1e-15)
    np.testing.assert_allclose(rule("simpson").weights(4) * 8, [1, 3, 3, 1], rtol=1e-15)
    np.testing.assert_allclose(rule("boole").weights(5) * 90, [7, 32, 12, 32, 7], rtol=1e-15)
    np.testing.assert_allclose(rule("clenshaw-curtis").weights(3) * 6, [1, 4, 1], rtol=1e-15)


# --- the paper's propositions ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=80))
def test_uniform_minus_trapezoid_is_the_boundary_term(values):
    """prop:standard-inconsistent: uniform − trapezoid = (m−2)/(m(m−1)) · (mean of ends − mean of interior), exactly."""
    f, m = np.array(values), len(values)
    gap = rule("counting").weights(m).numpy() @ f - rule("trapezoid").weights(m).numpy() @ f
    bracket = (f[0] + f[-1]) / 2 - f[1:-1].mean()
    assert gap == pytest.approx((m - 2) / (m * (m - 1)) * bracket, abs=1e-11)


def test_the_gap_is_first_order_when_the_bracket_does_not_vanish():
    """For f = x², bracket → ½ − ⅓ = 1/6, so |uniform − trapezoid|/h → 1/6 (prop:spectral-mismatch: Θ(h))."""
    ratios = []
    for m in (17, 65, 257, 1025):
        f = np.linspace(0, 1, m) ** 2
        gap = rule("counting").weights(m).numpy() @ f - rule("trapezoid").weights(m).numpy() @ f
        ratios.append(gap * (m - 1))
    np.testing.assert_allclose(ratios[-1], 1 / 6, rtol=5e-3)
    assert all(r > 0.12 for r in ratios)


def test_counting_is_trapezoid_plus_boundary_atoms():
    """uniform = (1 − 1/n)·trapezoid + (1/n)·(δ_left + δ_right)/2."""
    for n in (2, 3, 10, 33):
        atoms = np.zeros(n)
        atoms[0] = atoms[-1] = 0.5
        np.testing.assert_allclose(
            rule("counting").weights(n), (1 - 1 / n) * rule("trapezoid").weights(n).numpy() + atoms / n, rtol=1e-14
        )


def test_periodic_grids_collapse_to_uniform():
    """prop:periodic: on j/n the trapezoid rule of the circle gives every point 1/n."""
    for n in (1, 2, 31, 64):
        # The trapezoid rule on the closed interval 0, 1/n, …, 1, with the last node folded onto the first.
        closed = np.full(n + 1, 1 / n)
        closed[0] = closed[-1] = 0.5 / n
        folded = closed[:-1].copy()
        folded[0] += closed[-1]
        np.testing.assert_allclose(rule("periodic").weights(n), folded, rtol=1e-15)


# --- names -----------------------------------------------------------------------------------------------------------


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ValueError, match="unknown rule 'trapezoidal'; did you mean 'trapezoid'"):
        rule("trapezoidal")
    with pytest.raises(ValueError, match="unknown rule 3"):
        rule(3)


def test_placements_are_names_too():
    assert rule("endpoint") is RULES["trapezoid"]
    assert rule("cell") is RULES["midpoint"]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_what_it_is(name):
    text = rule(name).weights.__doc__
    assert "xact" in text
    assert "order" in text or "converges" in text
