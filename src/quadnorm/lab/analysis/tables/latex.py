"""Tables as LaTeX with booktabs rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadnorm.lab.analysis.tables.text import foot

if TYPE_CHECKING:
    from quadnorm.lab.analysis.tables.table import Panel, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: rf"\textsuperscript{{{n}}}" for c, n in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", range(10), strict=True)},
    **{c: rf"$_{n}$" for c, n in zip("₀₁₂₃₄₅₆₇₈₉", range(10), strict=True)},
    "±": r"$\pm$",
    "→": r"$\to$",
    "↳": r"$\hookrightarrow$",
    "×": r"$\times$",
    "−": r"$-$",
    "α": r"$\alpha$",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    "≈": r"$\approx$",
    "≥": r"$\ge$",
    "…": r"\dots{}",
    "π": r"$\pi$",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "—": "---",
    "≤": r"$\le$",
    "∞": r"$\infty$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "<": r"$<$",
    ">": r"$>$",
}


def escaped(text: str) -> str:
    r"""Text escaped for LaTeX.

    >>> print(escaped("64² → 128², 5 %"))
    64\textsuperscript{2} $\to$ 128\textsuperscript{2}, 5 \%
    """
    return "".join(_SPECIAL.get(c, c) for c in " ".join(text.split()))


def latex(table: Table) -> str:
    """A ``table`` with one ``tabular`` per panel; needs booktabs and no other package."""
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{escaped(f'{table.title}. {table.caption}')}}}"]
    lines.append(rf"\label{{tab:{table.name}}}")
    for panel in table.panels:
        lines += _tabular(panel)
    lines += [rf"\par\smallskip{{\footnotesize {escaped(line)}\par}}" for line in foot(table)]
    return "\n".join([*lines, r"\end{table}", ""])


def _tabular(panel: Panel) -> list[str]:
    spec = "l" * panel.text_columns + "r" * (len(panel.columns) - panel.text_columns)
    lines = [rf"\par\medskip\textit{{{escaped(panel.title)}}}\par\smallskip"] if panel.title else []
    lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", _row([escaped(c) for c in panel.columns]), r"\midrule"]
    for row in panel.rows:
        lines.append(_row([_bold(c.text, c.bold) for c in row]))
        if any(c.paper for c in row):
            below = [_bold(c.paper.text, c.paper.bold) if c.paper else "" for c in row]
            below[0] = r"$\hookrightarrow$ paper"
            lines.append(_row([rf"{{\footnotesize {c}}}" if c else "" for c in below]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _bold(text: str, bold: bool) -> str:
    return rf"\textbf{{{escaped(text)}}}" if bold else escaped(text)


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
