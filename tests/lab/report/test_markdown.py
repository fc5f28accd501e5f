"""Results as Markdown: the same from the same records, whole tables, and a README that keeps the rest of its text."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from quadnorm.lab.analysis.claims.judging import CLAIMS, Judged, judge_all
from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, PARTLY, REPRODUCED, Finding
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.tables.reach import COLUMNS, reach_table, reaches
from quadnorm.lab.report.markdown import (
    BEGIN,
    END,
    readings_table,
    readme_table,
    results_page,
    sentences,
    studies_page,
    update_readme,
    verdict_table,
    write_results,
)
from quadnorm.lab.studies import study
from quadnorm.lab.studies.runner import select
from tests.lab.analysis.synthetic_records import write_records

FAR = {"as-trained": 9.0, "transferred": 3.5, "native": 4.0}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    root = tmp_path_factory.mktemp("records")
    s = study("demo").at("desk")

    def error(run, way, grid):
        norm = {"LayerNorm": 1.0, "QuadNorm": 0.7}.get(run.method.label, 1.2)
        return (3.0 if grid == 33 else FAR.get(way, 5.0) * norm) * (1 + 0.01 * run.seed)

    write_records(s, root, error, test=1)
    return Library([root])


def test_each_way_stands_in_its_column(library):
    """The means written into the records, over the seeds that were run."""
    (reach,) = reaches(library)
    scale = np.mean([1 + 0.01 * s for s in reach.native])
    means = {head: np.mean(list(runs.values())) for head, runs in reach.far.items()}
    assert (reach.operator, reach.problem, reach.grids) == ("fno", "darcy", (33, 257))
    assert means["LayerNorm, as trained"] == pytest.approx(9.0 * scale)
    assert means["QuadNorm (paper)"] == pytest.approx(6.3 * scale)
    assert means["LayerNorm, transferred"] == pytest.approx(3.5 * scale)
    panel = reach_table(library).panels[0]
    shown = dict(zip(panel.columns, panel.rows[0], strict=True))
    assert [head for head, cell in shown.items() if cell.bold] in ([], ["LayerNorm, transferred"])
    others = {"operator", "problem", "grids", "LayerNorm at the training grid", "seeds"}
    assert set(panel.columns) - others <= set(COLUMNS)


def test_the_pages_repeat_and_have_every_claim(library, tmp_path):
    text, tables = results_page(library), studies_page(library)
    again = Library(library.roots)
    write_results(tmp_path / "out" / "results.md", again)
    written = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert written == text  # the demo's records do not draw the figure of the paper's main table
    assert not (tmp_path / "out" / "results.svg").exists()
    assert (tmp_path / "out" / "results-studies.md").read_text(encoding="utf-8") == tables
    for claim in CLAIMS:
        assert f"| *{claim.name}*: " in text
    for line in (line for line in (text + tables).splitlines() if line.startswith("|")):
        assert line.endswith("|")
    assert "## What each way reaches" in text
    assert "quadnorm study run demo --preset desk" in tables
    assert "# Results" in results_page(Library([tmp_path / "none"]))


def test_the_page_has_the_answer_the_figure_and_the_table_before_the_folded_details(tmp_path):
    """The order that a reader expects; heads stay outside of what is folded, so that links to them work."""
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path / "records", lambda run, way, grid: 3.0 + grid / 32, test=1)
    library = Library([tmp_path / "records"])
    write_results(tmp_path / "results.md", library)
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    before, *details = text.split("<details>\n<summary>")
    places = [before.index(part) for part in ("- Of 58 claims", "](results.svg)", "| the paper's claims |", "\n## ")]
    assert places == sorted(places)
    assert len(details) >= 4
    for part in details:
        inside, closed, after = part.partition("\n\n</details>\n")
        assert "</summary>\n\n" in inside, "Markdown inside needs an empty line before it"
        assert closed
        assert "\n#" not in inside
        assert not after.strip() or after.startswith("\n## ")
    drawn = ElementTree.parse(tmp_path / "results.svg").getroot()
    assert drawn.get("width") == "460"
    assert "prefers-color-scheme:dark" in (tmp_path / "results.svg").read_text(encoding="utf-8")


def test_settings_that_differ_in_size_only_are_told_apart(tmp_path):
    """Four and eight layers on the same problem and grids: the rows name what differs."""
    for name in ("error-decomp", "deep-crossres"):
        write_records(study(name).at("desk"), tmp_path, lambda run, way, grid: 3.0 + grid / 32, test=1)
    rows = reach_table(Library([tmp_path])).panels[0].rows
    assert {row[0].text for row in rows} == {"fno, width 16, 4 layers", "fno, width 24, 8 layers"}


def test_runs_of_the_papers_size_have_a_section_and_replace_no_study(library, tmp_path):
    """Two runs at the paper's budget beside a whole study at the desk's: the study stays, the two stand by themselves,
    once, although other studies share them."""
    desk = study("error-decomp").at("desk")
    write_records(desk, tmp_path, lambda run, way, grid: 3.0, test=1)
    full = select(study("error-decomp"), seeds=(0,), methods=("LayerNorm", "QuadNorm"))
    write_records(full, tmp_path, lambda run, way, grid: 2.5 if grid == 64 else 7.25, test=1)
    both = Library([tmp_path])
    assert both.results("error-decomp").study.preset == "desk"
    (alone,) = both.of_full_size()
    assert [m.label for m in alone.study.variants[0].methods] == ["LayerNorm", "QuadNorm"]
    text = studies_page(both)
    section = text.partition("## Runs of the paper's size")[2].partition("\n## ")[0]
    assert "2.50" in section
    assert "7.25" in section
    assert "not run" not in section
    assert "7.25" not in text.partition("## Studies")[2].partition("### error-decomp")[2].partition("\n### ")[0]
    assert "Runs of the paper's size" not in studies_page(library)


def test_the_readme_keeps_everything_but_its_table(library, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"# head\n{BEGIN}\nold\n{END}\ntail\n", encoding="utf-8")
    update_readme(path, library)
    text = path.read_text(encoding="utf-8")
    assert text == f"# head\n{BEGIN}\n{readme_table(library)}\n{END}\ntail\n"
    assert "| the paper's claims | read as each table fits best | with the listing's defaults |" in text
    assert "old" not in text
    path.write_text("no marks")
    with pytest.raises(ValueError, match="needs the lines"):
        update_readme(path, library)


def test_a_claim_that_is_decided_in_part_says_so():
    claim = replace(CLAIMS[0], name="c", text="three parts", tables=(), remarks=())
    findings = (
        Finding(NOT_RUN),
        Finding(REPRODUCED, "one", "1", "s: desk, 3 seeds", models=frozenset({"a"}), family="fno, darcy, 32²"),
        Finding(REPRODUCED, "two", "2", "s: desk, 3 seeds", caveats=("short runs",), models=frozenset({"a", "b"})),
    )
    row = verdict_table((Judged(claim, PARTLY, findings, NOT_RUN, shared=4),)).splitlines()[2]
    assert row.startswith(
        "| *c*: three parts | **partly** | not run | 1 → one (reproduced)<br>2 → two (reproduced); short"
    )
    assert "1 of 3 parts not run" in row
    assert "2 models (fno, darcy, 32²; s: desk, 3 seeds), shared with 4 other claims" in row


def test_the_sentences_name_what_holds_under_which_reading(tmp_path):
    """LayerNorm's double in layer mode, the printed pattern in instance mode."""
    s = study("extreme-crossres").at("desk")
    full = study("extreme-crossres").variant("fno")

    def error(run, way, grid):
        row = "LayerNorm" if run.method.norm == "quad" else run.method.reads or run.method.label
        there = full.test[run.variant.test.index(grid)]
        return full.printed()[row, there].value * (1 + 0.002 * run.seed * (1 if row == "QuadNorm" else -1))

    write_records(s, tmp_path, error, test=1)
    library = Library([tmp_path])
    first, holds, only, against, rests = sentences(judge_all(library), library)
    assert "claims of the paper" in first
    assert "*extreme gap*" in holds
    assert "*extreme gap*" in only
    assert "*blend keeps native accuracy*" not in only
    assert "hold" in against
    assert "darcy" in rests
    table = readings_table(library)
    best = next(line for line in table.splitlines() if "`tab:extreme-crossres`, fno" in line)
    assert "**QuadNorm in instance mode**" in best
    assert sentences(judge_all(Library([tmp_path / "none"])), Library([tmp_path / "none"])) == []


def test_the_readme_counts_every_claim_of_the_paper_once(tmp_path):
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path, lambda run, way, grid: 3.0 + grid / 32, test=1)
    rows = [line.split(" | ") for line in readme_table(Library([tmp_path])).splitlines()[2:]]
    paper = sum(not claim.ours for claim in CLAIMS)
    assert sum(int(row[1]) for row in rows) == sum(int(row[2]) for row in rows) == paper
