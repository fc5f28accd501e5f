"""Fits, verdicts, the registry: what a statement's evidence is made of."""

import json
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.theory import Check, Evidence, Series, Statement, fit_order, statement, statement_names, statements

H = tuple(1 / n for n in (8, 16, 32, 64, 128))


@given(st.floats(-3, 3), st.floats(1e-3, 1e3))
def test_an_exact_law_is_found(p, C):
    fit = fit_order(H, [C * h**p for h in H])
    assert fit.exponent == pytest.approx(p, abs=1e-9)
    assert fit.coefficient == pytest.approx(C, rel=1e-8)
    assert fit.misfit < 1e-9


def test_the_fit_is_least_squares_of_logarithms():
    rng = np.random.default_rng(0)
    y = np.array(H) ** 2 * np.exp(0.1 * rng.standard_normal(5))
    fit = fit_order(H, y)
    (slope, intercept), (residual, *_) = np.polyfit(np.log(H), np.log(y), 1, full=True)[:2]
    assert fit.exponent == pytest.approx(slope)
    assert fit.coefficient == pytest.approx(np.exp(intercept))
    assert fit.misfit == pytest.approx(np.sqrt(residual / 5))


def test_an_order_needs_five_resolutions():
    with pytest.raises(ValueError, match="5 resolutions or more, got 4"):
        fit_order(H[:4], H[:4])
    with pytest.raises(ValueError, match="got 4"):
        fit_order((*H[:4], H[0]), H)
    with pytest.raises(ValueError, match="got 3"):
        Evidence((Series("short", H[:3], H[:3], order=(0, 2)),)).checks  # noqa: B018


def test_a_bend_fails_by_its_residual_though_the_slope_is_right():
    bent = tuple(h**2 * factor for h, factor in zip(H, (1, 1.6, 2, 1.6, 1), strict=True))
    series = Series("bent", H, bent, order=(1.9, 2.1))
    order, residual = series.checks()
    assert order.holds
    assert not residual.holds


def test_verdicts():
    good = Series("good", H, tuple(h**2 for h in H), order=(1.9, 2.1))
    shown = Series("shown", H, H)
    assert Evidence((good, shown), (Check("a", 1.0, 0, 1),)).holds
    assert not Evidence((good,), (Check("a", 1.1, 0, 1),)).holds
    assert not Evidence((shown,)).holds  # nothing was judged
    assert not Check("nan", nan, -1, 1).holds
    zero = Series("zero", H, (0.0,) * 5, order=(1.9, 2.1))
    assert isnan(zero.fit.exponent)
    assert not Evidence((zero,)).holds


def test_json_is_plain():
    zero = Series("zero", H, (0.0,) * 5, order=(1.9, 2.1))
    evidence = Evidence((zero,), (Check("a", nan, 0, float("inf")),), ({"name": "row", "value": 2.0},), ("note",))
    data = Statement("s", "words", "f", "label", lambda: evidence).to_json(evidence)
    read = json.loads(json.dumps(data, allow_nan=False))
    assert read["holds"] is False
    assert read["checks"][-1] == {"what": "a", "value": None, "low": 0, "high": None, "holds": False}
    assert read["series"][0]["fit"]["exponent"] is None
    assert read["rows"] == [{"name": "row", "value": 2.0}]


def test_registry():
    assert statement("means").label == "thm:consistency"
    assert [s.name for s in statements()] == statement_names()
    with pytest.raises(ValueError, match="did you mean 'layers'"):
        statement("layer")
