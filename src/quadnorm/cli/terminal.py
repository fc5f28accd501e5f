"""Printing: control codes from file names or data are removed, and characters that a terminal lacks are replaced."""

from __future__ import annotations

import codecs
import csv
import json
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from quadnorm._json import without_nan
from quadnorm._text import printable

_PLAIN = {"→": "->", "×": "x", "−": "-", "…": "...", "·": "*", "≥": ">=", "≤": "<=", "–": "-", "—": "-", "≈": "~"}
_FILE_WIDTH = 160  # columns when the output is a file: wide enough that no name is cut


def prepare_streams() -> None:
    """Replace characters that the output's encoding lacks by plain ones, instead of raising an error."""
    codecs.register_error("quadnorm-plain", _replace)
    for stream in (sys.stdout, sys.stderr):
        encoding = str(getattr(stream, "encoding", None) or "utf-8").lower()
        if not encoding.startswith("utf") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="quadnorm-plain")
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # file names that are not text


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = [_PLAIN.get(c) or _ascii(c) for c in error.object[error.start : error.end]]
    return "".join(plain), error.end


def _ascii(character: str) -> str:
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"


def say(*parts: object) -> None:
    """Print text without control codes; line breaks stay."""
    text = " ".join(str(part) for part in parts)
    print("\n".join(printable(line) for line in text.split("\n")))


def dumps(value: Any) -> str:
    """JSON for people and programs; NaN and infinity, which JSON does not know, become null."""
    return json.dumps(without_nan(value), indent=2, ensure_ascii=False, default=str)


def rows_as(records: Sequence[Mapping[str, Any]], as_json: bool, as_csv: bool) -> bool:
    """Print records as JSON or CSV if one of the two was asked for; returns whether it did."""
    if as_json and as_csv:
        raise ValueError("--json and --csv were both given; choose one")
    if as_json:
        print(dumps(list(records)))
    elif as_csv:
        columns = list(dict.fromkeys(key for record in records for key in record))
        writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return as_json or as_csv


def console() -> Any:
    """A rich console without markup: a path may contain [brackets]."""
    from rich.console import Console

    here = Console(markup=False, highlight=False)
    return here if here.is_terminal else Console(markup=False, highlight=False, width=_FILE_WIDTH)


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns of numbers are right-aligned."""
    from quadnorm.lab import terminal

    console().print(terminal.table(columns, rows, title=title or ""))
