"""One name for each way to another grid, everywhere: no table, figure, report or page uses another."""

import re
from pathlib import Path

import pytest

from quadnorm._ways import WAYS
from quadnorm.adapt.drift import Drifts
from quadnorm.lab.analysis.comparisons import way_title
from quadnorm.lab.studies.study import ANCHORED, AS_TRAINED, EXTENDED, NATIVE, TRANSFERRED

ROOT = Path(__file__).parents[1]
TITLES = ("as trained", "anchored", "extended", "run at the training grid", "transferred")
# What the ways were called before; prose such as "its result is interpolated" says what happens, and stays.
OTHER = re.compile(
    r"run[- ]and[- ](upsample|interpolate)|native,? (run )?(carried|upsampled|interpolated)|natively, upsampled"
    r"|run at [^|\"'\n,.;:]{1,20},? (and )?(interpolated|upsampled)|[\"|] ?as it is ?[\"|]"
    r"|\| ?at_native|\| ?(anchor|extend) ?\||\bextend is the safe default"
)
FILES = [
    p
    for folder, kinds in (("src", "py toml html css js"), ("docs", "md py svg"), ("examples", "py"), (".", "md"))
    for kind in kinds.split()
    for p in ((ROOT / folder).rglob(f"*.{kind}") if folder != "." else ROOT.glob("README.md"))
]


def test_the_names():
    assert tuple(way.title for way in WAYS.values()) == TITLES
    assert tuple(way.label for way in (AS_TRAINED, ANCHORED, EXTENDED, NATIVE, TRANSFERRED)) == TITLES
    assert tuple(map(way_title, ("as-trained", "anchor-all", "extended", "native", "transferred"))) == TITLES


def test_the_search_finds_other_names():
    for text in ("run-and-upsample", "native, carried", "run at 33², interpolated", "| as it is |", '"as it is"'):
        assert OTHER.search(text), text
    for text in ("run at the training grid", "| as trained |", "its native result, interpolated", "kept as it is"):
        assert not OTHER.search(text), text


@pytest.mark.parametrize("folder", ["src", "docs", "examples", "README.md"])
def test_no_other_names(folder):
    found = []
    for path in FILES:
        if path.relative_to(ROOT).parts[0] == folder:
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{path.relative_to(ROOT)}:{k}: {m[0]}" for k, x in enumerate(lines, 1) if (m := OTHER.search(x))]
    assert not found, "\n".join(found)


def test_reports_take_the_names():
    drifts = Drifts((17,), (9,), dict.fromkeys(TITLES[:4], 0.0))
    assert all(f"{way} 0.0e+00" in str(drifts) for way in TITLES[:4])
