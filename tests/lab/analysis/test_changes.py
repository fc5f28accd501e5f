"""What changed between two sets of records."""

from math import nan

from quadnorm.lab.analysis.changes import changes, changes_table
from quadnorm.lab.analysis.results import Library
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
