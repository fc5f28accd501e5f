"""The style of figures, and how they are written: SVG and PNG files, or SVG text for the page.

Figures are 6.8 inches wide (two columns) with type of 8 points. Text and lines have one colour, which the page replaces
by its own colour in light and dark mode.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One colour and one marker for each method, the same in every figure. The colours are Okabe and Ito's, which
# colour-blind people can distinguish; markers distinguish the methods in grey print too.
_KNOWN = {
    "LayerNorm": ("#0072B2", "o"),
    "QuadNorm": ("#D55E00", "s"),
    "BlendQuadNorm": ("#009E73", "D"),
    "InstanceNorm": ("#E69F00", "^"),
    "None": ("#7F7F7F", "v"),
    "GroupNorm": ("#56B4E9", "P"),
    "RMSNorm": ("#CC79A7", "X"),
}
_OTHERS = (
    ("#6A3D9A", "<"),
    ("#8C6D31", ">"),
    ("#117733", "h"),
    ("#AA4499", "p"),
    ("#4D4D4D", "d"),
    ("#44AA99", "*"),
    ("#882255", "8"),
    ("#B8A000", "H"),
)


def styles(labels: list[str]) -> dict[str, tuple[str, str]]:
    """(colour, matplotlib marker) of each method, in the order given.

    >>> styles(["QuadNorm", "something new"])
    {'QuadNorm': ('#D55E00', 's'), 'something new': ('#6A3D9A', '<')}
    """
    fresh = [label for label in dict.fromkeys(labels) if label not in _KNOWN]
    spare = {label: _OTHERS[k % len(_OTHERS)] for k, label in enumerate(fresh)}
    return {label: _KNOWN.get(label) or spare[label] for label in dict.fromkeys(labels)}


INK, FAINT = "#1c2430", "#8b95a3"
UNIFORM, QUADRATURE = "#D55E00", "#009E73"  # equal weights and control volumes
WIDTH = 6.8

_RC: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",
    "svg.hashsalt": "quadnorm",
}


@contextmanager
def style() -> Iterator[None]:
    """A context with the style of our figures; matplotlib's settings are restored afterwards."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'quadnorm[bench]'") from error
    with mpl.rc_context(_RC):
        yield


def sheet(height: float, rows: int = 1, columns: int = 1, width: float = WIDTH, **kwargs: Any) -> tuple[Figure, Any]:
    """A figure without a window, and its axes as an array (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)


def save(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """``stem.svg`` and ``stem.png``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = stem.with_suffix(".svg"), stem.with_suffix(".png")
    svg, png = io.StringIO(), io.BytesIO()
    # The canvases are printed directly; savefig would first draw everything once more, to measure it.
    with style():
        _print_svg(figure, svg)
        dpi, figure.dpi = figure.dpi, 220
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(png)
        figure.dpi = dpi
    write_atomic(files[0], svg.getvalue(), "the figure")
    write_atomic(files[1], png.getvalue(), "the figure")
    return files


def _print_svg(figure: Figure, out: Any) -> None:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    dpi = figure.dpi
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(out, metadata={"Date": None})
    figure.dpi = dpi  # printing has set it to SVG's 72
    # Positions are relative to the sheet, so the layout that was computed once holds for every further print.
    figure.set_layout_engine("none")


def inline_svg(figure: Figure, name: str) -> str:
    """SVG text for an HTML page: no prolog, transparent, in the page's text colour, with unique ids."""
    out = io.StringIO()
    patches = [figure.patch, *(axis.patch for axis in figure.axes)]
    shown = [patch.get_visible() for patch in patches]
    with style():
        for patch in patches:
            patch.set_visible(False)
        _print_svg(figure, out)
        for patch, visible in zip(patches, shown, strict=True):
            patch.set_visible(visible)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\n\s*", "\n", text)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())
    seen: set[str] = set()

    def own(match: re.Match[str]) -> str:
        # Equal images (colour bars) get equal ids from matplotlib; nothing refers to the later ones.
        first = match[1] not in seen
        seen.add(match[1])
        return f' id="{slug}-{match[1]}"' if first else ""

    text = re.sub(r'\sid="([^"]+)"', own, text)
    text = re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{slug}-\2", text)
    text = re.sub(re.escape(INK), "currentColor", text, flags=re.IGNORECASE)
    # The page scales it down on narrow screens, but never up: its type stays as large as the page's.
    head, rest = text[: text.index(">")], text[text.index(">") :]
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} style="max-width: {116 * figure.get_figwidth():.0f}px"{rest}'


def standalone_svg(figure: Figure, title: str) -> str:
    """SVG text of a file that pages show as a picture: transparent, its ink dark or light as the page asks for."""
    text = inline_svg(figure, title)
    width, height = (round(size * 100) for size in figure.get_size_inches())
    ink = "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}"
    head, _, rest = text.partition(">")
    head = re.sub(r' style="[^"]*"', f' width="{width}" height="{height}" role="img"', head)
    return f"{head}>\n<title>{escape(title)}</title>\n<style>{ink}</style>{rest}\n"
