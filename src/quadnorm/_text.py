"""Text from outside (records, file names, other people's errors) made safe to show in a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import IO, Any

from quadnorm._memory import no_memory, out_of_memory


def printable(text: str) -> str:
    r"""The text with every control character written out, so that none can move the cursor or change colours.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    if text.isascii() and text.isprintable():  # nearly always, and a report has a million of them
        return text
    return "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn") else _written(c) for c in text)


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable_values(value: Any) -> Any:
    """The same for every text in a JSON value, keys included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [v if type(v) is float else printable_values(v) for v in value]
    if isinstance(value, dict):
        return {printable(k): printable_values(v) for k, v in value.items()}
    return value


def drawable(text: str) -> str:
    r"""The text for a picture: matplotlib reads what stands between two dollars as a formula, and may fail to.

    >>> drawable("a$b$")
    'a\\$b\\$'
    """
    return printable(text).replace("$", r"\$")


def one_line(error: BaseException) -> str:
    r"""What an exception says, in one printable line; its type where it says nothing, a sentence if memory ran out.

    >>> one_line(ValueError("first\nsecond")), one_line(ValueError())
    ('first; second', 'ValueError')
    """
    if out_of_memory(error):
        return no_memory(error)
    lines = [line.strip() for line in str(error).splitlines()]
    return printable("; ".join(line for line in lines if line)) or type(error).__name__


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A plain table for notebooks; what came from outside is escaped.

    >>> html_table(["a"], [["<1>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def progress_stream() -> IO[str]:
    """Where lines about progress go: stderr; in a notebook stdout, because notebooks paint stderr red."""
    return sys.stdout if "ipykernel" in sys.modules else sys.stderr
