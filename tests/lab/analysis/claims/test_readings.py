"""Readings of the paper: which rows they are, how far each is from a printed table, and which one is taken."""

from math import exp, sqrt

import numpy as np
import pytest

from quadnorm.lab.analysis.claims.evidence import LISTING, Reading, Setting, readings_of, row_of
from quadnorm.lab.analysis.claims.judging import Case, Claim, judge
from quadnorm.lab.analysis.claims.readings import best_reading, distances, listing_for, pattern, rows_read, tries
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.studies import study, study_names
from tests.lab.analysis.claims.simulated import Simulated

TABLE = ("multiarch-nonperiodic", "elasticity")
TOKEN = Reading("token", "instance", block="usual")


def printed_under(reading, off=1.3, spread=0.0):
    """Records that show the printed pattern, at another level, in the rows of one reading; others are off, each by its
    own factor, because a common one is not seen."""
    more = {"LayerNorm": 1, "QuadNorm": 2, "BlendQuadNorm": 3}

    def law(name, v, m, way, n, z):
        label = m.reads or m.label
        right = row_of(reading, label, v) == m.label
        cell = v.printed().get((label, n))
        return 2 * (cell.value if cell else 5.0) * (1 if right else off ** more.get(label, 1)) * (1 + spread * z)

    return Simulated(law, np.random.default_rng(0), 3)


def test_rows_are_found_by_what_they_are():
    v = study("galerkin-helmholtz-10seed").variant("main")
    assert row_of(LISTING, "QuadNorm", v) == "QuadNorm, trapezoid weights"
    assert row_of(LISTING, "BlendQuadNorm", v) == "BlendQuadNorm, trapezoid weights"
    assert row_of(LISTING, "LayerNorm", v) == "LayerNorm"
    assert row_of(Reading("token", "instance", "grid"), "QuadNorm", v) == "QuadNorm, instance mode"
    assert row_of(Reading("token"), "LayerNorm", v) == "LayerNorm, token-wise"
    fno = study("extreme-crossres").variant("fno")
    assert row_of(LISTING, "QuadNorm", fno) == "QuadNorm, layer mode"
    assert row_of(Reading(block="other"), "QuadNorm", fno) == "QuadNorm, norm over the sum"
    assert row_of(Reading(block="other"), "GroupNorm", fno) is None  # not run in that block
    assert row_of(Reading(), "GroupNorm", fno) == "GroupNorm"


def test_every_attention_study_of_the_paper_has_a_token_wise_row():
    for name in study_names():
        for v in study(name).variants:
            if v.operator != "fno" and any(m.label == "LayerNorm" and m.row for m in v.methods) and (
                v.label or name in ("cross-fidelity",)
            ):  # fmt: skip
                assert "token" in [m.norm for m in v.methods], (name, v.name)


def test_a_reading_with_the_printed_pattern_has_no_distance_and_is_taken():
    library = printed_under(TOKEN)
    best, *others = distances(library, *TABLE)
    assert best.reading == TOKEN
    assert best.value == pytest.approx(0.0, abs=1e-9)
    assert all(d.value > 5 for d in others)
    assert best_reading(library, *TABLE) == TOKEN
    assert [d.value for d in others] == sorted(d.value for d in others)
    for d in others:
        assert d.behind[0] == pytest.approx(d.value - best.value)


def test_the_distance_by_hand():
    """LayerNorm doubled against the printed table: every ratio is off by log 2, every growth is right."""
    library = Simulated(
        lambda name, v, m, way, n, z: v.printed()[m.reads or m.label, n].value * (2 if m.norm == "layer" else 1),
        np.random.default_rng(0), 3,
    )  # fmt: skip
    found = {d.reading.baseline: d for d in distances(library, *TABLE)}
    assert found["token"].value == pytest.approx(0, abs=1e-9)
    # Two rows at three grids, and three growths: √(6·log²2 / 9).
    assert found["spatial"].value == pytest.approx(100 * np.log(2) * sqrt(6 / 9))
    assert found["spatial"].ratios == pytest.approx(100 * np.log(2))
    assert found["spatial"].growths == pytest.approx(0, abs=1e-9)
    assert found["spatial"].error == pytest.approx(0, abs=1e-6)  # seeds agree


def test_the_uncertainty_covers_what_seeds_do():
    """Distances over many draws scatter by about the jackknife's standard error."""
    rng = np.random.default_rng(1)
    values, errors = [], []
    for _ in range(60):
        library = printed_under(TOKEN, off=1.5, spread=0.03)
        library.rng, library.seeds = rng, 6
        d = distances(library, *TABLE)[-1]
        values.append(d.value)
        errors.append(d.error / 2.571)  # Student's quantile of 5 degrees of freedom
    assert 0.6 < np.mean(errors) / np.std(values) < 1.6


def test_choices_are_counted_by_the_rows_that_a_claim_compares():
    library = printed_under(TOKEN)
    s = Setting(library, *TABLE)
    assert len(readings_of(s, ("LayerNorm", "QuadNorm", "BlendQuadNorm"))) == 8  # two each: baseline, mode, block
    assert tries(s, ("LayerNorm", "QuadNorm")) == 8
    assert tries(s, ("LayerNorm", "BlendQuadNorm")) == 4
    assert tries(Setting(library, "tost", "main"), ("LayerNorm", "BlendQuadNorm")) == 1


def test_the_listing_in_the_terms_of_a_setting():
    assert listing_for(Setting(Library([]), "tost", "main")) == Reading(block="usual")
    assert listing_for(Setting(Library([]), "galerkin-helmholtz-10seed", "main")) == LISTING
    assert str(LISTING) == "LayerNorm over (C, H, W), QuadNorm in layer mode, trapezoid weights"


def test_without_a_choice_the_catalogs_rows_are_taken(tmp_path):
    assert distances(Library([tmp_path]), *TABLE) == []
    assert best_reading(Library([tmp_path]), *TABLE) == Reading()
    assert rows_read(Setting(Library([tmp_path]), *TABLE)) == ("LayerNorm", "QuadNorm", "BlendQuadNorm")


def test_a_pattern_leaves_out_the_level():
    errors = {("LayerNorm", 32): 2.0, ("LayerNorm", 64): 3.0, ("QuadNorm", 32): 2.5, ("QuadNorm", 64): 2.0}
    rows, grids = ("LayerNorm", "QuadNorm"), (32, 64)
    p, q = (pattern({k: c * v for k, v in errors.items()}, rows, grids) for c in (1.0, 7.0))
    assert p == pytest.approx(q)
    assert exp(p["ratio", "QuadNorm", 64]) == pytest.approx(2 / 3)


def test_the_catalogs_own_rows_are_kept_where_they_are_not_told_from_the_closest():
    """Token-wise LayerNorm is closest by a hair, and the seeds scatter by more than that."""
    library = printed_under(TOKEN, off=1.01, spread=0.05)
    best, *others = distances(library, *TABLE)
    (used,) = [d for d in (best, *others) if d.used]
    assert used.reading == Reading("spatial", "layer", block="usual")
    assert not used.told_apart
    assert best_reading(library, *TABLE) == used.reading
    clear = printed_under(TOKEN, off=1.3, spread=0.001)
    assert [d.used for d in distances(clear, *TABLE)] == [True] + 7 * [False]
    assert all(d.told_apart for d in distances(clear, *TABLE)[1:])


def test_a_finding_says_what_other_readings_would():
    """LayerNorm over (C, H, W) is half as good, token-wise LayerNorm as good as the blend, and seeds hide the rest."""

    def law(name, v, m, way, n, z):
        return {"layer": 20.0, "token": 10.0}.get(m.norm, 10.0) * (1 + (0.3 if m.norm == "quad" else 0.001) * z)

    library = Simulated(law, np.random.default_rng(0), 3)
    case = Case.from_dict({"rule": "better", "on": "/".join(TABLE), "grid": 128, "method": "BlendQuadNorm"})
    claim = Claim("c", "t", ("tab:multiarch-nonperiodic",), (case,))
    (finding,) = judge(claim, library).findings
    assert finding.verdict == "reproduced"  # half of LayerNorm's error, over (C, H, W)
    assert {verdict for _, verdict in finding.elsewhere} == {"contradicted"}
    assert all("token-wise" in name for name, _ in finding.elsewhere)
