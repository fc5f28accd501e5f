"""The pages of results are those of the committed records."""

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
