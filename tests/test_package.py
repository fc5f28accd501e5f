"""What a newcomer meets first: the import, the README, the public names, the command line."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest

import quadnorm
from tests import ROOT


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_only_torch_numpy_and_the_standard_library():
    """Everything that using the public names loads, beyond what torch and numpy load by themselves."""
    code = """
import sys, torch, numpy, torch._dynamo, torch._inductor.custom_graph_pass
before = set(sys.modules)
import quadnorm
for name in quadnorm.__all__:
    getattr(quadnorm, name)
roots = {m.partition(".")[0] for m in set(sys.modules) - before}
print(*sorted(r for r in roots - set(sys.stdlib_module_names) - {"torch", "numpy", "quadnorm"} if r.isidentifier()))
"""
    assert python(code) == ""


def test_the_norms_and_operators_load_nothing_of_torch_that_torch_did_not_load_itself():
    """Waiting: ``torch._dynamo`` alone takes longer than ``import torch``; a decorator is enough to load it."""
    code = """
import sys, torch
before = set(sys.modules)
import quadnorm
quadnorm.QuadNorm, quadnorm.Anchored, quadnorm.operators.FNO, quadnorm.carry, quadnorm.problems.problem
roots = (m.partition(".")[0] for m in set(sys.modules) - before if getattr(sys.modules[m], "__file__", None))
print(*sorted(set(roots) - set(sys.stdlib_module_names) - {"numpy", "quadnorm"}))
"""
    assert python(code) == ""


def test_public_names_exist_and_are_listed():
    for name in quadnorm.__all__:
        assert getattr(quadnorm, name) is not None
        assert name in dir(quadnorm)
    with pytest.raises(AttributeError, match="no attribute 'Gird'"):
        quadnorm.Gird  # noqa: B018


def test_rooms_are_attributes_and_the_listing_is_clean():
    assert python("import quadnorm as qn; print(qn.operators.FNO.__name__, qn.problems.problem('poisson').name)") == (
        "FNO poisson"
    )
    assert set(dir(quadnorm)) - set(quadnorm.__all__) == {"__version__", "operators", "problems"}


# elsewhere.md shows packages that are not installed here; tests/docs/test_elsewhere.py runs it where they are
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("**/*.md")) if p.name != "elsewhere.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_code_on_the_pages_runs(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "runs").mkdir(parents=True)  # what a study leaves behind, here before the first run
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, page.name, "exec"), namespace)


def test_readme_shows_code_early():
    text = (ROOT / "README.md").read_text()
    assert text[: text.index("```python")].count("\n") < 30


def test_source_distribution_is_named_and_complete():
    """Folders that lie about stay out, and nothing that the project needs is forgotten."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(list(ROOT.glob(path[1:])) for path in named), "every name stands for something"
    tops = {path.split("/")[1] for path in named} | {"pyproject.toml"}
    assert {p.name for p in ROOT.glob("[!.]*") if p.suffix in (".md", ".py", ".txt", ".toml", ".cff")} <= tops
    assert {"src", "tests", "docs", "examples", "results", "Makefile", "LICENSE"} <= tops


def test_version_is_one():
    assert '[tool.hatch.version]\npath = "src/quadnorm/__init__.py"' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {quadnorm.__version__}" in (ROOT / "CITATION.cff").read_text()
    released = re.search(
        rf"^## \[{re.escape(quadnorm.__version__)}\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert released is not None
    assert f"date-released: {released[1]}" in (ROOT / "CITATION.cff").read_text()


def test_no_two_classes_have_the_same_name():
    """A name in a traceback or a report says which class is meant."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(homes) > 200
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
