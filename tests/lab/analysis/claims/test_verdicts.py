"""The ledger: each kind of evidence gives each verdict on records made to deserve it."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.analysis.claims import evidence
from quadnorm.lab.analysis.claims.evidence import Reading, Setting
from quadnorm.lab.analysis.claims.judging import CLAIMS, Case, find, fitted, judge
from quadnorm.lab.analysis.claims.verdicts import (
    CONTRADICTED,
    NOT_RUN,
    NOT_TESTABLE,
    PARTLY,
    REPRODUCED,
    VERDICTS,
    effect_verdict,
    together,
)
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.statistics.intervals import Estimate
from quadnorm.lab.studies import study
from tests.lab.analysis.claims.simulated import Simulated
from tests.lab.analysis.synthetic_records import write_records

FNO = "extreme-crossres/fno"
LEARNED = "BlendQuadNorm, learned α"


@pytest.fixture(autouse=True)
def every_model_has_learned(monkeypatch):
    """The made-up errors below are not meant to be near the printed ones."""
    monkeypatch.setattr(evidence, "TOO_FAR", inf)


def made(error, seeds=3, spread=0.005, share=0.99, alpha=None):
    """Records with errors (row, the paper's grid, way) -> per cent; rows of ours as the rows that they read."""
    law = lambda name, v, m, way, n, z: error(m.reads or m.label, n, way) * (1 + spread * z)  # noqa: E731
    return Simulated(law, np.random.default_rng(0), seeds, share, alpha)


def says(library, rule, on=(), **options):
    """The finding of a rule on the catalog's own rows, without a choice among readings."""
    case = Case.from_dict({"rule": rule, "on": on, **options})
    return find(case, library, lambda library, study, variant, _: Setting(library, study, variant))


@pytest.mark.parametrize(
    ("quad", "verdict"), [(6.5, REPRODUCED), (9.0, PARTLY), (10.0, CONTRADICTED), (14.0, CONTRADICTED)]
)
def test_an_improvement_is_judged_by_size_and_interval(quad, verdict):
    found = says(made(lambda m, n, e: quad if m == "QuadNorm" else 10.0), "better", FNO, grid=256)
    assert found.verdict == verdict
    assert "desk, 3 seeds" in found.budget
    assert found.claimed == "QuadNorm 35.4 % below LayerNorm at 256²"


def test_one_seed_decides_nothing():
    library = made(lambda m, n, e: 5.0 if m == "QuadNorm" else 10.0, seeds=1)
    found = says(library, "better", FNO, grid=256)
    assert found.verdict == NOT_TESTABLE
    assert "one seed" in found.reason
    assert says(library, "best", FNO, grids=[256]).verdict == NOT_TESTABLE


def test_a_diverged_run_does_not_support_a_claim():
    found = says(made(lambda m, n, e: nan if m == "QuadNorm" else 10.0), "better", FNO, grid=256)
    assert found.verdict == CONTRADICTED
    assert "no finite error" in found.measured


def test_the_best_is_told_from_every_other_row():
    clear = made(lambda m, n, e: 5.0 if m == "QuadNorm" else 9.0)
    assert says(clear, "best", FNO, grids=[64, 128, 256]).verdict == REPRODUCED
    near = made(lambda m, n, e: {"QuadNorm": 5.0, "RMSNorm": 5.02}.get(m, 9.0), share=0.0)
    assert says(near, "best", FNO, grids=[64, 128, 256]).verdict == PARTLY
    half = made(lambda m, n, e: 5.0 if (m == "QuadNorm") == (n > 100) else 9.0)
    assert says(half, "best", FNO, grids=[64, 128, 256]).verdict == PARTLY
    beaten = made(lambda m, n, e: {"QuadNorm": 5.0, "RMSNorm": 4.0}.get(m, 9.0))
    assert says(beaten, "best", FNO, grids=[64, 128, 256]).verdict == CONTRADICTED


def test_the_best_is_sought_among_the_papers_rows():
    errors = {"QuadNorm, layer mode": 4.0, "QuadNorm": 5.0}
    law = lambda name, v, m, way, n, z: errors.get(m.label, 9.0) * (1 + 0.005 * z)  # noqa: E731
    assert says(Simulated(law, np.random.default_rng(0), 3, 0.99), "best", FNO, grids=[256]).verdict == REPRODUCED


@pytest.mark.parametrize(
    ("gains", "verdict"), [((0.1, 0.25, 0.3), REPRODUCED), ((0.1, 0.3, 0.2), PARTLY), ((0.3, 0.2, 0.1), CONTRADICTED)]
)
def test_growth(gains, verdict):
    at = dict(zip((64, 128, 256), gains, strict=True))
    library = made(lambda m, n, e: 10 * (1 - at.get(n, 0)) if m == "QuadNorm" else 10.0, spread=0.001)
    found = says(library, "grows", FNO, grids=[64, 128, 256])
    assert found.verdict == verdict
    assert found.claimed == "QuadNorm's gain 18 → 31 → 35 %"


@pytest.mark.parametrize(("gap", "verdict"), [(0.01, REPRODUCED), (0.5, PARTLY), (2.0, CONTRADICTED)])
def test_equivalence(gap, verdict):
    library = made(lambda m, n, e: 3.0 + (gap if m == "BlendQuadNorm" else 0.0))
    assert says(library, "equivalent", "tost", grid=64, method="BlendQuadNorm").verdict == verdict


@pytest.mark.parametrize(("gain", "verdict"), [(0.0, REPRODUCED), (0.05, PARTLY), (0.2, CONTRADICTED)])
def test_no_gain_is_an_equivalence_too(gain, verdict):
    library = made(lambda m, n, e: 3.0 * (1 - gain if m == "BlendQuadNorm" else 1.0))
    found = says(library, "alike", "real-darcy-crossres/fno", grid=128, method="BlendQuadNorm")
    assert found.verdict == verdict


@pytest.mark.parametrize(("quad", "verdict"), [(2.5, REPRODUCED), (6.0, PARTLY), (9.0, CONTRADICTED)])
def test_degradation_ratio(quad, verdict):
    rises = {"QuadNorm": quad, "LayerNorm": 7.0}
    library = made(lambda m, n, e: 3.0 + rises.get(m, 8.0) * (n > 32))
    found = says(library, "degrades_less", FNO, native=32, far=256)
    assert found.verdict == verdict
    assert "2.8 times" in found.claimed


@pytest.mark.parametrize(("quad", "verdict"), [(0.5, REPRODUCED), (1.07, PARTLY), (3.0, CONTRADICTED)])
def test_ratio_to_a_network_without_norms(quad, verdict):
    rises = {"QuadNorm": quad, "None": 2.5}
    library = made(lambda m, n, e: 3.0 + rises.get(m, 2.0) * (n > 64))
    assert says(library, "like_none", "error-decomp", native=64, far=256, method="QuadNorm").verdict == verdict


@pytest.mark.parametrize(
    ("far", "verdict"),
    [(98.0, REPRODUCED), (nan, REPRODUCED), (60.0, PARTLY), (50.0, PARTLY), (45.0, CONTRADICTED), (6.0, CONTRADICTED)],
)
def test_failure_is_near_the_printed_error(far, verdict):
    library = made(lambda m, n, e: far if m == "SpectralNorm" else 5.0)
    assert says(library, "fails", "extended-baselines", grid=256, method="SpectralNorm").verdict == verdict


@pytest.mark.parametrize(("power", "verdict"), [(0.6, REPRODUCED), (0.75, PARTLY), (1.0, CONTRADICTED)])
def test_power_of_the_ratio(power, verdict):
    library = made(lambda m, n, e: 3.0 + (3 * (n / 32) ** power if n > 32 else 0.0))
    found = says(library, "power_law", FNO, native=32, grids=[64, 128, 256], method="LayerNorm", stated=0.6, width=0.15)
    assert found.verdict == verdict


@pytest.mark.parametrize(("anchored", "verdict"), [(3.5, REPRODUCED), (9.0, PARTLY), (11.0, CONTRADICTED)])
def test_two_uses_of_one_model(anchored, verdict):
    library = made(lambda m, n, e: anchored if e == "anchor-all" else 10.0)
    found = says(
        library, "used", "anchored-crossres/fno", grid=256, method="LayerNorm", way="anchor-all", other="as-trained",
        ours=58, text="words",
    )  # fmt: skip
    assert found.verdict == verdict


@pytest.mark.parametrize(("several", "verdict"), [(4.0, REPRODUCED), (8.0, PARTLY), (10.0, CONTRADICTED)])
def test_another_model_at_another_grid(several, verdict):
    """The second setting is compared with, at the grid of its own."""
    law = lambda name, v, m, way, n, z: (several if "multires" in name else 10.0 * n / 64) * (1 + 0.005 * z)  # noqa: E731
    library = Simulated(law, np.random.default_rng(0), 3, 0.99)
    found = says(
        library, "used", ["false-promise-multires/darcy, fno, equal samples", "false-promise-whole/darcy, fno"],
        grid=128, at=64, method="None", way="as-trained", other="transferred", ours=50, text="words",
    )  # fmt: skip
    assert found.verdict == verdict


@pytest.mark.parametrize(("far", "verdict"), [(10.2, REPRODUCED), (11.0, PARTLY), (14.0, CONTRADICTED)])
def test_an_error_kept_in_one_way(far, verdict):
    library = made(lambda m, n, e: far if n > 16 and e == "transferred" else 10.0, spread=0.02)
    found = says(
        library, "keeps", "false-promise/darcy, fno", native=16, far=128, method="None", way="transferred", ours=10,
        text="words",
    )  # fmt: skip
    assert found.verdict == verdict


@pytest.mark.parametrize(("tied", "verdict"), [(0.0, REPRODUCED), (1.0, CONTRADICTED)])
def test_accuracy_and_robustness(tied, verdict):
    """The factor of a kind of model is drawn on its own, or is the larger the larger its native error."""

    def law(name, v, m, way, n, z):
        kind = repr((v.operator, v.problem, v.problem_params, m.norm))
        native, own = np.random.default_rng(list(kind.encode())).uniform(1, 2, 2)
        factor = tied * native + (1 - tied) * own
        return (native if n == v.train[0] else native * factor) * (1 + 1e-9 * z)

    library = Simulated(law, np.random.default_rng(0), 2, 0.99)
    found = says(library, "unrelated", "false-promise/darcy, fno", times=4, ours=0.5, text="words")
    assert found.verdict == verdict
    assert int(found.measured.split(", ")[-1].split()[0]) > 40


@pytest.mark.parametrize(("far", "verdict"), [(13.8, REPRODUCED), (11.0, PARTLY), (10.0, CONTRADICTED)])
def test_a_rise_of_so_many_per_cent(far, verdict):
    library = made(lambda m, n, e: far if n > 64 else 10.0, spread=0.001)
    found = says(library, "rises_by", "real-darcy/transolver", native=64, far=256, method="LayerNorm")
    assert found.verdict == verdict
    assert found.measured.startswith(f"{10 * (far - 10):+.0f} %")


@pytest.mark.parametrize(("far", "verdict"), [(10.2, REPRODUCED), (11.06, PARTLY), (14.0, CONTRADICTED)])
def test_an_error_that_stays(far, verdict):
    library = made(lambda m, n, e: far if n > 64 else 10.0, spread=0.02)
    found = says(library, "stays", "real-darcy/transolver", native=64, far=256, method="QuadNorm")
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("printed", "shift", "verdict"),
    [("Extreme", 9.0, REPRODUCED), ("Extreme", 0.0, PARTLY), ("Extreme", -6.0, CONTRADICTED),
     ("Deep", 9.0, CONTRADICTED), ("Deep", 0.3, PARTLY)],
)  # fmt: skip
def test_effect_sizes_lie_in_their_class_neither_below_nor_above(printed, shift, verdict):
    """In standard deviations, of 0.05 over ten seeds: a large effect does not pass for the printed small one."""
    library = made(lambda m, n, e: 10 - 0.05 * shift * (m == "BlendQuadNorm"), seeds=10, spread=0.005, share=0.0)
    cell = {"table": "tab:effect-sizes", "row": printed, "column": "BlendQuadNorm d"}
    found = says(library, "effect_size", FNO, grid=256, method="BlendQuadNorm", cell=cell)
    assert found.verdict == verdict


@pytest.mark.parametrize(("spread", "verdict"), [(0.3, REPRODUCED), (0.85, PARTLY), (3.0, CONTRADICTED)])
def test_spread_over_seeds(spread, verdict):
    law = lambda name, v, m, way, n, z: 14 + (spread if m.label == "QuadNorm" else 1.0) * z  # noqa: E731
    library = Simulated(law, np.random.default_rng(0), 10, 1.0)
    found = says(library, "steadier", "transolver-helmholtz", grid=64)
    assert found.verdict == verdict
    assert found.claimed.startswith("σ over seeds 0.60 (QuadNorm) against 1.20 (LayerNorm)")
    assert found.measured.startswith(f"{100 * (1 - spread):.0f} %".replace("-", "−"))


def test_the_least_degradation_is_told_from_every_other_row():
    rises = {"BlendQuadNorm": 1.0, "QuadNorm": 2.0}
    library = made(lambda m, n, e: 3.0 + rises.get(m, 4.0) * (n > 32))
    least = [
        says(library, "degrades_least", "multiarch-nonperiodic/poisson", native=32, far=128, method=m).verdict
        for m in ("BlendQuadNorm", "QuadNorm", "LayerNorm")
    ]
    assert least == [REPRODUCED, CONTRADICTED, CONTRADICTED]


@pytest.mark.parametrize(("won", "verdict"), [(10, REPRODUCED), (7, PARTLY), (0, CONTRADICTED)])
def test_seeds_that_favour_a_method(won, verdict):
    """Seven of ten, as in the paper, is what chance gives in a third of all cases."""
    side = np.array([-1.0] * won + [1.0] * (10 - won))
    law = lambda name, v, m, way, n, z: 10 + side * (m.label == "QuadNorm")  # noqa: E731
    library = Simulated(law, np.random.default_rng(0), 10)
    found = says(library, "wins_most_seeds", "transolver-helmholtz", grid=128, stated=[7, 10])
    assert (found.verdict, found.measured) == (verdict, f"{won} of 10 seeds")


@pytest.mark.parametrize(
    ("alpha", "verdict"), [(0.35, REPRODUCED), (0.39, PARTLY), (0.7, CONTRADICTED), (0.49, NOT_TESTABLE)]
)
def test_the_learned_blend_is_read_from_the_records(alpha, verdict):
    library = made(lambda m, n, e: 5.0, alpha=lambda z: alpha + 0.01 * z)
    found = says(library, "learned_alpha", "learnable-baselines", method=LEARNED, stated=[0.3, 0.4])
    assert found.verdict == verdict
    assert "begun at 0.5" in found.measured


def test_a_blend_that_begins_where_it_should_end_shows_nothing():
    library = made(lambda m, n, e: 5.0, alpha=lambda z: 0.35 + 0.001 * z)
    row = f"{LEARNED}, begun at 0.3"
    found = says(library, "learned_alpha", "learnable-baselines", method=row, stated=[0.3, 0.4])
    assert found.verdict == NOT_TESTABLE
    assert "begins at 0.3" in found.reason


def test_factors_of_bias_need_no_records():
    """sin πx · sin πy has mean 4/π²; equal weights on Chebyshev nodes give (Σ sin πx_i / n)², written out here."""
    n = 64
    x = (1 - np.cos(np.pi * np.arange(n) / (n - 1))) / 2
    w = np.zeros(n)
    w[1:] += np.diff(x) / 2
    w[:-1] += np.diff(x) / 2
    f, exact = np.sin(np.pi * x), 4 / np.pi**2
    wanted = abs(f.mean() ** 2 - exact) / abs((w @ f) ** 2 - exact)
    found = says(Library([]), "bias_factor", family="chebyshev", stated=200)
    assert (found.verdict, found.measured) == (REPRODUCED, f"divided by {wanted:.0f} at 64²")
    assert says(Library([]), "bias_factor", family="boundary-refined", stated=1500).verdict == PARTLY
    assert says(Library([]), "bias_factor", family="even", stated=1500).verdict == CONTRADICTED


def test_a_claim_is_reproduced_only_if_all_of_it_is():
    assert together([REPRODUCED, REPRODUCED]) == REPRODUCED
    assert together([REPRODUCED, NOT_RUN]) == together([REPRODUCED, NOT_TESTABLE]) == PARTLY
    assert together([REPRODUCED, CONTRADICTED]) == PARTLY
    assert together([CONTRADICTED, NOT_TESTABLE]) == CONTRADICTED
    assert together([NOT_RUN]) == NOT_RUN
    assert together([NOT_RUN, NOT_TESTABLE]) == NOT_TESTABLE


@given(st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(0, 0.5))
def test_more_effect_never_makes_a_verdict_worse(value, below, above, claimed, more):
    order = {CONTRADICTED: 0, PARTLY: 1, REPRODUCED: 2}
    first = effect_verdict(Estimate(value, value - below, value + above, 3), claimed)
    value += more
    second = effect_verdict(Estimate(value, value - below, value + above, 3), claimed)
    assert order[first] <= order[second]
    assert first in VERDICTS


def test_a_claim_without_a_direction_is_refused():
    with pytest.raises(ValueError, match="swap the two methods"):
        effect_verdict(Estimate(0.1, 0.0, 0.2, 3), claimed=-0.3)


@pytest.mark.parametrize(("native", "verdict"), [(6.4, REPRODUCED), (6.6, NOT_TESTABLE)])  # printed: 3.26 at 32²
@pytest.mark.parametrize("rule", ["better", "grows", "best", "power_law", "degrades_less"])
def test_models_that_have_not_learned_the_problem_decide_nothing(rule, native, verdict, monkeypatch):
    monkeypatch.setattr(evidence, "TOO_FAR", 2.0)
    gap = {32: 0.0, 64: 1.0, 128: 1.52, 256: 2.3}
    loss = {"QuadNorm": 0.2}
    library = made(lambda m, n, e: native * (1 + loss.get(m, 1.0) * gap[n]), spread=0.001)
    options = {
        "better": {"grid": 256},
        "grows": {"grids": [64, 128, 256]},
        "best": {"grids": [64, 128, 256]},
        "power_law": {"native": 32, "grids": [64, 128, 256], "method": "LayerNorm", "stated": 0.6, "width": 0.15},
        "degrades_less": {"native": 32, "far": 256},
    }[rule]
    found = says(library, rule, FNO, **options)
    assert found.verdict == verdict
    assert ("6.6 %, the paper's 3.3 %" in found.reason) == (verdict == NOT_TESTABLE)


def test_a_row_names_its_models_and_its_caveats(tmp_path):
    """The released files are replaced and the training is short: the row says so, and which models it rests on."""
    s = study("real-darcy").at("desk")
    write_records(s, tmp_path, test=1)
    claim = next(c for c in CLAIMS if c.name == "long training")
    result = judge(claim, Library([tmp_path]))
    assert len(result.models) == 3 * 2 * 3
    assert result.families == (
        "fno, darcy, 32², width 16",
        "galerkin, darcy, 16², width 32",
        "transolver, darcy, 16², width 32",
    )
    for f in result.findings:
        assert any("released files" in c for c in f.caveats)
        assert any("500 epochs" in c for c in f.caveats)


def test_choosing_among_readings_widens_the_intervals():
    """Two readings cost nothing, because effects are one-sided; four halve the error allowed to each."""
    assert Setting(Library([]), "tost", "main").level == pytest.approx(0.95)
    assert Setting(Library([]), "tost", "main", tries=2).level == pytest.approx(0.95)
    assert Setting(Library([]), "tost", "main", tries=4).level == pytest.approx(0.975)
    assert Setting(Library([]), "tost", "main", tries=4).band_level == pytest.approx(0.975)


def test_the_closest_reading_is_used_and_the_listings_stands_beside():
    """Instance mode has the printed pattern here, layer mode is LayerNorm's double."""
    printed = study("extreme-crossres").variant("fno").printed()

    def law(name, v, m, way, n, z):
        row = "LayerNorm" if m.norm == "quad" else m.reads or m.label
        return printed[row, n].value * (1 + 0.001 * z)

    library = Simulated(law, np.random.default_rng(0), 3, 0.9)
    case = Case.from_dict({"rule": "better", "on": FNO, "grid": 256})
    found = find(case, library, fitted)
    assert found.verdict == REPRODUCED
    assert "instance" in found.reading
    claim = next(c for c in CLAIMS if c.name == "extreme gap")
    result = judge(claim, library)
    assert (result.verdict, result.listing) == (REPRODUCED, CONTRADICTED)
    assert str(Reading()) == "our studies' own rows"
