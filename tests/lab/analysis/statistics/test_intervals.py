"""Estimates and their intervals: against direct inversion of the tests that they stand for, and by coverage."""

from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from quadnorm.lab.analysis.statistics.intervals import (
    Estimate,
    d_estimate,
    mean_estimate,
    ratio_estimate,
    share_estimate,
    spread_estimate,
)

errors = st.lists(st.floats(1.0, 50.0), min_size=3, max_size=8)


def test_a_mean_has_students_interval():
    x = [3.0, 3.5, 4.4]
    low, high = stats.t.interval(0.9, 2, np.mean(x), stats.sem(x))
    e = mean_estimate(x, 0.9)
    assert (e.value, e.low, e.high) == pytest.approx((np.mean(x), low, high))


@given(errors, st.integers(0, 99))
def test_fiellers_ends_are_where_the_paired_t_test_turns(b, key):
    """ρ is inside if and only if a t-test does not tell a from ρ·b."""
    rng = np.random.default_rng(key)
    b = np.array(b) + rng.uniform(0, 1, len(b))
    a = b * rng.uniform(0.3, 1.5, len(b))
    e = ratio_estimate(a, b)
    assert e.value == pytest.approx(a.mean() / b.mean())
    p = lambda rho: stats.ttest_rel(a, rho * b).pvalue  # noqa: E731
    if e.low > -inf:
        assert p(e.low) == pytest.approx(0.05, abs=1e-6)
        assert p(e.high) == pytest.approx(0.05, abs=1e-6)
        assert e.low <= e.value <= e.high
    else:  # b may be zero: even a very large ratio is not excluded
        assert p(1e9) > 0.05


def test_a_ratio_of_equal_spread_is_exact():
    e = ratio_estimate([5.0, 5.5, 6.0], [10.0, 11.0, 12.0])
    assert (e.low, e.high) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("d", [0.0, 0.8, 6.0, -2.0])
def test_cohens_d_covers_the_truth(d):
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        e = d_estimate(rng.normal(-d, 1, 4), rng.normal(0, 1, 4))
        inside += e.low <= d <= e.high
    assert 0.91 <= inside / 400 <= 0.98


def test_a_ratio_of_spreads_is_that_of_an_f_test():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, 6), rng.normal(0, 2, 6)
    e = spread_estimate(a, b)
    variance = (a.std(ddof=1) / b.std(ddof=1)) ** 2
    assert e.low**2 == pytest.approx(variance / stats.f.ppf(0.975, 5, 5))
    assert e.high**2 == pytest.approx(variance / stats.f.ppf(0.025, 5, 5))


@pytest.mark.parametrize(("k", "n"), [(0, 5), (3, 5), (5, 5), (7, 10)])
def test_a_share_is_clopper_and_pearsons(k, n):
    wanted = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    e = share_estimate(k, n)
    assert (e.value, e.low, e.high) == pytest.approx((k / n, wanted.low, wanted.high))


def test_one_seed_and_failed_runs_have_no_interval():
    for e in (mean_estimate([3.0]), ratio_estimate([3.0], [4.0]), ratio_estimate([nan, 1.0], [2.0, 2.0])):
        assert not e.has_interval
        assert e.note
    assert isnan(spread_estimate([1.0, 2.0], [3.0, 3.0]).value)
    assert isnan(d_estimate([1.0], [2.0]).value)


def test_scaled_and_shifted():
    e = Estimate(0.7, 0.6, 0.9, 3, "note").map(-100, 100)
    assert (e.value, e.low, e.high) == pytest.approx((30.0, 10.0, 40.0))
    assert (e.n, e.note) == (3, "note")
