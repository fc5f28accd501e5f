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
