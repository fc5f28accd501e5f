"""Tables of records: values against scipy, what is missing, failed, alone or mixed."""

import json
import re
from dataclasses import replace
from math import nan, sqrt

import numpy as np
import pytest
from scipy import stats

from quadnorm._files import read_sealed, sealed
from quadnorm.lab.analysis.results import Library, load_results
from quadnorm.lab.analysis.tables import study_table
from quadnorm.lab.studies import study
from quadnorm.lab.studies.study import AS_TRAINED
from tests.lab.analysis.synthetic_records import write_records
from tests.lab.analysis.tables.small_study import ERRORS, cells, cells_text, known, small_study
from tests.lab.studies.tiny_study import ANCHORED


def test_cells_equal_student_intervals_written_here(tmp_path):
    write_records(small_study(), tmp_path, known)
    row = cells(study_table(small_study(), tmp_path), "LayerNorm")
    x = np.array(ERRORS["LayerNorm", 17])
    half = stats.t.ppf(0.975, 2) * x.std(ddof=1) / sqrt(3)
    assert row["17²"].value == pytest.approx(x.mean(), rel=1e-12)
    assert row["17²"].spread == pytest.approx(half, rel=1e-12)
    assert row["17²"].text == f"{x.mean():.2f} ± {half:.2f}"
    rise = x - np.array(ERRORS["LayerNorm", 9])
    assert row["9² → 17²"].value == pytest.approx(rise.mean(), rel=1e-12)
    assert row["9² → 17²"].text == f"+{rise.mean():.2f} (×{x.mean() / 3.1:.2f})"
    assert row["seeds"].text == "3"


def test_standard_deviation_where_the_study_says_so(tmp_path):
    s = small_study(statistic="std")
    write_records(s, tmp_path, known)
    assert cells(study_table(s, tmp_path), "None")["9² native"].spread == pytest.approx(
        np.std(ERRORS["None", 9]), rel=1e-12
    )


def test_rows_that_have_not_learned_are_named(tmp_path):
    def stuck(run, evaluation, grid):
        return 60.0 if run.method.label == "None" else known(run, evaluation, grid)

    write_records(small_study(), tmp_path / "good", known)
    write_records(small_study(), tmp_path / "stuck", stuck)
    assert not any("has not learned" in note for note in study_table(small_study(), tmp_path / "good").notes)
    (note,) = (note for note in study_table(small_study(), tmp_path / "stuck").notes if "has not learned" in note)
    assert note.startswith("None has 60.0 % at the training grid, the best row 3.1 %")


def test_best_and_tied_are_bold_and_others_are_not(tmp_path):
    write_records(small_study(), tmp_path, known)
    table = study_table(small_study(), tmp_path)
    assert [m for m in ("LayerNorm", "QuadNorm", "None") if cells(table, m)["17²"].bold] == ["QuadNorm"]
    # At 9² the two lowest, paired by seed, do not differ significantly; the third does.
    a, b = np.array(ERRORS["LayerNorm", 9]), np.array(ERRORS["None", 9])
    assert stats.ttest_rel(a, b).pvalue > 0.05
    assert [m for m in ("LayerNorm", "QuadNorm", "None") if cells(table, m)["9² native"].bold] == ["LayerNorm", "None"]


def test_no_bold_where_no_two_are_told_apart(tmp_path):
    write_records(small_study(), tmp_path, lambda run, e, n: 3.0 + 0.5 * ((run.seed * 7 + len(run.method.label)) % 3))
    table = study_table(small_study(), tmp_path)
    assert not any(cells(table, m)["17²"].bold for m in ("LayerNorm", "QuadNorm", "None"))


def test_what_was_not_run_says_how_to_run_it(tmp_path):
    write_records(small_study(), tmp_path, known, keep=lambda run: run.method.label != "QuadNorm")
    table = study_table(small_study(), tmp_path)
    cell = cells(table, "QuadNorm")["17²"]
    assert (cell.text, cell.kind) == ("not run", "missing")
    assert cell.note == "quadnorm study run small --preset paper"
    assert cells(table, "QuadNorm")["seeds"].text == "0 of 3"
    assert "3 cells were not run: quadnorm study run small --preset paper" in table.markdown()
    assert cells(table, "LayerNorm")["17²"].kind == "value"


def test_one_seed_has_no_interval_and_some_seeds_are_counted(tmp_path):
    write_records(small_study(), tmp_path, known, keep=lambda run: run.seed == 0 or run.method.label == "None")
    table = study_table(small_study(), tmp_path)
    assert cells(table, "LayerNorm")["17²"].text == "6.00"
    assert cells(table, "LayerNorm")["seeds"].text == "1 of 3"
    assert "one seed" in cells(table, "LayerNorm")["17²"].note


def test_a_diverged_run_is_shown_and_never_averaged_away(tmp_path):
    write_records(
        small_study(),
        tmp_path,
        lambda run, e, n: nan if (run.method.label, run.seed) == ("None", 1) else known(run, e, n),
    )
    table = study_table(small_study(), tmp_path)
    cell = cells(table, "None")["17²"]
    assert (cell.text, cell.kind) == ("1 of 3 diverged", "failed")
    assert "the mean of the other 2 is 7.1" in cell.note
    assert not cell.bold
    assert "None, 17²: 1 of 3 runs has no finite error" in table.markdown()


def test_the_papers_values_stand_at_the_grid_they_belong_to(tmp_path):
    """The desk preset halves the grids of this study: 128² stands for the paper's 256², whose value is 4.07 ± 0.17."""
    s = study("real-darcy-crossres").at("desk")
    table = study_table(s, tmp_path)
    assert table.panels[0].columns[2:5] == ("32² native (paper 64²)", "64² (paper 128²)", "128² (paper 256²)")
    row = cells(study_table(replace(s, evaluations=(AS_TRAINED,)), tmp_path), "QuadNorm")
    assert row["128² (paper 256²)"].paper.text == "4.07 ± 0.17"
    assert row["32² → 210²"].paper.text == "+0.78 (×1.23)"  # 4.16 − 3.38, 4.16/3.38
    assert any("compare methods with each other" in note for note in table.notes)


def test_several_uses_of_a_model_are_rows_of_their_own(tmp_path):
    s = small_study(evaluations=(AS_TRAINED, ANCHORED))
    write_records(
        s, tmp_path, lambda run, e, n: known(run, e, n) if e == "as-trained" else ERRORS[run.method.label, 9][run.seed]
    )
    table = study_table(s, tmp_path)
    used = [(r[0].text, r[1].text, r[3].text) for r in table.panels[0].rows]
    assert len(used) == 6
    assert used[0][1:] == ("as trained", cells_text(ERRORS["LayerNorm", 17]))
    assert used[1][1:] == ("all anchored", cells_text(ERRORS["LayerNorm", 9]))


def test_mixed_code_needs_permission_and_mixed_data_is_refused(tmp_path):
    write_records(small_study(), tmp_path, known)
    write_records(small_study(), tmp_path, known, keep=lambda run: run.seed == 2, numerics=2)
    with pytest.raises(ValueError, match="different versions of the code"):
        study_table(small_study(), tmp_path)
    assert "different versions" in study_table(small_study(), tmp_path, allow_mixed=True).warnings[0]
    write_records(small_study(), tmp_path, known, keep=lambda run: run.seed == 2, data="other data")
    with pytest.raises(ValueError, match="2 versions of the poisson data"):
        study_table(small_study(), tmp_path, allow_mixed=True)


def test_damaged_records_are_named_and_the_rest_is_shown(tmp_path):
    folders = write_records(small_study(), tmp_path, known)
    (folders[0] / "evaluations" / "as-trained@17.json").write_text("{half")
    (folders[1] / "evaluations" / "as-trained@17.json").write_text(json.dumps({"unknown": 1}))
    with pytest.raises(ValueError, match=re.escape(folders[0].name)):
        study_table(small_study(), tmp_path)
    results = load_results(small_study(), tmp_path, strict=False)
    assert len(results.problems) == 2
    assert folders[1].name in results.problems[1]
    assert set(results.of("v", "LayerNorm", 17)) == {1, 2}


def test_unknown_fields_in_records_do_no_harm(tmp_path):
    for folder in write_records(small_study(), tmp_path, known, colour="blue", environment={"new": {"deep": [1]}}):
        path = folder / "evaluations" / "as-trained@9.json"
        path.write_bytes(sealed({**read_sealed(path), "mood": "good"}))
    assert study_table(small_study(), tmp_path).missing == 0


def test_the_first_of_several_roots_wins(tmp_path):
    write_records(small_study(), tmp_path / "a", lambda run, e, n: 1.0, keep=lambda run: run.seed == 0)
    write_records(small_study(), tmp_path / "b", lambda run, e, n: 2.0)
    results = load_results(small_study(), [tmp_path / "a", tmp_path / "b"])
    assert results.of("v", "LayerNorm", 9) == pytest.approx({0: 1.0, 1: 2.0, 2: 2.0})


def test_the_library_takes_the_fullest_preset_and_every_seed_that_was_run(tmp_path):
    write_records(study("demo").at("smoke"), tmp_path)
    assert Library([tmp_path]).results("demo").study.preset == "smoke"
    more = replace(study("demo").at("desk"), seeds=(0, 2))  # the preset plans seed 0 alone
    write_records(more, tmp_path)
    results = Library([tmp_path]).results("demo")
    assert (results.study.preset, results.study.seeds) == ("desk", (0, 2))


def test_a_seed_that_another_study_left_on_some_grids_does_not_count(tmp_path):
    """A row whose cells are averages over different seeds compares nothing."""
    more = replace(study("demo").at("desk"), seeds=(0, 2))
    for folder in write_records(more, tmp_path, lambda run, way, grid: 3.0 + run.seed):
        if "-s2-" in folder.name:
            for file in list((folder / "evaluations").glob("*"))[1:]:
                file.unlink()
    results = Library([tmp_path]).results("demo")
    assert results.study.seeds == (0,)
    assert {seed for seeds in results.errors.values() for seed in seeds} == {0}
