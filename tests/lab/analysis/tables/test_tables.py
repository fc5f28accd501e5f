"""Tables of records: values against scipy, what is missing, failed, alone or mixed, and every form of them."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from math import nan, sqrt

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from quadnorm._files import read_sealed, sealed
from quadnorm.lab.analysis.results import Library, load_results
from quadnorm.lab.analysis.tables import Table, study_table
from quadnorm.lab.studies import Budget, Desk, Method, Study, Variant, Way, study
from quadnorm.lab.studies.study import AS_TRAINED
from tests.lab.analysis.synthetic_records import write_records

ANCHORED = Way("anchor-all", "all anchored", "anchored", "all")


def small_study(**changes) -> Study:
    variant = Variant(
        name="v",
        problem="poisson",
        operator="fno",
        methods=(Method("LayerNorm", "layer"), Method("QuadNorm", "quad:instance"), Method("None", "none")),
        train=(9,),
        test=(9, 17),
        budget=Budget(train=8, val=2, test=4, epochs=3, lr=1e-3),
        desk=Desk(epochs=2),
        operator_params={"width": 4, "modes": 2, "layers": 1},
    )
    return Study(
        **{
            "name": "small",
            "title": "A small study",
            "theme": "test",
            "variants": (variant,),
            "seeds": (0, 1, 2),
            **changes,
        }
    )


# Errors by method, seed and grid, in per cent; chosen so that QuadNorm is clearly best at 17² and None worst.
ERRORS = {
    ("LayerNorm", 9): (3.0, 3.1, 3.2), ("LayerNorm", 17): (6.0, 6.3, 6.1),
    ("QuadNorm", 9): (3.9, 4.2, 4.0), ("QuadNorm", 17): (4.4, 4.9, 4.5),
    ("None", 9): (3.5, 3.0, 3.9), ("None", 17): (7.0, 7.7, 7.2),
}  # fmt: skip


def known(run, evaluation, grid):
    return ERRORS[run.method.label, grid][run.seed]


def cells(table: Table, method: str):
    (row,) = [r for r in table.panels[0].rows if r[0].text == method]
    return dict(zip(table.panels[0].columns, row, strict=True))


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


def cells_text(values):
    x = np.array(values)
    return f"{x.mean():.2f} ± {stats.t.ppf(0.975, 2) * x.std(ddof=1) / sqrt(3):.2f}"


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


NASTY = '<script>alert(1)</script> & "x" | _a_ \\ $5 {b} #1 ~ ^ %'


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)

    def handle_data(self, data):
        self.text += data


def nasty_table(tmp_path) -> Table:
    base = small_study()
    methods = (Method(NASTY, "layer"), Method("QuadNorm", "quad:instance"))
    variant = replace(base.variants[0], methods=methods, problem=NASTY)
    return study_table(small_study(name=NASTY, title=NASTY, variants=(variant,), notes=(NASTY,)), tmp_path)


def test_html_escapes_every_name(tmp_path):
    parser = Tags()
    page = nasty_table(tmp_path).html()
    parser.feed(page)
    assert "script" not in parser.seen
    assert NASTY in parser.text
    assert "<script" not in page


def test_markdown_latex_and_terminal_escape_every_name(tmp_path):
    table = nasty_table(tmp_path)
    assert not re.search(r"(?<!\\)<script", table.markdown())
    assert all(
        line.replace("\\|", "").count("|") == 6 for line in table.markdown().splitlines() if line.startswith("|")
    )
    tex = table.latex()
    assert r"\_a\_" in tex
    assert r"\$5 \{b\} \#1 \textasciitilde{} \textasciicircum{} \%" in tex
    out = io.StringIO()
    table.terminal(Console(file=out, width=300))
    assert "<script>alert(1)</script>" in out.getvalue()


def test_csv_gives_back_the_numbers_at_full_precision(tmp_path):
    s = replace(study("extreme-crossres").at("paper"), evaluations=(AS_TRAINED,))
    write_records(s, tmp_path)
    table = study_table(s, tmp_path)
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(table.csv()))}
    results = load_results(s, tmp_path)
    x = np.array(list(results.of("fno", "QuadNorm", 256).values()))
    assert float(rows["QuadNorm"]["256²"]) == pytest.approx(x.mean(), rel=1e-12)
    assert float(rows["QuadNorm"]["256² ±"]) == pytest.approx(
        stats.t.ppf(0.975, 9) * x.std(ddof=1) / sqrt(10), rel=1e-12
    )
    assert (float(rows["QuadNorm"]["256², paper"]), float(rows["QuadNorm"]["256², paper ±"])) == (7.10, 0.23)
    assert rows["QuadNorm, layer mode"]["256², paper"] == ""


def test_latex_is_balanced_and_has_the_right_number_of_columns(tmp_path):
    s = study("high-to-low").at("desk")
    write_records(s, tmp_path)
    tex = study_table(s, tmp_path).latex()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert tex.count(r"\toprule") == tex.count(r"\bottomrule") == 2
    for block in tex.split(r"\begin{tabular}")[1:]:
        spec, body = block.split(r"\toprule")[0].strip(" {}\n"), block.split(r"\end{tabular}")[0]
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(spec)}
    assert r"\textbf{" in tex


def test_html_has_a_cell_for_every_column_and_sort_keys(tmp_path):
    write_records(small_study(), tmp_path, known)
    page = study_table(small_study(), tmp_path).html()
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    rows = body.split("</tr>")[:-1]
    assert {row.count("data-key=") for row in rows} == {len(study_table(small_study(), tmp_path).panels[0].columns)}
    assert 'data-key="6.1333333333333' in body


def test_one_seed_is_said_in_the_caption(tmp_path):
    write_records(small_study(), tmp_path, known, keep=lambda run: run.seed == 1)
    table = study_table(small_study(), tmp_path)
    assert "one seed" in table.caption
    assert [m for m in ("LayerNorm", "QuadNorm", "None") if cells(table, m)["17²"].bold] == ["QuadNorm"]


def test_a_narrow_window_loses_no_name_and_no_number(tmp_path):
    s = small_study(evaluations=(AS_TRAINED, ANCHORED))
    write_records(s, tmp_path, known)
    table = study_table(s, tmp_path)
    out = io.StringIO()
    table.terminal(Console(file=out, width=56))
    text = out.getvalue()
    assert "…" not in text
    assert "LayerNorm" in text
    assert "all anchored" in text
    assert cells_text(ERRORS["QuadNorm", 17]).replace(" ", "") in text
    assert "* training grid; name alone: as trained; 3 seeds" in text
    assert "p-values are left out" in text


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_number_is_cut_at_any_width(tmp_path, width):
    """Four grids, the paper's values, long names: what the paper's own tables are like."""
    s = study("transolver-darcy").at("smoke")
    write_records(s, tmp_path, lambda run, way, n: (0.01 + 0.001 * n) * (1 + 0.01 * run.seed))
    table = study_table(s, tmp_path)
    out = io.StringIO()
    table.terminal(Console(file=out, width=width))
    text = out.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    joined = re.sub(r"\s+", "", text)
    for row in table.panels[0].rows:
        for name, cell in zip(table.panels[0].columns, row, strict=True):
            if name not in ("p", "seeds", "used") and re.fullmatch(r"[\d.]+ ± [\d.]+", cell.text):
                assert cell.text.replace(" ", "") in joined
