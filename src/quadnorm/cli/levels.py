"""How much a command says on the way: ``-q`` only results, ``-v`` also what is done."""

from __future__ import annotations

import logging
import sys
from typing import Literal

Level = Literal["quiet", "normal", "verbose"]
_level: Level = "normal"


def set_level(level: Level) -> None:
    """Set it for this command, for the package's log as well."""
    global _level
    _level = level
    severity = {"quiet": logging.ERROR, "normal": logging.WARNING, "verbose": logging.DEBUG}[level]
    logging.getLogger("quadnorm").setLevel(severity)


def quiet() -> bool:
    """Whether only results are wanted."""
    return _level == "quiet"


def progress_option() -> bool | None:
    """As :func:`quadnorm.training.train` takes it: nothing if quiet, else a bar on a terminal and lines elsewhere."""
    return False if quiet() else None


def note(text: str) -> None:
    """Say something beside the results, on stderr, unless quiet."""
    if not quiet():
        from quadnorm._text import printable

        print(printable(text), file=sys.stderr, flush=True)
