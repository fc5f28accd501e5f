"""CONTRIBUTING.md is about the code that is there: its journeys and recipes name files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "quadnorm"
JOURNEYS = re.findall(
    r"^\*\*(.+?)\*\*(.+?)(?=\n\n|\Z)", TEXT.split("## Five journeys")[1].split("\n## ")[0], re.S | re.M
)


def files(path: str) -> list[Path]:
    """What a path of a journey may mean: the modules whose path ends so, or a folder's files."""
    if path.endswith(".py"):
        return [p for p in SOURCE.rglob("*.py") if f"/{p.relative_to(SOURCE)}".endswith(f"/{path}")]
    return sorted(p for p in (SOURCE / path).rglob("*.*") if p.suffix != ".pyc")


def defined(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {n.name for n in tree if isinstance(n, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("name", "journey"), JOURNEYS, ids=[name for name, _ in JOURNEYS])
def test_a_journey_passes_through_code_that_exists(name, journey):
    quoted = re.findall(r"`([\w./]+)`", journey)
    paths = [q for q in quoted if q.endswith(".py") or "/" in q]
    found = {path: files(path) for path in paths}
    assert [path for path, matches in found.items() if not matches] == []
    there = set().union(*(defined(p) for matches in found.values() for p in matches if p.suffix == ".py"))
    names = {part for q in quoted if q not in paths for part in q.split(".") if part != "records"}
    assert {n for n in names - there if not list(SOURCE.rglob(f"{n}/__init__.py"))} == set()


def test_the_paths_of_the_recipes_exist():
    recipes = TEXT.split("## Four recipes")[1].split("## Five journeys")[0]
    for path in re.findall(r"`([\w]+(?:/[\w.]+)+/?)`", recipes):
        roots = [root / path for root in (ROOT, SOURCE, SOURCE / "lab" / "studies")]
        assert any(p.exists() for p in roots) or "NAME" in path, path


def test_there_are_five_journeys():
    assert len(JOURNEYS) == 5
