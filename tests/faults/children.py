"""One command line in a forked child of a process that has everything loaded: what it said and how it ended."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import HANGS


@dataclass(frozen=True)
class Outcome:
    """Exit code, or the signal that ended it, and both streams."""

    code: int | None
    signal: int | None
    out: str
    err: str


def in_child(
    arguments: Sequence[str],
    folder: Path,
    before: Callable[[], None] = lambda: None,
    seconds: int = HANGS,
) -> Outcome:
    """Run one command in ``folder``; SIGALRM ends it after ``seconds`` of the clock."""
    pipes = [os.pipe() for _ in range(2)]
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.chdir(folder)
            for number, (_, write) in enumerate(pipes, 1):
                os.dup2(write, number)
            sys.stdout = os.fdopen(1, "w", encoding="utf-8")
            sys.stderr = os.fdopen(2, "w", encoding="utf-8")
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            before()
            from quadnorm.cli.app import run

            code = run(list(arguments))
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(code)
    for _, write in pipes:
        os.close(write)
    out, err = _drain([read for read, _ in pipes])
    _, status = os.waitpid(pid, 0)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return Outcome(None if ended else os.waitstatus_to_exitcode(status), ended, out, err)


def _drain(handles: list[int]) -> list[str]:
    """Everything from several pipes, read side by side until all are closed."""
    import selectors

    texts = dict.fromkeys(handles, b"")
    with selectors.DefaultSelector() as selector:
        for handle in handles:
            selector.register(handle, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                texts[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [texts[handle].decode("utf-8", "replace") for handle in handles]
