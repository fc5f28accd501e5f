"""The figures of the page, drawn by a second process while this one computes the tables."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from quadnorm.lab.analysis.figures.registry import DRAWINGS, Drawing, attempt
from quadnorm.lab.analysis.figures.style import inline_svg
from quadnorm.lab.analysis.library import Library

ELSEWHERE = "depends on no records; report with --files FOLDER draws it"


@dataclass(frozen=True)
class DrawnFigure:
    """A figure's SVG, or an empty text and why there is none."""

    drawing: Drawing
    svg: str
    why: str


def drawn(library: Library) -> list[DrawnFigure]:
    """Every figure of records. Those of the theory would take longer than all the rest of the page."""
    return [_drawn(d, library) for d in DRAWINGS]


def _drawn(d: Drawing, library: Library) -> DrawnFigure:
    if not d.needs:
        return DrawnFigure(d, "", ELSEWHERE)
    figure, why = attempt(d.name, library)
    return DrawnFigure(d, "" if figure is None else inline_svg(figure, d.name), why)


@contextmanager
def drawn_meanwhile(library: Library) -> Iterator[Callable[[], list[DrawnFigure]]]:
    """A function that returns the figures, which a copy of this process begins to draw at once.

    Where processes cannot be copied, or threads run that a copy would lack (torch's), they are drawn when asked for.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1 or "torch" in sys.modules:
        yield lambda: drawn(library)
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _draw_and_end(library, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        try:
            yield lambda: _received(pipe.read(), library)
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)  # it has sent everything, or nobody waits for it any more
            os.waitpid(child, 0)


def _draw_and_end(library: Library, writing: int) -> None:
    """In the copy: send the figures and end without a word, also where somebody stops it."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        data = json.dumps([(figure.svg, figure.why) for figure in drawn(library)]).encode()
        with open(writing, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)


def _received(data: bytes, library: Library) -> list[DrawnFigure]:
    try:
        return [DrawnFigure(d, *parts) for d, parts in zip(DRAWINGS, json.loads(data), strict=True)]
    except ValueError:  # it failed or was ended, and what is wrong shows here
        return drawn(library)
