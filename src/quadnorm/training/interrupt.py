"""Ctrl-C and SIGTERM as a question that the loop asks between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal, after it wrote a checkpoint to resume from."""


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """A function that says whether the process was asked to stop. A second Ctrl-C stops it at once, as usual.

    Outside the main thread, where Python has no signals, nobody is ever asked.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
