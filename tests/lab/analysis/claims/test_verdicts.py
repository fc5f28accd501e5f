"""The ledger: each kind of evidence gives each verdict on records made to deserve it."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.analysis.claims import cases
from quadnorm.lab.analysis.claims.cases import shared
from quadnorm.lab.analysis.claims.verdicts import (
    CONTRADICTED,
    NOT_RUN,
    NOT_TESTABLE,
    PARTLY,
    REPRODUCED,
    VERDICTS,
    Claim,
    Finding,
    judge,
    verdict_of,
)
from quadnorm.lab.analysis.comparisons import Contrast
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.studies import study
from tests.lab.analysis.synthetic_records import noise, write_records


@pytest.fixture(autouse=True)
def every_model_has_learned(monkeypatch):
    """The made-up errors below are not meant to be near the printed ones."""
    monkeypatch.setattr(shared, "TOO_FAR", inf)


def desk(tmp_path, name, error):
    """A library of one study at the desk preset with errors (method, grid, seed, evaluation) -> per cent."""
    s = study(name).at("desk")

    def scattered(run, evaluation, grid):
        wiggle = 1 + 0.01 * noise(run.seed, "seed") + 0.001 * noise(run.method.label, grid, run.seed, evaluation)
        return error(run.method.label, grid, evaluation) * wiggle

    write_records(s, tmp_path, scattered)
    return Library([tmp_path])


@pytest.mark.parametrize(
    ("quad", "verdict"), [(6.5, REPRODUCED), (9.0, PARTLY), (10.0, CONTRADICTED), (14.0, CONTRADICTED)]
)
def test_an_improvement_is_judged_by_size_and_interval(tmp_path, quad, verdict):
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: quad if m == "QuadNorm" else 10.0)
    evidence = cases.better("extreme-crossres", "fno", 256, 35.4)(library)
    assert evidence.verdict == verdict
    assert "desk, 3 seeds" in evidence.budget


def test_one_seed_is_never_more_than_partly(tmp_path):
    s = study("extreme-crossres").at("desk")
    write_records(
        s, tmp_path, lambda run, e, n: 5.0 if run.method.label == "QuadNorm" else 10.0, keep=lambda r: r.seed == 0
    )
    assert cases.better("extreme-crossres", "fno", 256, 35.4)(Library([tmp_path])).verdict == PARTLY


def test_a_diverged_run_does_not_support_a_claim(tmp_path):
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: nan if m == "QuadNorm" else 10.0)
    evidence = cases.better("extreme-crossres", "fno", 256, 35.4)(library)
    assert evidence.verdict == CONTRADICTED
    assert "no finite error" in evidence.measured


def test_best_counts_the_papers_methods_only(tmp_path):
    order = {"QuadNorm": 5.0, "QuadNorm, layer mode": 4.0}
    library = desk(tmp_path / "a", "extreme-crossres", lambda m, n, e: order.get(m, 9.0))
    assert cases.best("extreme-crossres", "fno", (64, 128, 256))(library).verdict == REPRODUCED
    library = desk(tmp_path / "b", "extreme-crossres", lambda m, n, e: 5.0 if (m == "QuadNorm") == (n > 100) else 9.0)
    evidence = cases.best("extreme-crossres", "fno", (64, 128, 256))(library)
    assert (evidence.verdict, evidence.measured.split(";")[0]) == (PARTLY, "best at 2 of 3 grids")


@pytest.mark.parametrize(
    ("gains", "verdict"), [((0.1, 0.2, 0.3), REPRODUCED), ((0.1, 0.3, 0.2), PARTLY), ((0.3, 0.2, 0.1), CONTRADICTED)]
)
def test_growth(tmp_path, gains, verdict):
    at = dict(zip((64, 128, 256), gains, strict=True))
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: 10 * (1 - at.get(n, 0)) if m == "QuadNorm" else 10.0)
    case = cases.grows([Contrast("extreme-crossres", "fno", n) for n in (64, 128, 256)], "up")
    assert case(library).verdict == verdict


@pytest.mark.parametrize(("gap", "verdict"), [(0.01, REPRODUCED), (0.5, PARTLY), (2.0, CONTRADICTED)])
def test_equivalence(tmp_path, gap, verdict):
    library = desk(tmp_path, "tost", lambda m, n, e: 3.0 + (gap if m == "BlendQuadNorm" else 0.0))
    assert cases.equivalent("tost", "main", 64, "BlendQuadNorm", "LayerNorm")(library).verdict == verdict


@pytest.mark.parametrize(("quad", "verdict"), [(2.5, REPRODUCED), (6.0, PARTLY), (9.0, CONTRADICTED)])
def test_degradation_ratio(tmp_path, quad, verdict):
    rises = {"QuadNorm": quad, "LayerNorm": 7.0}
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: 3.0 + rises.get(m, 8.0) * (n > 32))
    assert cases.degrades_less("extreme-crossres", "fno", 32, 256, 2.8)(library).verdict == verdict


@pytest.mark.parametrize(("quad", "verdict"), [(0.5, REPRODUCED), (1.5, PARTLY), (3.0, CONTRADICTED)])
def test_ratio_to_a_network_without_norms(tmp_path, quad, verdict):
    rises = {"QuadNorm": quad, "None": 2.5}
    library = desk(tmp_path, "error-decomp", lambda m, n, e: 3.0 + rises.get(m, 2.0) * (n > 32))
    assert cases.ratio_to_none("error-decomp", "main", 64, 256, "QuadNorm", 0.0, 0.46, 0.23)(library).verdict == verdict


@pytest.mark.parametrize(
    ("far", "verdict"), [(98.0, REPRODUCED), (nan, REPRODUCED), (30.0, PARTLY), (6.0, CONTRADICTED)]
)
def test_failure(tmp_path, far, verdict):
    library = desk(tmp_path, "extended-baselines", lambda m, n, e: far if m == "SpectralNorm" else 5.0)
    assert cases.fails("extended-baselines", "main", 256, "SpectralNorm", 98.2)(library).verdict == verdict


@pytest.mark.parametrize(("power", "verdict"), [(0.6, REPRODUCED), (1.0, PARTLY), (2.0, CONTRADICTED)])
def test_power_of_the_ratio(tmp_path, power, verdict):
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: 3.0 + (3 * (n / 32) ** power if n > 32 else 0.0))
    case = cases.power_law("extreme-crossres", "fno", 32, (64, 128, 256), "LayerNorm", 0.45, 0.75)
    assert case(library).verdict == verdict


@pytest.mark.parametrize(("anchored", "verdict"), [(3.5, REPRODUCED), (9.0, PARTLY), (11.0, CONTRADICTED)])
def test_two_uses_of_one_model(tmp_path, anchored, verdict):
    library = desk(tmp_path, "anchored-crossres", lambda m, n, e: anchored if e == "anchor-all" else 10.0)
    case = cases.used("anchored-crossres", "fno", 256, "LayerNorm", "anchor-all", "as-trained", 58, "words")
    assert case(library).verdict == verdict


@pytest.mark.parametrize(("far", "verdict"), [(13.8, REPRODUCED), (11.0, PARTLY), (10.0, CONTRADICTED)])
def test_a_rise_of_so_many_per_cent(tmp_path, far, verdict):
    library = desk(tmp_path, "real-darcy", lambda m, n, e: far if n > 16 else 10.0)
    evidence = cases.rises_by("real-darcy", "transolver", 64, 256, "LayerNorm", 38)(library)
    assert evidence.verdict == verdict
    assert evidence.measured.startswith(f"{10 * (far - 10):+.0f} %".replace("-", "−"))


@pytest.mark.parametrize(
    ("blend", "verdict"), [(9.5, REPRODUCED), (9.97, PARTLY), (10.0, CONTRADICTED), (10.4, CONTRADICTED)]
)
def test_effect_sizes_are_judged_by_their_class(tmp_path, blend, verdict):
    """σ is about 0.06 of a mean of 10 here: d = 0.5/0.06 is large, 0.03/0.06 medium, 0 negligible."""
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: blend if m == "BlendQuadNorm" else 10.0)
    evidence = cases.effect_size("extreme-crossres", "fno", 256, 1.02, "BlendQuadNorm")(library)
    assert evidence.verdict == verdict
    assert evidence.measured.startswith("d = ")


def seeded(tmp_path, name, errors):
    """Records of every seed of the paper: errors[method][seed], at all grids."""
    s = study(name)
    write_records(s, tmp_path, lambda run, e, n: errors.get(run.method.label, errors["LayerNorm"])[run.seed], test=1)
    return Library([tmp_path])


@pytest.mark.parametrize(("spread", "verdict"), [(0.5, REPRODUCED), (0.85, PARTLY), (1.4, CONTRADICTED)])
def test_spread_over_seeds(tmp_path, spread, verdict):
    z = [((7 * k) % 10 - 4.5) / 3 for k in range(10)]
    library = seeded(
        tmp_path, "transolver-helmholtz", {"LayerNorm": [14 + v for v in z], "QuadNorm": [14 + spread * v for v in z]}
    )
    evidence = cases.steadier("transolver-helmholtz", "main", 64, (0.60, 1.21))(library)
    assert evidence.verdict == verdict
    assert evidence.measured.startswith(f"{spread * 1.009:.2f} against 1.01")  # √(Σ(k − 4.5)²/9)/3 = 3.03/3


def test_the_least_degradation_is_sought_among_the_papers_methods(tmp_path):
    rises = {"BlendQuadNorm": 1.0, "QuadNorm": 2.0}
    library = desk(tmp_path, "multiarch-nonperiodic", lambda m, n, e: 3.0 + rises.get(m, 4.0) * (n > 32))
    blend = cases.degrades_least("multiarch-nonperiodic", "poisson", 32, 128, "BlendQuadNorm")(library)
    quad = cases.degrades_least("multiarch-nonperiodic", "poisson", 32, 128, "QuadNorm")(library)
    assert (blend.verdict, quad.verdict) == (REPRODUCED, CONTRADICTED)
    assert "+1.00 points" in blend.measured
    assert "BlendQuadNorm" in quad.measured


@pytest.mark.parametrize(("won", "verdict"), [(7, REPRODUCED), (5, PARTLY), (3, CONTRADICTED)])
def test_seeds_that_favour_a_method(tmp_path, won, verdict):
    errors = {"LayerNorm": [10.0] * 10, "QuadNorm": [9.0] * won + [11.0] * (10 - won)}
    evidence = cases.wins_most_seeds("transolver-helmholtz", "main", 128, (7, 10))(
        seeded(tmp_path, "transolver-helmholtz", errors)
    )
    assert (evidence.verdict, evidence.measured) == (verdict, f"{won} of 10 seeds")


@pytest.mark.parametrize(("alpha", "verdict"), [(0.35, REPRODUCED), (0.43, PARTLY), (0.7, CONTRADICTED)])
def test_the_learned_blend_is_read_from_the_records(tmp_path, alpha, verdict):
    s = study("learnable-baselines").at("desk")
    write_records(s, tmp_path, alpha={"blocks.0.norm": alpha - 0.02, "blocks.1.norm": alpha + 0.02})
    evidence = cases.learned_alpha("learnable-baselines", "main", "BlendQuadNorm, learned α", 0.3, 0.4)(
        Library([tmp_path])
    )
    assert evidence.verdict == verdict
    assert f"layers from {alpha - 0.02:.2f} to {alpha + 0.02:.2f}" in evidence.measured


def test_factors_of_bias_need_no_records():
    """sin πx · sin πy has mean 4/π²; equal weights on Chebyshev nodes give (Σ sin πx_i / n)², written out here."""
    n = 64
    x = (1 - np.cos(np.pi * np.arange(n) / (n - 1))) / 2
    w = np.zeros(n)
    w[1:] += np.diff(x) / 2
    w[:-1] += np.diff(x) / 2
    f, exact = np.sin(np.pi * x), 4 / np.pi**2
    wanted = abs(f.mean() ** 2 - exact) / abs((w @ f) ** 2 - exact)
    evidence = cases.bias_factor("chebyshev", 200)(Library([]))
    assert (evidence.verdict, evidence.measured) == (REPRODUCED, f"divided by {wanted:.0f} at 64²")
    assert cases.bias_factor("boundary-refined", 1500)(Library([])).verdict == PARTLY
    assert cases.bias_factor("even", 1500)(Library([])).verdict == CONTRADICTED


def test_the_best_is_sought_on_equal_seeds(tmp_path):
    """LayerNorm's lucky extra seed does not make it the best."""
    s = study("extreme-crossres").at("desk")
    write_records(
        s, tmp_path, lambda run, e, n: {"LayerNorm": 6.0 if run.seed == 0 else 0.1}.get(run.method.label, 5.0),
        keep=lambda run: run.seed == 0 or run.method.label == "LayerNorm",
    )  # fmt: skip
    evidence = cases.best("extreme-crossres", "fno", (256,), "QuadNorm")(Library([tmp_path]))
    assert "LayerNorm" not in evidence.measured
    assert "1 seed" in evidence.budget


def test_cases_that_disagree_make_partly_and_those_not_run_do_not_count():
    def says(*verdicts):
        return judge(Claim("c", "t", (), tuple(lambda _, v=v: Finding(v) for v in verdicts)), Library([])).verdict

    assert says(REPRODUCED, NOT_RUN) == REPRODUCED
    assert says(REPRODUCED, CONTRADICTED) == PARTLY
    assert says(CONTRADICTED, CONTRADICTED) == CONTRADICTED
    assert says(NOT_RUN) == NOT_RUN


@given(st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(0, 0.5))
def test_more_effect_never_makes_a_verdict_worse(value, below, above, claimed, more):
    order = {CONTRADICTED: 0, PARTLY: 1, REPRODUCED: 2}
    first = verdict_of(value, value - below, value + above, claimed)
    second = verdict_of(value + more, value + more - below, value + more + above, claimed)
    assert order[first] <= order[second]
    assert first in VERDICTS


def test_a_claim_without_a_direction_is_refused():
    with pytest.raises(ValueError, match="swap the two methods"):
        verdict_of(0.1, 0.0, 0.2, claimed=-0.3)


@pytest.mark.parametrize(("native", "verdict"), [(6.4, REPRODUCED), (6.6, NOT_TESTABLE)])  # printed: 3.26 at 32²
def test_models_that_have_not_learned_the_problem_decide_nothing(tmp_path, native, verdict, monkeypatch):
    monkeypatch.setattr(shared, "TOO_FAR", 2.0)
    library = desk(tmp_path, "extreme-crossres", lambda m, n, e: native * (0.6 if m == "QuadNorm" and n > 32 else 1))
    finding = cases.better("extreme-crossres", "fno", 256, 35.4)(library)
    assert finding.verdict == verdict
    assert ("6.6 %, the paper's 3.3 %" in finding.reason) == (verdict == NOT_TESTABLE)
    assert judge(Claim("x", "", (), (lambda _: finding,)), library).verdict == verdict
