"""The exact identities, for arbitrary samples: algebra, so no smoothness and no tolerance beyond rounding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.theory.averages import difference, formula
from quadnorm.lab.theory.measures import limit
from quadnorm.measures import Anchored, Blend, Grid

samples = st.lists(st.floats(-100, 100), min_size=3, max_size=40)


@given(samples)
def test_counting_minus_trapezoid(values):
    f = torch.tensor(values, dtype=torch.float64)
    m = len(values)
    inside, ends = np.mean(values[1:-1]), (values[0] + values[-1]) / 2
    expected = (m - 2) / (m * (m - 1)) * (ends - inside)
    assert difference(f) == pytest.approx(expected, abs=1e-12)
    assert formula(f) == pytest.approx(expected, abs=1e-12)


@given(samples, st.floats(0, 1))
def test_law_of_total_variance(values, alpha):
    """Moments of the blend against moments of its two parts, weights written out: h inside, h/2 at the ends."""
    x = np.array(values)
    n = len(x)
    w = np.full(n, 1 / (n - 1))
    w[[0, -1]] /= 2
    plain, weighted = x.mean(), w @ x
    v_plain, v_weighted = x.var(), w @ (x - weighted) ** 2
    mean = alpha * plain + (1 - alpha) * weighted
    variance = alpha * v_plain + (1 - alpha) * v_weighted + alpha * (1 - alpha) * (plain - weighted) ** 2
    blend = Blend(alpha, Grid("trapezoid"))
    assert float(blend.integrate(torch.from_numpy(x))) == pytest.approx(mean, abs=1e-11)
    assert float(blend.integrate(torch.from_numpy((x - mean) ** 2))) == pytest.approx(variance, rel=1e-9, abs=1e-9)


@given(st.integers(2, 40), st.integers(2, 80), st.floats(-5, 5), st.floats(-5, 5))
def test_anchored_integrates_lines_exactly(n0, n, a, b):
    """∫(a + bt) dμ = a + b/2 for every symmetric μ; hats reproduce lines, so the weights do too."""
    t = torch.arange(n, dtype=torch.float64) / (n - 1)
    assert float(Anchored(n0).integrate(a + b * t)) == pytest.approx(a + b / 2, abs=1e-12)


@given(st.integers(2, 40), st.integers(1, 8))
def test_anchored_error_is_within_its_bound(n0, refinement):
    """|Σ w f − ∫f dμ| ≤ h²/8 max|f''| for f = t³: ∫f dμ = (1 − 1/n₀)/4 + 1/(2n₀), max|f''| = 6."""
    n = refinement * (n0 - 1) + 1
    t = torch.arange(n, dtype=torch.float64) / (n - 1)
    exact = (1 - 1 / n0) / 4 + 1 / (2 * n0)
    assert abs(float(Anchored(n0).integrate(t**3)) - exact) <= 6 / 8 / (n - 1) ** 2 + 1e-13


def test_the_limit_is_the_training_grids_measure():
    """(1 − 1/9)∫f + (1/9)·½(f(0) + f(1)) for e^t + sin 3t and its square, by Gauss's rule."""
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = (t + 1) / 2, w / 2

    def f(t):
        return np.exp(t) + np.sin(3 * t)

    for power in (1, 2):
        exact = 8 / 9 * (w @ f(t) ** power) + (f(0) ** power + f(1) ** power) / 18
        assert limit(power) == pytest.approx(exact, rel=1e-13)
