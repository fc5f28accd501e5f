"""One name for each thing, in Python, on the command line and in reports; and plain words."""

import ast
import re
from typing import get_args

import pytest

import quadnorm
from quadnorm._ways import WAYS
from quadnorm.lab.analysis.comparisons import way_title
from quadnorm.lab.report.glossary import GLOSSARY
from tests import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if not {"generated", "gallery"} & set(p.parts)),
]
# Riddles that stood in messages and pages, and what to write instead.
RIDDLES = {
    r"whoever names|[Ss]tranger's\b": "who runs what, by name; another library's model",
    r"(was|is|are|be) looked at\b|looked into": "recorded, inspected, checked",
    r"seen at work": "needs a sample input",
    r"makes other calls than": "the forward pass changed since it was recorded",
    r"(?<!at_)native(ly)? (runs?|results?)\b": "run at the training grid",
    r"as everybody's|out of( the \w+'s)? sight": "which code, and why it is not found",
}


def test_the_five_ways_have_one_name_everywhere():
    from quadnorm.cli.commands.adapt import How
    from quadnorm.cli.commands.ways import chosen_ways

    assert len(WAYS) == 5
    assert {"as-trained", *get_args(How)} == set(WAYS)
    for word, way in WAYS.items():
        assert chosen_ways(word) == [word]
        assert way_title(word) == way.title
        assert f"--how {word}." in GLOSSARY[way.title]
        if way.function:
            assert f"qn.{way.function}," in GLOSSARY[way.title]
            assert callable(getattr(quadnorm, way.function))


def strings(path) -> str:
    """What a module may print: its strings, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    plain = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    return "\n".join(n.value for n in shown if id(n) not in plain)


@pytest.mark.parametrize("pattern", RIDDLES)
def test_messages_and_pages_have_no_riddles(pattern):
    found = [p for p in PAGES if p.name != "CHANGELOG.md" and re.search(pattern, p.read_text(encoding="utf-8"))]
    found += [p for p in sorted((ROOT / "src").rglob("*.py")) if re.search(pattern, strings(p))]
    assert found == [], f"write instead: {RIDDLES[pattern]}"


def test_anchors_of_others_are_told_apart():
    assert "AB-UPT" in GLOSSARY["anchored"]
