"""Laws fitted to errors: exact data, known noise, and the paper's Darcy tables."""

from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.analysis.statistics.summaries import fit_power, fit_slope, step_change
from quadnorm.lab.studies import paper_table


@given(st.floats(1, 500), st.floats(0.1, 20), st.sampled_from([17, 32, 64, 129]))
def test_exact_data_give_their_slope(slope, e0, native):
    grids = [n for n in (16, 33, 65, 128, 257, 421) if n != native]
    errors = {n: sqrt(e0**2 + (slope * abs(1 / (native - 1) - 1 / (n - 1))) ** 2) for n in grids} | {native: e0}
    fit = fit_slope(errors, native)
    assert fit.slope == pytest.approx(slope, rel=1e-4)  # the square of a small rise is lost in e0²
    assert fit.misfit < 1e-3


def test_slope_by_hand():
    """From 33²: h changes by 1/64 and 3/128; roots 4 and 7. s = (4/64 + 21/128)/(1/64² + 9/128²) = 29·128/13."""
    fit = fit_slope({33: 3.0, 65: 5.0, 129: sqrt(58)}, native=33)
    s = 29 * 128 / 13
    assert (step_change(33, 65), step_change(33, 129)) == (1 / 64, 3 / 128)
    assert fit.slope == pytest.approx(s)
    assert fit.misfit == pytest.approx(sqrt((4 - s / 64) ** 2 + (7 - 3 * s / 128) ** 2) / sqrt(65))


def test_slope_from_fine_to_coarse_and_of_falling_errors():
    up, down = {64: 3.0, 32: 5.0}, {64: 5.0, 32: 3.0}
    assert fit_slope(up, 64).slope == pytest.approx(4 / (1 / 31 - 1 / 63))
    assert fit_slope(down, 64).slope == pytest.approx(-4 / (1 / 31 - 1 / 63))


def test_slope_at_the_edges():
    assert isnan(fit_slope({32: 1.0, 64: 2.0}, 32).misfit)
    assert isnan(fit_slope({32: 1.0, 64: nan}, 32).slope)
    flat = fit_slope({32: 1.0, 64: 1.0, 128: 1.0}, 32)
    assert (flat.slope, flat.misfit) == (0.0, 0.0)
    with pytest.raises(ValueError, match="no error at the native resolution 33"):
        fit_slope({32: 1.0, 64: 2.0}, 33)
    with pytest.raises(ValueError, match="other than the native one"):
        fit_slope({32: 1.0}, 32)
    with pytest.raises(ValueError, match="2 points per axis"):
        step_change(32, 1)


DARCY = [
    ("extreme-crossres", None, 32),
    ("deep-crossres", None, 64),
    ("real-darcy-extreme", "FNO", 32),
    ("real-darcy-crossres", "FNO", 64),
    ("error-decomp", None, 64),
    ("high-to-low", "Train 128²", 128),
    ("high-to-low", "Train 256²", 256),
    ("extended-baselines", None, 64),
]


@pytest.mark.parametrize(("label", "panel", "native"), DARCY)
def test_one_law_fits_the_papers_darcy_tables(label, panel, native):
    """Norms that count points, and no norm, follow the law with slope 350 to 450 to within 2 %; QuadNorm has half."""
    cells = paper_table(label).errors(panel)
    for method in {m for m, _ in cells} - {"SpectralNorm", "RI-BandNorm", "QuadBandNorm"}:
        fit = fit_slope({n: c.value for (m, n), c in cells.items() if m == method}, native)
        if method == "QuadNorm":
            assert 130 < fit.slope < 220
        else:
            assert 350 < fit.slope < 450
            assert fit.misfit < 0.02


def test_power_law_of_exact_and_noisy_data():
    x = [1.0, 2.0, 4.0, 8.0]
    exact = fit_power(x, [3 * v**0.6 for v in x])
    assert (exact.exponent, exact.coefficient) == pytest.approx((0.6, 3.0))
    assert exact.misfit < 1e-12
    rng = np.random.default_rng(0)
    many = np.geomspace(1, 100, 2000)
    noisy = fit_power(many, 5 * many**-2.0 * np.exp(0.05 * rng.standard_normal(2000)))
    assert noisy.exponent == pytest.approx(-2, abs=4 * 0.05 / sqrt(2000) / np.log(many).std())
    assert noisy.misfit == pytest.approx(0.05, rel=0.05)


def test_degradation_against_the_gap_as_the_paper_plots_it():
    """Its figure says ∼ r^0.6 for every method and an intercept 2.9 times lower for QuadNorm."""
    cells = paper_table("extreme-crossres").errors()
    fits = {}
    for method in ("LayerNorm", "QuadNorm", "BlendQuadNorm", "None"):
        points = [cells[method, n].value - cells[method, 32].value for n in (64, 128, 256)]
        fits[method] = fit_power([2, 4, 8], points)
        assert 0.5 < fits[method].exponent < 0.6
    assert fits["LayerNorm"].coefficient / fits["QuadNorm"].coefficient == pytest.approx(2.9, abs=0.1)


def test_power_law_at_the_edges():
    with pytest.raises(ValueError, match="positive finite"):
        fit_power([1, 2, 3], [1, -2, 3])
    with pytest.raises(ValueError, match="positive finite"):
        fit_power([1, 2, 3], [1, nan, 3])
    with pytest.raises(ValueError, match="two or more different x"):
        fit_power([2, 2], [1, 3])
    with pytest.raises(ValueError, match="2 and 3 numbers"):
        fit_power([1, 2], [1, 2, 3])
