"""Generated pages say what the package says; links lead somewhere; the pictures are what their numbers draw."""

import doctest
import pkgutil
import re
import runpy
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests import ROOT

GENERATED = ("generated", "gallery")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if not set(GENERATED) & set(p.relative_to(ROOT).parts)),
]


@pytest.fixture
def pages(monkeypatch):
    """Modules of docs/_ext by name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    from importlib import import_module

    return import_module


def slug(heading: str) -> str:
    """The anchor that GitHub and MyST give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Every relative link names a file of the repository, and its anchor a heading there."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', prose)
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {link}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, heads), f"{page.name} links to {link}"


def test_what_a_package_index_shows_needs_no_repository(monkeypatch):
    """It has no relative link and no picture; `make release-check` looks at the wheel itself."""
    interface = SimpleNamespace(MetadataHookInterface=object)  # hatchling is only there while a package is built
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    long_description = runpy.run_path(str(ROOT / "hatch_build.py"))["long_description"]
    text = "See [how](docs/a.md), [a.md](a.md), [b](https://b.org)."
    assert long_description(text) == "See how (`docs/a.md`), `a.md`, [b](https://b.org)."
    shown = long_description((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "existing models (`docs/howto/existing-models.md`)" in shown
    assert "source distribution" in shown
    assert "<picture>" not in shown
    assert not re.search(r"\]\((?![a-z]+:|#)|src(set)?=", shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_fits_the_column(page):
    """116 characters: the width of a block on the site."""
    fence = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fence = line if fence is None else None
        elif fence is not None and not fence.startswith("```{"):
            assert len(line) <= 116, line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pictures_of_a_page_are_there(page):
    for name in re.findall(r"^```\{image\} (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert (page.parent / name).exists()


def test_every_name_of_the_reference_can_be_imported():
    """Sphinx would say so, but only when the site is built."""
    text = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")))
    names = re.findall(r"^\.\. auto(?:class|function|data|exception):: (\S+)", text, flags=re.MULTILINE)
    assert len(names) > 50
    assert [name for name in names if pkgutil.resolve_name(name) is None] == []


def test_every_command_and_option_is_on_the_page(pages):
    """Compared with the help that a terminal prints."""
    from typer.testing import CliRunner

    from quadnorm.cli.app import app

    text = pages("command_page").command_page()
    for command in (["train"], ["eval"], ["study", "run"], ["data", "show"], ["advise"]):
        section = text[text.index(f"## quadnorm {' '.join(command)}\n") :].split("\n## ")[0]
        shown = CliRunner().invoke(app, [*command, "--help"], terminal_width=200).output
        for option in set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}:
            assert f"`{option}`" in section, (command, option)
    for sub in ("list", "plan", "run", "show", "pack"):
        assert f"## quadnorm study {sub}\n" in text


def test_every_key_is_on_the_page_with_a_meaning(pages):
    from quadnorm.training.config import TrainConfig

    text = pages("config_page").config_page()
    for name, field in TrainConfig.model_fields.items():
        keys = getattr(field.annotation, "model_fields", None)
        for key in [f"{name}.{k}" for k in keys] if keys else [name]:
            row = next(line for line in text.splitlines() if line.startswith(f"| `{key}` |"))
            meaning = row.rstrip("| ").rpartition("|")[2].strip()
            assert len(meaning) > 8, f"{key} has no description: a docstring below the field gives it one"
    assert "| `schedule.final` | float ≥ 0, ≤ 1 | `0.0` |" in text


def test_every_problem_has_a_page(pages, tmp_path, monkeypatch):
    from quadnorm.problems import problem_names

    module = pages("problem_pages")
    monkeypatch.setattr(module, "_draw", lambda name, picture: picture.write_bytes(b""))  # drawn by the site's build
    written = module.problem_pages(tmp_path)
    assert set(written) == {f"{name}.md" for name in problem_names()} | {"index.md"}
    assert "**Law.** " in written["darcy.md"]
    assert "| `viscosity` | " in written["navier-stokes.md"]


def test_every_study_has_a_page_with_what_the_paper_prints(pages, tmp_path):
    from quadnorm.lab.studies import study_names

    results = tmp_path / "results-studies.md"
    results.write_text(
        "# Results\n\n### demo, paper preset\n\n| LayerNorm | 2.1 |\n\n### demo\n\n| LayerNorm | 4.6 |\n"
    )
    written = pages("study_pages").study_pages(results)
    assert set(written) == {f"{name}.md" for name in study_names()} | {"index.md"}
    assert "| QuadNorm | 4.35 ± 0.05 | **5.61 ± 0.14** |" in written["extreme-crossres.md"]
    assert "results-studies.md#demo" in written["demo.md"]
    assert "| LayerNorm | 4.6 |" in written["demo.md"]
    assert "size\n\n| LayerNorm | 2.1 |" in written["demo.md"]
    assert "results-studies.md" not in written["extreme-crossres.md"]
    assert "Not measured yet" in written["extreme-crossres.md"]


def test_figures_are_drawn_from_the_records_or_named_with_the_reason(pages, monkeypatch):
    from quadnorm.lab.analysis import export

    plain, recorded = (export.drawing(name) for name in ("schematic", "error-decomposition"))
    without = replace(recorded, name="without", title="No records", draw=lambda library: None)
    monkeypatch.setattr(export, "DRAWINGS", (plain, recorded, without))
    text = pages("figure_page").figure_page([ROOT / "results" / "desk.tar.xz"])
    assert text.count("<svg") == 2
    assert "(studies/error-decomp.md)" in text
    assert "- No records (`fig:error-decomposition`): needs records of error-decomp" in text


def test_links_to_sources_lead_to_pages_made_of_them(pages):
    for source in pages("site_links").PAGES:
        assert (ROOT / source).exists()


@pytest.mark.parametrize(
    "name", ["glossary_page", "markup", "config_page", "problem_pages", "site_links", "study_pages"]
)
def test_examples_in_the_generators(pages, name):
    module = pages(name)
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["transfer", "weights", "ways"])
def test_the_pictures_are_what_the_script_draws(name, tmp_path):
    """Shapes and numbers, not bytes: other versions of matplotlib write the same picture in other words."""
    script = runpy.run_path(str(ROOT / "docs" / "pictures" / "draw.py"))
    for theme in ("light", "dark"):
        drawn = script["draw"](name, theme, tmp_path).read_text()
        kept = (ROOT / "docs" / "pictures" / f"{name}-{theme}.svg").read_text()
        for mark in ("<path", "<use", "#c9510c" if theme == "light" else "#f0883e"):
            assert drawn.count(mark) == kept.count(mark)
