"""Processes and Dask give the numbers of one process, and stop without loss."""

import os
import signal
import subprocess
import sys
import time

import pytest

from quadnorm.lab.studies.executors import processes
from quadnorm.lab.studies.records import tasks_of
from quadnorm.lab.studies.runner import run_study
from quadnorm.training import read_metrics
from quadnorm.training.files.checkpoint import read_checkpoint
from tests import HANGS, ROOT
from tests.lab.studies.compare import fingerprint
from tests.lab.studies.tiny_study import tiny_study


def test_processes_give_the_same_numbers(finished, tmp_path):
    run_study(tiny_study(), tmp_path, workers=2, threads=1)
    ours, theirs = fingerprint(tmp_path), fingerprint(finished)
    assert ours == {k: theirs[k] for k in ours}


def test_a_worker_that_dies_stops_the_study_and_nothing_is_lost(tmp_path):
    tasks = {task.key: task for task in tasks_of(tiny_study()).values()}
    work = DieOnce(tmp_path)
    with pytest.raises(OSError, match=r"a worker process died .* resume from their checkpoints .* --dask"):
        processes(2)(work, list(tasks.values()), lambda task, outcome: tasks.pop(task.key))
    assert tasks  # the one that died at least
    processes(2)(work, list(tasks.values()), lambda task, outcome: tasks.pop(task.key))
    assert not tasks


class DieOnce:
    """Work whose first call kills its process."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, task):
        try:
            (self.folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return {"status": "done", "text": ""}
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


LONG = """
import sys
from pathlib import Path
from quadnorm.lab.studies.runner import run_study
from tests.lab.studies.tiny_study import tiny_study
if __name__ == "__main__":
    try:
        run_study(tiny_study(epochs=100_000), Path(sys.argv[1]), workers=2, threads=1)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_stops_every_worker_and_begins_nothing_new(tmp_path):
    """As a terminal does it: SIGINT to all processes at once, while two of four runs are under way."""
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    study = subprocess.Popen(
        [sys.executable, "-c", LONG, str(tmp_path)],
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # not as a shell's background job has it
    )
    runs = tmp_path / "runs"
    try:
        until = time.monotonic() + HANGS
        while sum(p.stat().st_size > 0 for p in runs.glob("*/metrics.jsonl")) < 2:
            assert time.monotonic() < until
            assert study.poll() is None
            time.sleep(0.1)
        os.killpg(study.pid, signal.SIGINT)
        assert study.wait(timeout=HANGS) == 130
    finally:
        if study.poll() is None:
            os.killpg(study.pid, signal.SIGKILL)
            study.wait()
    assert len(list(runs.iterdir())) == 2
    for run in runs.iterdir():
        *_, last = read_metrics(run / "metrics.jsonl")
        saved = read_checkpoint(run / "last.safetensors")[1]["state"]
        assert saved["epoch"] == last["epoch"]  # where it was stopped, not where it was last saved
        assert saved["ended"] is None


@pytest.mark.slow
def test_dask_survives_a_killed_worker(finished, tmp_path):
    """Kill one of the cluster's workers while it trains: the study completes, with the same numbers."""
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        pids = [w.pid for w in cluster.workers.values()]
        import threading

        def kill():
            while not list(tmp_path.rglob("metrics.jsonl")):  # until it trains
                time.sleep(0.1)
            os.kill(pids[0], signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        run_study(tiny_study(), tmp_path, scheduler=cluster.scheduler_address, threads=1)
    ours, theirs = fingerprint(tmp_path), fingerprint(finished)
    assert ours == {k: theirs[k] for k in ours}
