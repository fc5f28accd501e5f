"""What a run tells: JSON lines, TensorBoard, a bar, plain lines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from quadnorm.training import TrainConfig, read_metrics, train
from quadnorm.training.logs import JsonLines, PlainLines, watchers

Tiny = Callable[..., TrainConfig]
RECORD = {"epoch": 1, "train": 0.5, "val": 0.25, "lr": 1e-3, "best": False, "seconds": 2.0, "val_by_grid": {"9": 0.25}}


def test_metrics_can_be_read_while_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    stream = JsonLines(path, [])
    for epoch in (1, 2):
        stream.epoch({**RECORD, "epoch": epoch})
        assert [r["epoch"] for r in read_metrics(path)] == list(range(1, epoch + 1))
    with path.open("a") as file:
        file.write('{"epoch": 3, "tra')  # what a kill leaves
    assert [r["epoch"] for r in read_metrics(path)] == [1, 2]
    stream.close()
    # The checkpoint knows of one epoch: that is what the file then holds.
    JsonLines(path, [RECORD]).close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [RECORD]


def test_plain_lines_estimate_the_time_left(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 4.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    written: list[str] = []
    lines = PlainLines(tiny("epochs=10"), 4, written.append)
    for epoch in (5, 6):
        lines.step()
        lines.epoch({**RECORD, "epoch": epoch})
    lines.close()
    assert written == [
        "epoch 5/10  train 50.00 %  val 25.00 %  lr 1.0e-03  2.0 s, at most 10 s left",
        "epoch 6/10  train 50.00 %  val 25.00 %  lr 1.0e-03  2.0 s, at most 8 s left",
    ]


def test_a_pipe_gets_plain_lines(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny(), tmp_path / "a")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split("  ")[0] for line in shown.err.splitlines()] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    train(tiny(), tmp_path / "b", progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    train(tiny(), tmp_path)
    assert "epoch 3/3" in terminal.getvalue()
    assert "100%" in terminal.getvalue() or "━" in terminal.getvalue()


def test_tensorboard_has_every_epoch_once(tiny: Tiny, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny("tensorboard=true")
    result = train(config, tmp_path, progress=False)
    for watcher in watchers(config, tmp_path, result.history[:2], 6, progress=False):  # resumed after epoch 2
        watcher.epoch({**RECORD, "epoch": 3})
        watcher.close()
    scalars = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("val")
    assert [s.step for s in scalars] == [1, 2, 3]
    assert [s.value for s in scalars] == pytest.approx([*(r["val"] for r in result.history[:2]), 0.25])


def test_without_tensorboard_the_extra_is_named(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'quadnorm\[bench\]'"):
        train(tiny("tensorboard=true"), tmp_path, progress=False)
