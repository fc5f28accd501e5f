"""A sweep on a Dask cluster as users start one: a scheduler and two workers, each by its own command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadnorm.lab.studies.runner import run_study
from tests import HANGS, ROOT
from tests.lab.studies.tiny_study import tiny_study
from tests.training.tiny_runs import contents

pytestmark = pytest.mark.slow


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """``python -m distributed.cli.dask_scheduler`` and two ``dask_worker``, as docs/howto/scaling.md says."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    file = tmp_path / "scheduler.json"
    worker = ["--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(file)]
    first = ["scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    commands = [first, ["worker", *worker], ["worker", *worker]]
    started = []
    try:
        for which, *options in commands:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", f"distributed.cli.dask_{which}", *options],
                    env=environment,
                    cwd=tmp_path,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            while not file.exists() and started[0].poll() is None:
                time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.filterwarnings("default")  # of distributed's own
def test_a_study_on_a_cluster_started_by_hand(scheduler: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(scheduler, timeout=HANGS) as client:
        client.wait_for_workers(2, timeout=HANGS)
        assert len(client.scheduler_info()["workers"]) == 2
    study = tiny_study()
    there = run_study(study, tmp_path / "cluster", scheduler=scheduler, threads=1)
    here = run_study(study, tmp_path / "here", workers=1, threads=1)
    assert sorted(there.ran) == sorted(here.ran)
    weights = sorted((tmp_path / "here").rglob("best.safetensors"))
    assert len(weights) == 4  # two norms, two seeds
    for one in weights:
        other = tmp_path / "cluster" / one.relative_to(tmp_path / "here")
        assert contents(one)["tensors"] == contents(other)["tensors"]  # to the last bit
