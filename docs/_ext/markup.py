"""Plain text and tables as Markdown that says the same."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\*_\[\]<>|$~#{}])")
_QUOTED = re.compile(r"(``.+?``|`.+?`)")


def escape(text: object) -> str:
    r"""Text whose signs are not markup; what is quoted by backticks stays code.

    >>> print(escape("a_1 < |b| and ``x*y``"))
    a\_1 \< \|b\| and `x*y`
    """
    parts = _QUOTED.split(str(text))
    return "".join(f"`{p.strip('`')}`" if k % 2 else _SPECIAL.sub(r"\\\1", p) for k, p in enumerate(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(" ".join(cell.split()) for cell in line) + " |" for line in lines) + "\n"


def code(text: object) -> str:
    """A value as code that is safe in a table's cell."""
    return f"`{str(text).replace('|', chr(92) + '|')}`"


_SPACE = re.compile(
    r"(?<=[\d²³%]) (?=[±→/] ?[\d−+])|(?<=[\d²³%] [±→/]) (?=[\d−+])"
    r"|(?<=\d) (?=%|\(×)|(?<=\d,) (?=(?:desk|paper|smoke)\b)"
)
_EXPONENT = re.compile(r"(?<=\de-)(?=\d)")


def unbroken(text: str) -> str:
    r"""Spaces inside numbers that belong together as no-break spaces, a word joiner behind the minus of an exponent.

    >>> unbroken("a 16.35 ± 0.71 or 32² → 128²").replace("\N{NO-BREAK SPACE}", "~")
    'a 16.35~±~0.71 or 32²~→~128²'
    >>> unbroken("+3.64 (×2.29)").replace("\N{NO-BREAK SPACE}", "~")
    '+3.64~(×2.29)'
    >>> unbroken("1.2e-02") == "1.2e-\N{WORD JOINER}02"
    True
    """
    return _EXPONENT.sub("\N{WORD JOINER}", _SPACE.sub("\N{NO-BREAK SPACE}", text))
