"""The pages of results are those of the committed records."""

import re
import shutil

import pytest

from quadnorm.lab.analysis.results import Library
from quadnorm.lab.report.markdown import results_page, update_readme
from quadnorm.lab.studies.pack import unpack
from tests import ROOT

RENEW = "they are not those of results/desk.tar.xz any more: run `make results`"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return Library([unpack(ROOT / "results" / "desk.tar.xz", tmp_path_factory.mktemp("records") / "desk")])


def test_the_page_of_results(library):
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page(library), RENEW


def test_the_head_table_of_the_readme(library, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    update_readme(tmp_path / "README.md", library)
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text(), RENEW


def test_the_ways_compared_are_those_of_the_records():
    """The table of where-each-wins.md has the means of docs/results.md, without their intervals."""
    page = (ROOT / "docs" / "understand" / "where-each-wins.md").read_text(encoding="utf-8")
    ways = "as trained|anchored|extended|run at the training grid, interpolated"
    shown = re.findall(rf"^\| ({ways}) \| (.+) \|$", page, re.M)
    assert len(shown) == 4
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = results.partition("### anchored-crossres")[2].partition("\n### ")[0]
    for way, numbers in shown:
        row = section.partition(f"\n| LayerNorm | {way} | ")[2].partition("\n")[0]
        means = re.findall(r"([\d.]+) ± ", row)
        assert numbers.split(" | ")[:4] == means, RENEW
        assert numbers.split(" | ")[4] in row, RENEW
