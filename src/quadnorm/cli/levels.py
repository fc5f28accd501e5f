"""How much a command prints: ``-q`` only results, ``-v`` also what is done on the way."""

from __future__ import annotations

import logging
import sys
from typing import Literal

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
