"""Ctrl-C, SIGTERM and SIGHUP set a flag, which the training loop checks between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a process to stop. SIGHUP stays ignored under ``nohup``."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal, after it wrote a checkpoint to resume from."""


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """A function that returns whether the process was asked to stop. A second Ctrl-C stops it at once, as usual.

    Outside the main thread, where Python handles no signals, it always returns False.
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
