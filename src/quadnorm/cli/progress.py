"""Progress of long commands: bars on a terminal, plain lines in a log."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quadnorm.cli.terminal import note, quiet

EVERY = 10.0  # least number of seconds between two lines about the same task


class Lines:
    """A plain line for each further tenth of the work, at most one per ``every`` seconds, and one at the end."""

    def __init__(self, what: str, every: float = EVERY, write: Callable[[str], None] = note) -> None:
        self.what, self.every, self.write = what, every, write
        self.start = self.last = time.monotonic()
        self.first: float | None = None
        self.shown = -1.0

    def __call__(self, done: float, of: float) -> None:
        """Report that ``done`` of ``of`` steps are done."""
        now = time.monotonic()
        if self.first is None:
            self.first = done
        if done <= self.shown or (done < of and now - self.last < self.every):
            return
        self.shown, self.last = done, now
        gained = done - self.first
        left = (now - self.start) / gained * (of - done) if gained > 0 else None
        rest = "" if left is None or done >= of else f", about {_duration(left)} left"
        self.write(f"{self.what}: {done:g} of {of:g}{rest}")


def _duration(seconds: float) -> str:
    from quadnorm.training.logs import duration

    return duration(seconds)


@contextmanager
def bars() -> Iterator[Callable[[str, float, float], None]]:
    """A function (what, done, of) that shows the progress of several tasks: bars on a terminal, lines elsewhere."""
    if quiet():
        yield lambda what, done, of: None
        return
    if not sys.stderr.isatty():
        lines: dict[str, Lines] = {}
        yield lambda what, done, of: lines.setdefault(what, Lines(what))(done, of)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: float, of: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of)
            bar.update(tasks[what], completed=done, total=of)

        yield show


@contextmanager
def study_progress(s: Any, out: Path) -> Iterator[Callable[[str, float, float], None]]:
    """Progress of a study: data, epochs of all runs together, and in a log one line for each run that ends."""
    from quadnorm.lab.studies.records import complete, tasks_of
    from quadnorm.lab.studies.runner import epochs_done

    todo = [t for t in tasks_of(s).values() if not complete(out, t)]
    stop = threading.Event()
    with bars() as show:

        def watch() -> None:
            while not stop.wait(1.0):
                done = epochs_done(out, todo)
                if done:
                    show("epochs", done, sum(t.epochs for t in todo))

        def on_progress(what: str, done: float, of: float) -> None:
            if what == "runs" and not sys.stderr.isatty():
                _say_run(todo, out, reported_keys, int(done), int(of))
            else:
                show(what, done, of)

        reported_keys: set[str] = set()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield on_progress
        finally:
            stop.set()
            watcher.join()


def _say_run(todo: Sequence[Any], out: Path, reported_keys: set[str], done: int, of: int) -> None:
    """A line for each run that has ended since the last: its key and its best validation error."""
    from quadnorm.lab.studies.records import folder_of

    for task in todo:
        folder = folder_of(out, task)
        if task.key in reported_keys or not (folder / "record.json").is_file():
            continue
        reported_keys.add(task.key)
        best = best_error(folder / "metrics.jsonl")
        error = "" if best is None else f", best validation error {100 * best:.2f} %"
        note(f"run {done} of {of}: {task.key}{error}")


def best_error(metrics: Path) -> float | None:
    """The smallest validation error in a run's metrics; None if there is none."""
    try:
        lines = metrics.read_text(encoding="utf-8").splitlines()
        return min((float(json.loads(line)["val"]) for line in lines), default=None)
    except (OSError, ValueError, KeyError, TypeError):
        return None
