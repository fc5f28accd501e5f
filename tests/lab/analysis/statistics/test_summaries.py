"""Means, intervals, effect sizes and degradation, against closed forms and the numbers the paper prints."""

from itertools import permutations, product
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from quadnorm.lab.analysis.statistics.summaries import (
    baseline_ratio,
    best_or_tied,
    cohens_d,
    degradation,
    degradation_ratio,
    improvement,
    summarize,
)
from quadnorm.lab.studies import paper_table
from tests.lab.analysis.printed import best_or_overlapping, cohens_d_from_intervals, std_from_interval

LAYER = [10.6, 11.3, 10.9, 11.6, 10.4]
QUAD = [7.0, 7.4, 6.8, 7.5, 6.9]
BLEND = [10.1, 11.0, 10.3, 11.2, 10.2]
samples = st.lists(st.floats(0.5, 50), min_size=2, max_size=12)


# --- mean ± spread ---------------------------------------------------------------------------------------------------


def test_interval_by_hand():
    """Mean 10.96, squared deviations 0.1296 + 0.1156 + 0.0036 + 0.4096 + 0.3136 = 0.972, t₀.₉₇₅(4) = 2.7764."""
    s = summarize(LAYER)
    assert (s.n, s.kind, s.note) == (5, "ci95", "")
    assert s.mean == pytest.approx(10.96)
    assert s.spread == pytest.approx(2.7764451 * sqrt(0.972 / 4) / sqrt(5), rel=1e-7)
    assert (s.low, s.high) == (s.mean - s.spread, s.mean + s.spread)
    assert summarize(LAYER, "std").spread == pytest.approx(sqrt(0.972 / 5))
    assert str(s) == "10.96 ± 0.61"


@given(samples)
def test_interval_is_where_the_t_test_turns(x):
    """μ is in the interval exactly if the test of mean = μ does not reject at 5 %: its ends have p = 0.05."""
    s = summarize(x)
    assume(s.spread > 1e-3)
    assert stats.ttest_1samp(x, s.low).pvalue == pytest.approx(0.05, rel=1e-6)
    assert stats.ttest_1samp(x, s.high).pvalue == pytest.approx(0.05, rel=1e-6)


def test_interval_covers_95_percent():
    """2000 experiments of 5 normal runs: coverage within three standard errors of 0.95."""
    rng = np.random.default_rng(0)
    hits = [abs(s.mean) <= s.spread for s in (summarize(x) for x in rng.standard_normal((2000, 5)))]
    assert np.mean(hits) == pytest.approx(0.95, abs=3 * sqrt(0.95 * 0.05 / 2000))


def test_the_papers_intervals_are_of_this_kind():
    """Transolver on Helmholtz: the text gives the standard deviations 1.21 and 0.60 for the printed 0.86 and 0.43."""
    e = paper_table("transolver-helmholtz").errors()
    assert std_from_interval(e["LayerNorm", 64].spread, 10) == pytest.approx(1.21, abs=0.01)
    assert std_from_interval(e["QuadNorm", 64].spread, 10) == pytest.approx(0.60, abs=0.01)


@given(samples)
def test_interval_and_deviation_convert(x):
    assert std_from_interval(summarize(x).spread, len(x)) == pytest.approx(np.std(x, ddof=1), abs=1e-9)


def test_one_seed_and_failed_runs_are_shown_for_what_they_are():
    one = summarize([3.0])
    assert (one.mean, one.n, str(one)) == (3.0, 1, "3.00")
    assert isnan(one.spread)
    assert "one seed" in one.note
    some = summarize({0: 3.0, 1: nan, 2: 4.0})
    assert isnan(some.mean)
    assert isnan(some.spread)
    assert some.n == 3
    assert some.note == "1 of 3 runs has no finite error; the mean of the other 2 is 3.5"
    assert str(some) == "failed"
    assert summarize([inf, nan]).note == "2 of 2 runs have no finite error"


def test_what_is_not_runs_is_refused():
    with pytest.raises(ValueError, match="at least one run"):
        summarize([])
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        summarize(np.ones((2, 2)))
    with pytest.raises(TypeError, match="one error per seed"):
        summarize(["a", "b"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="did you mean 'std'"):
        summarize([1.0], "stdev")


# --- effect sizes ----------------------------------------------------------------------------------------------------


def test_cohens_d_by_hand():
    """Means 7.12 and 10.96; sample variances 0.388/4 and 0.972/4."""
    assert cohens_d(QUAD, LAYER) == pytest.approx((10.96 - 7.12) / sqrt((0.388 / 4 + 0.972 / 4) / 2))
    assert cohens_d(LAYER, QUAD) == -cohens_d(QUAD, LAYER)
    method, baseline = summarize(QUAD), summarize(LAYER)
    from_intervals = cohens_d_from_intervals((method.mean, method.spread), (baseline.mean, baseline.spread), 5)
    assert from_intervals == pytest.approx(cohens_d(QUAD, LAYER))


def test_cohens_d_at_the_edges():
    assert isnan(cohens_d([1.0], LAYER))
    assert isnan(cohens_d([1.0, nan], LAYER))
    assert cohens_d([1.0, 1.0], [1.0, 1.0]) == 0
    assert cohens_d([1.0, 1.0], [2.0, 2.0]) == inf


# setting: (table, panel, resolution, seeds) in the order of the effect-size table; its last row has no table.
EFFECTS = [
    ("extreme-crossres", None, 256, 10),
    ("deep-crossres", None, 256, 10),
    ("extended-baselines", None, 256, 10),
    ("high-to-low", "Train 128²", 32, 5),
    ("high-to-low", "Train 256²", 64, 5),
]


@pytest.mark.parametrize("row", range(5))
@pytest.mark.parametrize(("method", "column"), [("BlendQuadNorm", 1), ("QuadNorm", 3)])
def test_the_papers_effect_sizes_follow_from_its_intervals(row, method, column):
    """Means and half-widths anywhere within their rounding: the printed d must lie in the range this leaves."""
    table, panel, n, seeds = EFFECTS[row]
    printed = paper_table("effect-sizes").panels[0].rows[row][column].value
    e = paper_table(table).errors(panel)
    m, b = e[method, n], e["LayerNorm", n]
    range_of = [
        cohens_d_from_intervals(
            (m.value + i * 0.005, m.spread + j * 0.005), (b.value + k * 0.005, b.spread + h * 0.005), seeds
        )
        for i, j, k, h in product((-1, 1), repeat=4)
    ]
    assert min(range_of) - 0.005 <= printed <= max(range_of) + 0.005


def test_the_seed_count_recovered_from_effect_sizes_is_no_accident():
    """With 5 seeds instead of 10 the same intervals would give d = 1.9, not the printed 1.11."""
    e = paper_table("extended-baselines").errors()
    pair = [(e[m, 256].value, e[m, 256].spread) for m in ("BlendQuadNorm", "LayerNorm")]
    assert cohens_d_from_intervals(*pair, 10) == pytest.approx(1.11, abs=0.02)
    assert cohens_d_from_intervals(*pair, 5) == pytest.approx(1.91, abs=0.02)


# --- best or tied ----------------------------------------------------------------------------------------------------


def test_best_or_tied():
    assert best_or_tied({"LayerNorm": LAYER, "QuadNorm": QUAD, "BlendQuadNorm": BLEND}) == {"QuadNorm"}
    near = [v + 0.02 * (-1) ** i for i, v in enumerate(QUAD)]
    assert best_or_tied({"LayerNorm": LAYER, "QuadNorm": QUAD, "near": near}) == {"QuadNorm", "near"}
    assert best_or_tied({"a": QUAD, "b": list(QUAD)}) == {"a", "b"}


def test_best_or_tied_with_few_or_failed_runs():
    assert best_or_tied({"a": [1.0], "b": [1.1]}) == {"a"}
    assert best_or_tied({"a": [1.0], "b": [1.0]}) == {"a", "b"}
    assert best_or_tied({"a": [1.0, nan], "b": [5.0, 5.1]}) == {"b"}
    assert best_or_tied({"a": [nan], "b": [nan]}) == frozenset()
    with pytest.raises(ValueError, match="pair by seed"):
        best_or_tied({"a": {0: 1.0, 1: 1.1}, "b": {0: 2.0, 2: 2.1}})


@pytest.mark.parametrize("label", ["extreme-crossres", "deep-crossres", "extended-baselines"])
def test_the_papers_bold_marks_are_overlapping_intervals(label):
    e = paper_table(label).errors()
    for n in {n for _, n in e}:
        cells = {m: (c.value, c.spread) for (m, at), c in e.items() if at == n}
        assert best_or_overlapping(cells) == {m for (m, at), c in e.items() if at == n and c.bold}


# --- degradation -----------------------------------------------------------------------------------------------------


def test_degradation_is_taken_seed_by_seed():
    """Perfectly correlated runs: the points have no spread although both errors do."""
    got = degradation({1: 4.0, 0: 3.0}, {0: 7.0, 1: 8.0})
    assert (got.mean, got.spread) == (4.0, 0.0)
    with pytest.raises(ValueError, match="pair by seed"):
        degradation({0: 3.0}, {1: 7.0})


def test_ratios_of_the_paper():
    """It speaks of 2.8 to 2.9 for the shallow FNO, 4.7 for the deep one (0.61 against 2.88 points), 0.22 of no norm."""
    e = {key: cell.value for key, cell in paper_table("extreme-crossres").errors().items()}
    for n in (64, 128, 256):
        ratio = degradation_ratio((e["LayerNorm", 32], e["LayerNorm", n]), (e["QuadNorm", 32], e["QuadNorm", n]))
        assert 2.8 <= ratio < 2.9
    assert degradation_ratio((2.26, 5.14), (3.56, 4.17)) == pytest.approx(4.7, abs=0.03)
    assert baseline_ratio((4.21, 4.55), (3.41, 4.94)) == pytest.approx(0.22, abs=0.005)
    assert degradation_ratio((1.0, 2.0), (1.0, 1.0)) == inf
    assert isnan(baseline_ratio((1.0, 1.0), (1.0, 1.0)))


def test_improvement_of_runs_and_of_means():
    assert improvement(QUAD, LAYER) == pytest.approx(1 - 7.12 / 10.96)
    assert improvement(7.102, 10.995) == pytest.approx(0.354, abs=5e-4)
    assert isnan(improvement(1.0, 0.0))


def test_orders_of_methods_do_not_matter():
    runs = {"LayerNorm": LAYER, "QuadNorm": QUAD, "BlendQuadNorm": BLEND}
    for names in permutations(runs):
        assert best_or_tied({n: runs[n] for n in names}) == {"QuadNorm"}
