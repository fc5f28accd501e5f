"""The page of figures, drawn from the committed records: those of the paper, redrawn, and ours."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from markup import escape

COMMAND = "quadnorm report results/*.tar.xz --files out"


def figure_page(packs: Iterable[Path]) -> str:
    """Every figure that the records can draw, as SVG in the colours of the page; then what is missing, and why."""
    from quadnorm.lab.analysis.export import DRAWINGS, attempt
    from quadnorm.lab.analysis.figures.style import inline_svg
    from quadnorm.lab.analysis.results import Library
    from quadnorm.lab.studies.pack import unpack

    parts = [
        "# Figures",
        "The paper's figures, redrawn from our own runs, and figures of ours. The runs are the same as those behind "
        "the [tables](../results.md): smaller than the paper's, so compare lines and colours with each other rather "
        f"than with the printed values. `{COMMAND}` writes every figure as SVG and PNG.",
    ]
    missing = []
    with TemporaryDirectory() as folder:
        library = Library([unpack(pack, Path(folder, pack.name)) for pack in packs])
        for d in DRAWINGS:
            figure, why = attempt(d.name, library)
            if figure is None:
                missing.append(f"- {escape(d.title)}{_label(d)}: {escape(why)}")
                continue
            parts += [f"## {escape(d.title)}", _picture(inline_svg(figure, d.name), d.title), escape(d.caption)]
            parts.append(_source(d))
    if missing:
        parts += ["## Not drawn yet", "\n".join(missing)]
    return "\n\n".join(parts) + "\n"


def _picture(svg: str, title: str) -> str:
    """The drawing itself in the page, so that its text takes the page's colour in light and dark."""
    return f'```{{raw}} html\n<div class="drawing" role="img" aria-label="{title}">\n{svg}\n</div>\n```'


def _label(d: object) -> str:
    return f" (`{d.label}`)" if d.label else ""


def _source(d: object) -> str:
    """Where its numbers come from."""
    paper = f"The paper's `{d.label}`. " if d.label else ""
    if not d.needs:
        return paper + "Computed when this page was made; needs no trained model."
    studies = " or ".join(f"[{name}](studies/{name}.md)" for name in d.needs)
    return f"{paper}Records of {studies}."
