"""What changed between two sets of records."""

from dataclasses import replace
from math import nan

import pytest

from quadnorm.lab.analysis.changes import changes, changes_table
from quadnorm.lab.analysis.results import Library, load_results
from quadnorm.lab.studies import study
from tests.lab.analysis.synthetic_records import like_the_paper, noise, write_records


def test_changes_between_two_sets_of_records(tmp_path):
    s = study("extreme-crossres").at("desk")
    base = like_the_paper(s)
    now = {"LayerNorm": 1.2, "QuadNorm": 0.8, "GroupNorm": 1.001, "RMSNorm": nan}
    kept = ("LayerNorm", "QuadNorm", "GroupNorm", "RMSNorm", "InstanceNorm")
    write_records(s, tmp_path / "old", base, keep=lambda run: run.method.label in kept)
    write_records(
        s,
        tmp_path / "new",
        lambda run, e, n: base(run, e, n) * now.get(run.method.label, 1.0) * (1 + 0.002 * noise(run.seed, n)),
        keep=lambda run: run.method.label in (*now, "None"),
    )
    changed = changes(Library([tmp_path / "new"]), Library([tmp_path / "old"]))
    mine = {c.method: c.kind for c in changed if c.study == "extreme-crossres"}
    assert mine == {
        "LayerNorm": "worse", "QuadNorm": "better", "GroupNorm": "same",
        "RMSNorm": "failed", "InstanceNorm": "lost", "None": "new",
    }  # fmt: skip
    table = changes_table(changed)
    assert table.panels[0].rows[0][0].text == "worse"
    assert "stayed the same" in table.notes[0]


def test_a_set_against_itself_has_no_changes(tmp_path):
    write_records(study("demo").at("desk"), tmp_path)
    changed = changes(Library([tmp_path]), Library([tmp_path]))
    assert changed
    assert {c.kind for c in changed} == {"same"}


def test_a_run_in_two_places_is_read_where_more_of_it_was_evaluated(tmp_path):
    """A run is evaluated in a further way later, and both packs stay."""
    s = study("demo").at("desk")
    for name, ways, error in (("a", s.evaluations[:1], 5.0), ("b", s.evaluations, 6.0), ("c", s.evaluations, 7.0)):
        write_records(replace(s, evaluations=ways), tmp_path / name, lambda run, way, n, error=error: error)
    found = load_results(s, [tmp_path / name for name in "abc"])
    assert found.of("fno", "LayerNorm", 257, "transferred")[0] == pytest.approx(6.0)
    assert found.of("fno", "LayerNorm", 257)[0] == pytest.approx(6.0)
