"""Tables as HTML, Markdown, LaTeX, CSV and on a terminal: escaped, balanced, with every name and number."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from math import sqrt

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from quadnorm.lab.analysis.results import load_results
from quadnorm.lab.analysis.tables import Table, study_table
from quadnorm.lab.studies import Method, study
from quadnorm.lab.studies.study import AS_TRAINED
from tests.lab.analysis.synthetic_records import write_records
from tests.lab.analysis.tables.small_study import ERRORS, cells, cells_text, known, small_study
from tests.lab.studies.tiny_study import ANCHORED

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
