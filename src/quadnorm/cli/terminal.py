"""Printing: control codes from file names or data are removed, and characters that a terminal lacks are replaced."""

from __future__ import annotations

import codecs
import csv
import json
import logging
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

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


Level = Literal["quiet", "normal", "verbose"]
_level: Level = "normal"


def set_level(level: Level) -> None:
    """Set the level for this command and for the package's log."""
    global _level
    _level = level
    severity = {"quiet": logging.ERROR, "normal": logging.WARNING, "verbose": logging.DEBUG}[level]
    logging.getLogger("quadnorm").setLevel(severity)


def quiet() -> bool:
    """Whether only results are wanted."""
    return _level == "quiet"


def progress_option() -> bool | None:
    """The ``progress`` argument of :func:`quadnorm.training.train`: False if quiet, else None (bar or lines)."""
    return False if quiet() else None


def note(text: str) -> None:
    """Print a note on stderr, unless quiet; results go to stdout."""
    if not quiet():
        from quadnorm._text import printable

        print(printable(text), file=sys.stderr, flush=True)


MOST_NODES = 10**6  # per axis
MOST_THREADS = 256

Param = Annotated[list[str] | None, typer.Option("--param", "-p", help="A parameter of the problem, name=value.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of the random streams.", min=0, max=2**63 - 1)]


def grid(text: str) -> int | tuple[int, ...]:
    """``65`` or ``65x129``.

    >>> grid("65"), grid("65x129")
    (65, (65, 129))
    """
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or not all(1 <= n <= MOST_NODES for n in sizes):
        raise ValueError(
            f"cannot read the resolution {text[:40]!r}; expected samples per axis, as in 65 or 65x129, "
            f"at most {MOST_NODES}"
        )
    return sizes[0] if len(sizes) == 1 else sizes


def parameters(pairs: Sequence[str] | None) -> dict[str, Any]:
    """``["contrast=4", "fine=257"]`` as a dictionary; values are YAML.

    >>> parameters(["viscosity=1e-3", "mesh=boundary"])
    {'viscosity': 0.001, 'mesh': 'boundary'}
    """
    from quadnorm._yaml import parse

    values: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"cannot read the parameter {pair!r}; expected name=value")
        values[key.replace("-", "_")] = parse(value, f"the parameter {pair[:80]!r}")
    return values
