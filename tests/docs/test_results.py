"""The pages of results are those of the committed records."""

import re
import runpy
import shutil

import pytest

from quadnorm.lab.analysis.claims.judging import judge_all
from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, PARTLY
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.report.markdown import results_page, studies_page, update_readme, write_results
from quadnorm.lab.studies.pack import unpack
from tests import ROOT

RENEW = "they are not those of the packs in results/ any more: run `make results`"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    packs = sorted((ROOT / "results").glob("*.tar.xz"))
    return Library([unpack(pack, tmp_path_factory.mktemp("records") / pack.name) for pack in packs])


def test_the_page_of_results(library):
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page(library, "results.svg"), RENEW
    assert (ROOT / "docs" / "results-studies.md").read_text(encoding="utf-8") == studies_page(library), RENEW


def test_the_page_opens_with_five_sentences_to_quote():
    opening = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert len(re.findall(r"^- .+\.$", opening, re.MULTILINE)) == 5
    assert opening.count("\n") == 4
    for word in ("claims of the paper", "What holds", "reading", "not hold", "trained models"):
        assert word in opening


def test_the_head_table_of_the_readme(library, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    update_readme(tmp_path / "README.md", library)
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text(), RENEW


def test_every_verdict_short_of_reproduced_has_a_likely_reason(library):
    short = [j for j in judge_all(library) if j.verdict in (PARTLY, CONTRADICTED)]
    assert [j.claim.name for j in short if not j.likely_reason] == []


def test_the_tables_of_the_limits(library):
    page = (ROOT / "docs" / "understand" / "limits.md").read_text(encoding="utf-8")
    script = runpy.run_path(str(ROOT / "examples" / "limits.py"))
    assert script["written"](page, library) == page, "run python examples/limits.py"
    assert page.count("| fno, darcy | ") == 3
    assert "—" not in script["table"](library, "whole")


def test_the_figure_of_the_page(library, tmp_path):
    """Its marks: other versions of matplotlib write the same picture in other words."""
    write_results(tmp_path / "results.md", library)
    drawn, committed = (
        re.findall(r"<use [^>]*y=\"([\d.]+)", (folder / "results.svg").read_text(encoding="utf-8"))
        for folder in (tmp_path, ROOT / "docs")
    )
    assert len(committed) > 20
    assert [float(y) for y in drawn] == pytest.approx([float(y) for y in committed], abs=1), RENEW


@pytest.mark.parametrize("name", ["degradation", "octaves"])
def test_the_pictures_of_records_are_those_of_the_packs(library, name, tmp_path):
    """Marks and numbers, not bytes: other versions of matplotlib write the same picture in other words."""
    draw = runpy.run_path(str(ROOT / "docs" / "pictures" / "draw.py"))["draw_of_records"]
    drawn = draw(name, "dark", library, tmp_path).read_text()
    kept = (ROOT / "docs" / "pictures" / f"{name}-dark.svg").read_text()
    assert re.findall(r">([^<>]+)</text>", drawn) == re.findall(r">([^<>]+)</text>", kept), "run make pictures"
    assert drawn.count("<use") == kept.count("<use")


COPY = "this page quotes docs/results-studies.md, which has other means now: copy them"
WAYS = ("as trained", "anchored", "extended", "run at the training grid")


def means(method, way, study="anchored-crossres"):
    """Means from the training grid to the farthest, without intervals, and the whole row, from the tables."""
    results = (ROOT / "docs" / "results-studies.md").read_text(encoding="utf-8")
    section = results.partition(f"\n### {study}\n")[2].partition("\n### ")[0]
    row = section.partition(f"\n| {method} | {way} | ")[2].partition("\n")[0]
    return re.findall(r"([\d.]+) ± ", row), row


def rows(page, first):
    """Cells of the rows of a page's tables that begin with one of these words."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [c for c in cells if c[0] in first]


def test_the_ways_compared_are_those_of_the_records():
    shown = [row for row in rows("understand/where-each-wins.md", WAYS) if len(row) == 6]
    assert [way for way, *_ in shown] == list(WAYS)
    for way, *numbers, change in shown:
        wanted, row = means("LayerNorm", way)
        assert numbers == wanted, COPY
        assert change in row, COPY


def test_the_norms_compared_are_those_of_the_records():
    shown = rows("start/which-norm.md", ("None", "LayerNorm", "InstanceNorm", "QuadNorm"))
    assert len(shown) == 4
    for norm, native, *far in shown:
        assert [native, *far] == [means(norm, WAYS[0])[0][0], *(means(norm, way)[0][-1] for way in WAYS)], COPY


def test_the_numbers_behind_the_recommendations_are_those_of_the_records():
    page = " ".join((ROOT / "docs" / "start" / "which-norm.md").read_text(encoding="utf-8").split())
    for study, methods in {
        "transolver-darcy": ("QuadNorm", "LayerNorm", "BlendQuadNorm"),
        "galerkin-poisson-10seed": ("QuadNorm", "LayerNorm", "QuadNorm, instance mode", "LayerNorm, token-wise"),
    }.items():
        for method in methods:
            (first, *_, last), _ = means(method, "as trained", study)
            words = {"QuadNorm, instance mode": "in instance mode", "LayerNorm, token-wise": "token-wise LayerNorm"}
            assert f"{words.get(method, method)} {first} → {last} %" in page, COPY
    alphas = [means(m, "as trained", "alpha-matrix")[0][-1] for m in ("α = 0", "α = 0.1", "α = 0.3", "LayerNorm")]
    assert f"give {', '.join(alphas[:3])} and {alphas[3]} %" in page, COPY
    blend, layer, quad = (
        re.findall(r"[\d.]+ ± [\d.]+", means(m, "as trained", "extreme-crossres")[1])[-1]
        for m in ("BlendQuadNorm", "LayerNorm", "QuadNorm")
    )
    assert f"{blend} % against LayerNorm's {layer} %, and QuadNorm's {quad} %" in page, COPY
