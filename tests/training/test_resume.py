"""A run that is stopped, killed or fails at any moment goes on as if nothing had happened, to the last bit."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quadnorm.cli import app
from quadnorm.training import Interrupted, NonFiniteError, TrainConfig, load_model, read_metrics, train, write_config
from quadnorm.training.loop import Loop
from tests import HANGS, ROOT
from tests.training.tiny_runs import TINY, assert_same_run, contents

Tiny = Callable[..., TrainConfig]


def forked(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.forked", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in r.items() if k not in ("seconds", "system")} for r in read_metrics(folder / "metrics.jsonl")
    ]


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """20 kills, of one run on a slow machine and of several on a fast one."""
    config = {**TINY, "epochs": 25, "patience": None, "save": {"steps": 2}}
    runs = forked("kill", str(tmp_path), json.dumps(config), "1", "20")
    train(config, tmp_path / "whole", progress=False)
    assert [r["epoch"] for r in lines(tmp_path / "whole")] == list(range(1, 26))
    for run in range(runs):
        assert_same_run(tmp_path / str(run), tmp_path / "whole")
        assert lines(tmp_path / str(run)) == lines(tmp_path / "whole")


def test_killed_at_every_write(tmp_path: Path) -> None:
    config = {**TINY, "epochs": 2, "save": {"steps": 2}}
    kills = forked("crash", str(tmp_path), json.dumps(config))
    # Config, environment, metrics, then best and last in each epoch and a step in between: 3 calls each.
    assert kills >= 24
    for k in range(kills):
        assert_same_run(tmp_path / str(k), tmp_path / str(kills))
        assert lines(tmp_path / str(k)) == lines(tmp_path / str(kills))
        assert not list((tmp_path / str(k)).glob(".*.part"))


def interrupting(monkeypatch: pytest.MonkeyPatch, at: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal during the optimiser step ``at`` = 0, 1, …"""
    step = Loop._step

    def signalled(self: Loop, batch: Any) -> Any:
        if self.state.step(self.config) == at:
            os.kill(os.getpid(), number)
        return step(self, batch)

    monkeypatch.setattr(Loop, "_step", signalled)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_any_step_leaves_a_run_to_resume(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    config = tiny("operator.params.norm=quad:instance", "resolutions.train=[9, 7]")
    train(config, tmp_path / "whole", progress=False)
    handler = signal.getsignal(number)
    for at in range(9):
        with monkeypatch.context() as patch:
            interrupting(patch, at, number)
            stopped = rf"stopped in epoch {at // 3 + 1}, after {at % 3 + 1} of its 3 steps; train again in .* to resume"
            with pytest.raises(Interrupted, match=stopped):
                train(config, tmp_path / "run", progress=False)
        assert signal.getsignal(number) is handler
        assert contents(tmp_path / "run" / "last.safetensors")["state"]["batch"] == at % 3 + 1
    train(config, tmp_path / "run", progress=False)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert lines(tmp_path / "run") == lines(tmp_path / "whole")


def test_the_command_says_how_to_go_on(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(write_config(tiny()))
    command = ["train", "-c", str(tmp_path / "config.yaml"), "-o", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        interrupting(patch, 4)
        assert app.run(command) == 130
    stopped = f"quadnorm: stopped in epoch 2, after 2 of its 3 steps; train again in {tmp_path / 'run'} to resume"
    assert capsys.readouterr().err.splitlines()[-1] == stopped
    assert app.run(command) == 0
    assert "all epochs are done after 3 epochs" in capsys.readouterr().out


def test_a_second_signal_does_not_wait(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Loop, batch: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("went on")

    monkeypatch.setattr(Loop, "_step", twice)
    with pytest.raises(KeyboardInterrupt) as caught:
        train(tiny(), tmp_path, progress=False)
    assert not isinstance(caught.value, Interrupted)


def test_a_loss_that_is_not_a_number(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights before the bad step are kept, and are those of a run that was stopped there."""
    with monkeypatch.context() as patch:
        interrupting(patch, 3)
        with pytest.raises(Interrupted):
            train(tiny(), tmp_path / "stopped", progress=False)
    step = Loop._step

    def spoilt(self: Loop, batch: Any) -> Any:
        if self.state.step(self.config) == 4:
            self.train = {g: (x, torch.full_like(y, torch.nan)) for g, (x, y) in self.train.items()}
        return step(self, batch)

    monkeypatch.setattr(Loop, "_step", spoilt)
    for _ in range(2):  # resuming leads to the same step
        with pytest.raises(
            NonFiniteError, match=r"the loss is nan .* in epoch 2, step 2: training has diverged"
        ) as caught:
            train(tiny(), tmp_path / "run", progress=False)
        assert isinstance(caught.value, ValueError)
        a, b = (contents(tmp_path / name / "last.safetensors") for name in ("run", "stopped"))
        assert a == b
    model, _ = load_model(tmp_path / "run", "last")
    assert all(torch.isfinite(p).all() for p in model.parameters())


def failure(attempt: Callable[[], object]) -> OSError | None:
    try:
        attempt()
    except OSError as error:
        return error
    return None


def test_a_full_disk(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write of the run fails once; each time the error says so, and what was saved before is resumed."""
    train(tiny(), tmp_path / "whole", progress=False)
    real, fail_at = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal fail_at
        fail_at -= 1
        if fail_at == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr("os.fsync", full)
    failures = 0
    for attempt in range(1, 40):
        fail_at = attempt
        error = failure(lambda: train(tiny(), tmp_path / "run", progress=False))
        if error is None:
            break
        assert error.errno == errno.ENOSPC
        assert str(error).startswith("cannot write the ")
        assert str(error).endswith("No space left on device; free some space and run again")
        failures += 1
    assert failures >= 5
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_metrics_on_a_full_disk(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quadnorm.training import logs

    init = logs.JsonLines.__init__

    def onto_full(self: logs.JsonLines, path: Path, history: Any) -> None:
        init(self, path, history)
        self.file.close()
        self.file = open("/dev/full", "w", buffering=1)  # noqa: SIM115

    with monkeypatch.context() as patch:
        patch.setattr(logs.JsonLines, "__init__", onto_full)
        with pytest.raises(OSError, match=r"cannot write the metrics .*: No space left on device; free some space"):
            train(tiny(), tmp_path, progress=False)
    assert train(tiny(), tmp_path, progress=False).epochs == 3


def test_folders_that_cannot_be_written(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot write to the run's folder .*: File exists"):
        train(tiny(), tmp_path / "file", progress=False)
    result = train(tiny(), tmp_path / "done", progress=False)

    opened = os.open

    def refused(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *args, **options)

    # The tests may run as root, whom permissions do not stop.
    monkeypatch.setattr("quadnorm._locks.os.open", refused, raising=False)
    with pytest.raises(
        PermissionError, match=r"cannot write to the run's folder .*: Permission denied; choose a folder"
    ):
        train(tiny(), tmp_path / "new", progress=False)
    assert train(tiny(), tmp_path / "done", progress=False) == result  # nothing to write


def test_the_number_of_threads_belongs_to_a_run(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed without a number it takes the one it was begun with; another number is another run."""
    with monkeypatch.context() as patch:
        interrupting(patch, 2)
        with pytest.raises(Interrupted):
            train(tiny(), tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match="holds a run with another config: threads is 1 there and 2 now"):
        train(tiny("threads=2"), tmp_path / "run", progress=False)
    torch.set_num_threads(2)
    train(tiny("threads=null"), tmp_path / "run", progress=False)
    train(tiny(), tmp_path / "whole", progress=False)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert contents(tmp_path / "run" / "last.safetensors")["config"]["threads"] == 1


def test_other_circumstances_are_told(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        interrupting(patch, 2)
        with pytest.raises(Interrupted):
            train(tiny(), tmp_path, progress=False)
    monkeypatch.setattr("quadnorm.training.versions.NUMERICS", 10**6)
    train(tiny(), tmp_path, progress=False)
    assert "was begun with another numerics: results may differ in the last bits" in caplog.text


def test_data_that_changed_meanwhile_are_noticed(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "data.npz"

    def write(scale: float) -> None:
        x = rng.normal(size=(24, 9, 9)) * scale
        np.savez(file, x=x, y=x + 1)

    write(1.0)
    config = tiny("problem.name=files", f"problem.params={{train: {file}, placement: endpoint}}", "samples.train=12",
                  "samples.val=4", "samples.test=4", "problem.cache=false")  # fmt: skip
    with monkeypatch.context() as patch:
        interrupting(patch, 2)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run", progress=False)
    before = file.read_bytes()
    write(3.0)
    with pytest.raises(ValueError, match=r"training data have changed since this run began: channel 0 of the input"):
        train(config, tmp_path / "run", progress=False)
    file.write_bytes(before)
    train(config, tmp_path / "run", progress=False)


def test_a_target_of_zeros_is_named(tiny: Tiny, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(24, 9, 9))
    y = x + 1
    y[3] = 0
    np.savez(tmp_path / "data.npz", x=x, y=y)
    given = f"problem.params={{train: {tmp_path / 'data.npz'}, placement: endpoint}}"
    config = tiny("problem.name=files", given, "samples.train=12", "samples.val=4", "samples.test=4")
    with pytest.raises(NonFiniteError, match="target of training sample 3 is 0 everywhere and has no relative error"):
        train(config, tmp_path / "run", progress=False)
