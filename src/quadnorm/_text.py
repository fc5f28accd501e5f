"""Text from outside (records, file names, other people's errors) made safe to show in a terminal."""

from __future__ import annotations

import unicodedata
from typing import Any


def printable(text: str) -> str:
    r"""The text with every control character written out, so that none can move the cursor or change colours.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    return "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn") else _written(c) for c in text)


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable_values(value: Any) -> Any:
    """The same for every text in a JSON value, keys included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_values(v) for v in value]
    if isinstance(value, dict):
        return {printable(k): printable_values(v) for k, v in value.items()}
    return value


def one_line(error: BaseException) -> str:
    r"""What an exception says, in one printable line; its type where it says nothing.

    >>> one_line(ValueError("first\nsecond")), one_line(ValueError())
    ('first; second', 'ValueError')
    """
    lines = [line.strip() for line in str(error).splitlines()]
    return printable("; ".join(line for line in lines if line)) or type(error).__name__
