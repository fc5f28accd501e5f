"""The outputs of a run while it trains: a file of JSON lines, TensorBoard, and a progress bar or plain lines."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from quadnorm._files import explained, write_atomic
from quadnorm._text import progress_stream
from quadnorm.training.config import TrainConfig

Record = dict[str, Any]
log = logging.getLogger("quadnorm")


class Watcher(Protocol):
    """Receives each step and epoch of a run: a file, a bar, TensorBoard."""

    def step(self) -> None:
        """One optimiser step is done."""

    def epoch(self, record: Record) -> None:
        """An epoch is done."""

    def close(self) -> None:
        """The run has ended, with or without an error."""


class JsonLines:
    """``metrics.jsonl``: one line per finished epoch, readable while the run goes on.

    The file is first rewritten with the epochs of the checkpoint (``history``). So lines that a killed run wrote after
    its last checkpoint, complete or not, are removed, and no epoch is there twice.
    """

    def __init__(self, path: Path, history: Sequence[Record]) -> None:
        self.path = path
        write_atomic(path, "".join(map(_line, history)), "the metrics")
        self.file: IO[str] = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed by close)

    def step(self) -> None:
        """Nothing: the stream is per epoch."""

    def epoch(self, record: Record) -> None:
        try:
            self.file.write(_line(record))
            self.file.flush()
        except OSError as error:
            raise explained(error, f"cannot write the metrics {self.path}") from error

    def close(self) -> None:
        # Closing tries again to write a line that did not fit on the disk; that error has been reported already.
        try:
            self.file.close()
        except OSError as error:
            log.debug("closing %s: %s", self.path, error)


def _line(record: Record) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def read_metrics(path: Path) -> list[Record]:
    """The epochs of ``metrics.jsonl``. It may be read while it is written: an incomplete last line is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        records.append(json.loads(line))
    return records


class TensorBoard:
    """Scalars for TensorBoard; epochs that are computed again after a resume replace the old ones."""

    def __init__(self, folder: Path, done: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("tensorboard: true needs TensorBoard: pip install 'quadnorm[bench]'") from error
        self.writer = SummaryWriter(str(folder), purge_step=done + 1)

    def step(self) -> None:
        """Nothing: scalars are per epoch."""

    def epoch(self, record: Record) -> None:
        for key, value in _scalars(record).items():
            self.writer.add_scalar(key, value, record["epoch"])

    def close(self) -> None:
        self.writer.close()


def _scalars(record: Record, prefix: str = "") -> dict[str, float]:
    scalars: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            scalars |= _scalars(dict(value), f"{prefix}{key}/")
        elif isinstance(value, (int, float)) and key != "epoch":
            scalars[prefix + key] = float(value)
    return scalars


def sentence(record: Record, epochs: int) -> str:
    """One epoch in one line.

    >>> sentence({"epoch": 3, "train": 0.1234, "val": 0.2, "lr": 5e-4, "best": True}, 20)
    'epoch 3/20  train 12.34 %  val 20.00 % *  lr 5.0e-04'
    """
    star = " *" if record["best"] else ""
    return (
        f"epoch {record['epoch']}/{epochs}  train {record['train']:.2%}  val {record['val']:.2%}{star}".replace(
            "%", " %"
        )
        + f"  lr {record['lr']:.1e}"
    )


class PlainLines:
    """Plain lines, for logs and pipes."""

    def __init__(self, config: TrainConfig, done: int, write: Callable[[str], object] | None = None) -> None:
        self.config, self.done, self.first = config, done, done
        self.start = time.monotonic()
        self.write = write or (lambda text: print(text, file=progress_stream(), flush=True))

    def step(self) -> None:
        """Nothing: a line per epoch is enough."""

    def epoch(self, record: Record) -> None:
        self.done += 1
        pace = (time.monotonic() - self.start) / (self.done - self.first)
        left = pace * (self.config.epochs - self.done)
        spent = f"{record['seconds']:.1f} s{in_the_system(record)}"
        self.write(sentence(record, self.config.epochs) + f"  {spent}, at most {duration(left)} left")

    def close(self) -> None:
        """Nothing to close."""


def in_the_system(record: Record) -> str:
    """A remark on an epoch that spent much of its processor time in the system, where no work is done.

    >>> in_the_system({"system": 0.02}), in_the_system({"system": 0.41})
    ('', ' (41 % of it in the system)')
    """
    share = record.get("system", 0.0)
    return f" ({100 * share:.0f} % of it in the system)" if share >= 0.1 else ""


def duration(seconds: float) -> str:
    """A length of time as short text.

    >>> duration(42.4), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Bar:
    """A progress bar with the time that is left, for terminals."""

    def __init__(self, config: TrainConfig, step: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.epochs = config.epochs
        text = TextColumn("{task.description}")
        console = Console(stderr=True)
        self.progress = Progress(text, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), console=console)
        self.task = self.progress.add_task("training", total=config.steps, completed=step)
        self.progress.start()

    def step(self) -> None:
        self.progress.advance(self.task)

    def epoch(self, record: Record) -> None:
        self.progress.update(self.task, description=sentence(record, self.epochs))

    def close(self) -> None:
        self.progress.stop()


def watchers(
    config: TrainConfig, folder: Path, history: Sequence[Record], step: int, progress: bool | None
) -> list[Watcher]:
    """The watchers of a run. ``progress``: None is a bar on a terminal and lines elsewhere; True always a bar."""
    listeners: list[Watcher] = []
    if config.tensorboard:
        listeners.append(TensorBoard(folder / "tensorboard", len(history)))
    listeners.append(JsonLines(folder / "metrics.jsonl", history))
    if progress is not False:
        listeners.append(Bar(config, step) if progress or sys.stderr.isatty() else PlainLines(config, len(history)))
    return listeners
