"""Comparisons of paired runs: t-tests, Holm, bootstrap, equivalence, against closed forms and direct counting."""

from itertools import product
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from statsmodels.stats.multitest import multipletests

from quadnorm.lab.analysis.statistics.summaries import (
    PairedTest,
    bootstrap_improvement,
    compare,
    holm,
    paired_t,
    tost,
)
from quadnorm.lab.studies import paper_table
from tests.lab.analysis.printed import std_from_interval

LAYER = [10.6, 11.3, 10.9, 11.6, 10.4]
QUAD = [7.0, 7.4, 6.8, 7.5, 6.9]
BLEND = [10.1, 11.0, 10.3, 11.2, 10.2]
samples = st.lists(st.floats(0.5, 50), min_size=2, max_size=12)


def student_cdf(t: float, df: int) -> float:
    """P(T ≤ t) by integrating the density, with its constant by the same sum: no table, no gamma function."""
    x = np.linspace(-400, 400, 4_000_001)
    density = (1 + x**2 / df) ** (-(df + 1) / 2)
    return float(density[x <= t].sum() / density.sum())


# --- paired tests ----------------------------------------------------------------------------------------------------


def test_paired_t_by_hand():
    """d = −3.6, −3.9, −4.1, −4.1, −3.5: mean −3.84, s = √(0.312/4), t = −3.84·√5/s; p from the integrated density."""
    test = paired_t(QUAD, LAYER)
    t = -3.84 * sqrt(5) / sqrt(0.312 / 4)
    assert test.difference == pytest.approx(-3.84)
    assert test.t == pytest.approx(t)
    assert test.p == pytest.approx(2 * student_cdf(t, 4), rel=1e-3)
    half = 2.7764451 * sqrt(0.312 / 4) / sqrt(5)
    assert (test.low, test.high) == pytest.approx((-3.84 - half, -3.84 + half), rel=1e-6)


@given(samples, st.integers(0, 2**32 - 1))
def test_pairs_are_by_seed_not_by_order(x, key):
    rng = np.random.default_rng(key)
    y = [v * rng.uniform(0.5, 1.5) for v in x]
    order = rng.permutation(len(x))
    shuffled = paired_t({int(i): x[i] for i in order}, dict(enumerate(y)))
    plain = paired_t(x, y)
    assert (shuffled.difference, shuffled.p) == (plain.difference, plain.p)


@given(samples, st.floats(-5, 5))
def test_the_test_is_antisymmetric_and_ignores_a_common_shift(x, shift):
    y = [v + (-1) ** i * 0.1 * (i + 1) for i, v in enumerate(x)]
    one, other, moved = paired_t(x, y), paired_t(y, x), paired_t([v + shift for v in x], [v + shift for v in y])
    assert (one.difference, one.p, one.low) == pytest.approx((-other.difference, other.p, -other.high))
    assert moved.p == pytest.approx(one.p, rel=1e-6)


def test_differences_without_spread():
    assert paired_t(LAYER, LAYER).p == 1
    assert paired_t(LAYER, LAYER).t == 0
    shifted = paired_t([v - 1 for v in LAYER], LAYER)
    assert (shifted.t, shifted.p) == (-inf, 0.0)
    assert shifted.low == shifted.high == pytest.approx(-1)
    assert "same difference" in shifted.note


def test_pairing_that_does_not_fit_is_refused_with_the_seeds():
    with pytest.raises(ValueError, match=r"seeds \[2, 3\] are on one side only.*common seeds \[0, 1\]"):
        paired_t({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 1: 2.0, 3: 3.0})
    with pytest.raises(ValueError, match="there are 2 and 3"):
        paired_t([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="give both by seed"):
        paired_t({0: 1.0}, [1.0])


def test_one_seed_and_failed_runs_have_no_p():
    assert isnan(paired_t([1.0], [2.0]).p)
    assert paired_t([1.0], [2.0]).difference == -1
    bad = paired_t([1.0, nan, 3.0], LAYER[:3])
    assert isnan(bad.p)
    assert bad.note == "1 of 6 runs has no finite error"


def holm_by_definition(p: list[float]) -> list[float]:
    """Largest over the hypotheses at most as large of (m − rank)·p, capped at 1."""
    m = len(p)
    rank = {i: r for r, i in enumerate(sorted(range(m), key=lambda i: p[i]))}
    return [min(1.0, max((m - rank[j]) * p[j] for j in range(m) if rank[j] <= rank[i])) for i in range(m)]


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=6))
def test_holm_is_its_definition(p):
    tests = {i: PairedTest(0.0, 0.0, 0.0, 0.0, v, 5) for i, v in enumerate(p)}
    adjusted = holm(tests)
    assert [adjusted[i].p_holm for i in range(len(p))] == pytest.approx(holm_by_definition(p))
    assert [adjusted[i].significant for i in range(len(p))] == [v <= 0.05 for v in holm_by_definition(p)]


def test_holm_is_that_of_statsmodels():
    p = np.random.default_rng(0).uniform(0, 0.1, 8) ** 2
    adjusted = holm({i: PairedTest(0.0, 0.0, 0.0, 0.0, v, 5) for i, v in enumerate(p)})
    reject, expected, *_ = multipletests(p, alpha=0.01, method="holm")
    assert [t.p_holm for t in adjusted.values()] == pytest.approx(list(expected))
    strict = holm(adjusted, alpha=0.01)
    assert [t.significant for t in strict.values()] == list(reject)
    assert 0 < reject.sum() < 8


def test_holm_by_hand():
    """0.01·4, then 0.02·3, 0.03·2 → 0.06 carried along, and 0.04·1 → 0.06: only the first survives."""
    tests = {k: PairedTest(0.0, 0.0, 0.0, 0.0, p, 5) for k, p in zip("abcd", (0.03, 0.01, 0.04, 0.02), strict=True)}
    adjusted = holm(tests)
    assert {k: round(t.p_holm, 9) for k, t in adjusted.items()} == {"a": 0.06, "b": 0.04, "c": 0.06, "d": 0.06}
    assert {k for k, t in adjusted.items() if t.significant} == {"b"}
    assert holm({}) == {}


def test_a_failed_method_does_not_make_the_others_easier():
    tests = {k: PairedTest(0.0, 0.0, 0.0, 0.0, p, 5) for k, p in (("a", 0.02), ("b", nan))}
    adjusted = holm(tests)
    assert adjusted["a"].p_holm == pytest.approx(0.04)
    assert isnan(adjusted["b"].p_holm)
    assert not adjusted["b"].significant


def test_compare_corrects_one_family():
    got = compare({"LayerNorm": LAYER, "QuadNorm": QUAD, "BlendQuadNorm": BLEND}, "LayerNorm")
    p = [stats.ttest_rel(QUAD, LAYER).pvalue, stats.ttest_rel(BLEND, LAYER).pvalue]
    assert [got["QuadNorm"].p_holm, got["BlendQuadNorm"].p_holm] == pytest.approx(holm_by_definition(p))
    with pytest.raises(ValueError, match="no runs of the baseline 'None'"):
        compare({"LayerNorm": LAYER}, "None")


# --- bootstrap -------------------------------------------------------------------------------------------------------


def test_bootstrap_against_every_resample_there_is():
    """Three pairs have 27 equally likely resamples: the exact distribution, whose quantiles the interval must hit."""
    a, b = [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]
    exact = sorted(1 - sum(a[i] for i in draw) / sum(b[i] for i in draw) for draw in product(range(3), repeat=3))
    got = bootstrap_improvement(a, b, resamples=20_000)
    assert got.value == pytest.approx(1 - 10 / 15)
    # 2.5 % of 27 is 0.675, so the ends are the outermost resamples (a tie-free check would need more pairs).
    assert got.low == pytest.approx(exact[0])
    assert got.high == pytest.approx(exact[-1])


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_bootstrap_is_scipys_number_for_number(level):
    def ratio(x, y, axis):
        return 1 - x.mean(axis=axis) / y.mean(axis=axis)

    options = {"paired": True, "n_resamples": 10_000, "confidence_level": level, "method": "percentile"}
    wanted = stats.bootstrap((BLEND, LAYER), ratio, rng=np.random.default_rng(7), **options).confidence_interval
    got = bootstrap_improvement(BLEND, LAYER, level=level, seed=7)
    assert (got.low, got.high) == (wanted.low, wanted.high)


def test_bootstrap_is_paired_seeded_and_free_of_units():
    scaled = bootstrap_improvement([0.7 * v for v in LAYER], LAYER)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((0.3, 0.3, 0.3))  # unpaired it would have a width
    assert bootstrap_improvement(QUAD, LAYER) == bootstrap_improvement(QUAD, LAYER)
    assert bootstrap_improvement(QUAD, LAYER, seed=1) != bootstrap_improvement(QUAD, LAYER)
    percent, plain = (
        bootstrap_improvement(QUAD, LAYER),
        bootstrap_improvement([q / 100 for q in QUAD], [v / 100 for v in LAYER]),
    )
    assert (percent.low, percent.high) == pytest.approx((plain.low, plain.high))


def test_bootstrap_at_the_edges():
    one = bootstrap_improvement([1.0], [2.0])
    assert one.value == 0.5
    assert isnan(one.low)
    assert "one seed" in one.note
    assert isnan(bootstrap_improvement([nan, 1.0], [1.0, 1.0]).value)
    with pytest.raises(ValueError, match="must be positive"):
        bootstrap_improvement([1.0, 1.0], [0.0, 1.0])


def test_bootstrap_width_on_runs_like_the_papers():
    """FNO on Darcy at 256², 10 seeds: runs with the printed means and spreads, every pairing between none and perfect.

    The paper prints 35.4 % [33.0, 37.9]. Its runs are unknown, but not their spreads: some pairing must give its width.
    """
    z = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    z = z / z.std(ddof=1)
    e = paper_table("extreme-crossres").errors()

    def runs(method, order):
        cell = e[method, 256]
        return cell.value + std_from_interval(cell.spread, 10) * z[order]

    rng = np.random.default_rng(0)
    widths = []
    for order in (np.arange(10), np.arange(10)[::-1], *(rng.permutation(10) for _ in range(3))):
        got = bootstrap_improvement(runs("QuadNorm", order), runs("LayerNorm", np.arange(10)), resamples=2000)
        assert got.value == pytest.approx(0.354, abs=0.001)
        widths.append(got.high - got.low)
    assert min(widths) < 0.049 < max(widths)


# --- equivalence -----------------------------------------------------------------------------------------------------


def test_tost_is_two_one_sided_tests_and_its_interval():
    """p is the larger of the two one-sided p-values, P(T > (mean + m)·√n/s) and P(T < (mean − m)·√n/s)."""
    d = np.array(BLEND) - np.array(LAYER)
    se = d.std(ddof=1) / sqrt(5)
    for margin in (0.3, 0.5, 1.0):
        got = tost(BLEND, LAYER, margin)
        expected = max(stats.t.sf((d.mean() + margin) / se, 4), stats.t.cdf((d.mean() - margin) / se, 4))
        assert got.p == pytest.approx(expected)
        assert got.equivalent == (-margin < got.low and got.high < margin)
    half = 2.1318468 * se  # t₀.₉₅(4)
    assert (got.low, got.high) == pytest.approx((d.mean() - half, d.mean() + half), rel=1e-6)


@given(samples, st.floats(0.05, 3))
def test_equivalent_exactly_if_the_interval_lies_inside(x, margin):
    y = [v + 0.3 * np.sin(7 * i) for i, v in enumerate(x)]
    got = tost(x, y, margin)
    inside = max(abs(got.low), abs(got.high))
    assume(abs(inside - margin) > 1e-9)
    assert got.equivalent == (inside < margin)


def test_tost_is_that_of_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    rng = np.random.default_rng(3)
    for n, margin in ((2, 0.5), (3, 0.1), (10, 0.4), (10, 3.0)):
        a, b = rng.normal(size=(2, n))
        assert tost(a, b, margin).p == pytest.approx(ttost_paired(a, b, -margin, margin)[0], rel=1e-9)


def test_tost_of_the_paper():
    """10 pairs with mean difference 0.0024 and the printed 90 % interval of half-width 0.0035: p far below 0.0001."""
    z = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    d = 0.0024 + z / z.std(ddof=1) * 0.0035 * sqrt(10) / stats.t.ppf(0.95, 9)
    got = tost(2.0944 + d, np.full(10, 2.0944), margin=0.5)
    low, high = paper_table("tost").panels[0].column("Value")[3].interval
    assert (got.low, got.high) == pytest.approx((low, high), abs=5e-5)
    assert got.p < 1e-4
    assert got.equivalent


def test_tost_at_the_edges():
    assert tost(LAYER, LAYER).p == 0
    assert tost([v + 1 for v in LAYER], LAYER, margin=0.5).p == 1
    assert tost([v + 1 for v in LAYER], LAYER, margin=2).equivalent
    one = tost([1.0], [1.1])
    assert isnan(one.p)
    assert not one.equivalent
    assert not tost([1.0, nan], [1.0, 1.0]).equivalent
    with pytest.raises(ValueError, match="margin must be positive"):
        tost(LAYER, LAYER, margin=0)


@given(hnp.arrays(np.float64, st.integers(3, 12), elements=st.floats(0.1, 50)), st.floats(0.5, 0.999))
def test_the_paired_test_is_scipys(a, level):
    b = a[::-1] * 1.1 + np.arange(a.size) % 3
    reference = stats.ttest_rel(a, b)
    assume(np.ptp(a - b) > 1e-6)
    comparison = paired_t(a, b, level)
    low, high = reference.confidence_interval(level)
    assert [comparison.t, comparison.p, comparison.low, comparison.high] == pytest.approx(
        [reference.statistic, reference.pvalue, low, high], rel=1e-9, abs=1e-12
    )
