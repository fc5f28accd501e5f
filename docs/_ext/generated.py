"""Pages that are made of the package itself, written before Sphinx reads the sources: ``docs/generated``."""

from pathlib import Path

from command_page import command_page
from config_page import config_page
from figure_page import figure_page
from glossary_page import glossary_page
from problem_pages import problem_pages
from study_pages import study_pages


def write_pages(docs: Path) -> list[Path]:
    """Write every generated page; a page that is what it was keeps its date, so that only changes are built again."""
    root = docs / "generated"
    (root / "problems").mkdir(parents=True, exist_ok=True)
    pages = {"commands.md": command_page(), "configuration.md": config_page(), "glossary.md": glossary_page()}
    pages["figures.md"] = figure_page(sorted((docs.parent / "results").glob("*.tar.xz")))
    pages |= {f"problems/{name}": text for name, text in problem_pages(root / "problems").items()}
    pages |= {f"studies/{name}": text for name, text in study_pages(docs / "results-studies.md").items()}
    for old in set(root.rglob("*.md")) - {root / name for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [root / name for name in pages]


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
