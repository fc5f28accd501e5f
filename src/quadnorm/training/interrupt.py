"""Ctrl-C, SIGTERM and SIGHUP as a question that the loop asks between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a process to stop. A hang-up that nohup has had ignored stays ignored."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


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
        if asked and number == signal.SIGINT:  # SIGTERM may come twice: to the group, and from the parent
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
