"""Kills of parents and workers: nothing is lost, nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadnorm.lab.studies.records import load
from quadnorm.training.files.folder import claimed
from tests import ROOT
from tests.faults.effort import LONG, report
from tests.lab.studies.compare import fingerprint
from tests.lab.studies.tiny_study import tiny_study

pytestmark = pytest.mark.faults


def test_killed_at_random_moments_a_study_ends_the_same(tmp_path):
    """SIGKILL while it makes data, trains, evaluates and writes, half of them in the middle of a write."""
    kills = 200 if LONG else 8
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.studies.killed", str(tmp_path), "1", str(kills)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stderr
    moments, writes, studies = map(int, done.stdout.split())
    assert moments + writes == kills
    whole = fingerprint(tmp_path / "whole")
    assert len(whole) == 4 + 16  # weights and evaluations
    lost = 0
    for root in (tmp_path / str(k) for k in range(studies)):
        lost += fingerprint(root) != whole or len(load(tiny_study(), root)) != 16
        assert not list(root.rglob("*.part"))
        assert not [p for p in root.rglob(".block-*") if p.is_dir()]
        assert not list(root.rglob("*.damaged-*"))
    report(f"{lost} lost in {kills} kills, {writes} of them in the middle of a write")
    assert lost == 0


LONG_STUDY = """
import signal, sys
from pathlib import Path
from quadnorm.cli import app
from quadnorm.lab.studies.runner import run_study
from tests.lab.studies.tiny_study import tiny_study
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a shell has put the tests aside with &
    with app._stop_signals():  # as the command line has it
        try:
            run_study(tiny_study(epochs=100_000), Path(sys.argv[1]), workers=2)
        except KeyboardInterrupt:
            sys.exit(130)
"""


def session(leader: int) -> list[int]:
    """Living processes of the session that ``leader`` began, other than itself."""
    pids = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != leader:
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                pids.append(int(entry))
    return pids


HITS = [(signal.SIGKILL, "parent"), (signal.SIGHUP, "group")]
if LONG:
    HITS += [(number, "parent") for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    HITS += [(number, "group") for number in (signal.SIGTERM, signal.SIGINT)]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(("number", "whom"), HITS, ids=lambda part: getattr(part, "name", part))
def test_workers_end_with_their_parent_and_the_folders_are_free(tmp_path, number, whom):
    """The parent or its whole group is hit, with two workers at work; a moment later nothing is left of them.

    Nothing is said on the way: a closed terminal ended Python's tracker of shared resources, whose tracebacks came.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    study = subprocess.Popen(
        [sys.executable, "-c", LONG_STUDY, str(tmp_path)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # not as nohup leaves it
    )
    try:
        until = time.monotonic() + 300
        while sum(p.stat().st_size > 0 for p in (tmp_path / "runs").glob("*/metrics.jsonl")) < 2:
            assert time.monotonic() < until
            assert study.poll() is None
            time.sleep(0.1)
        assert len(session(study.pid)) >= 2
        begun = time.monotonic()
        os.kill(study.pid, number) if whom == "parent" else os.killpg(study.pid, number)
        _, said = study.communicate(timeout=120)
        took = time.monotonic() - begun
        code = study.returncode
        assert said == "" or number == signal.SIGKILL  # then the tracker says what it removed
        assert code == (-number if number == signal.SIGKILL else 130)
        until = time.monotonic() + 10
        while session(study.pid) and time.monotonic() < until:
            time.sleep(0.05)
        orphans = session(study.pid)
        report(f"{len(orphans)} orphans after {number.name} to the {whom}, which took {took:.1f} s")
        assert orphans == []
        for run in (tmp_path / "runs").iterdir():
            with claimed(run, patience=0):
                pass
    finally:
        for pid in [*session(study.pid), *([study.pid] if study.poll() is None else [])]:
            os.kill(pid, signal.SIGKILL)
        study.wait()


def test_killed_commands_leave_whole_files_or_none(tmp_path):
    """``data make`` and ``report``: what a killed one leaves is whole, and the next one makes what the first would."""
    from tests.lab.analysis.synthetic_records import write_records

    write_records(tiny_study(), tmp_path / "records")
    data = ["data", "make", "varcoeff", "--count", "64", "-p", "fine=33", "-p", "modes=16"]
    for command in (data, ["report", str(tmp_path / "records"), "-o", "r.html"]):
        expected, length = made(command, tmp_path / command[0])
        kills = 20 if LONG else 1
        for k in range(kills):
            where = tmp_path / f"{command[0]}-{k}"
            made(command, where, length * (k + 1.5) / (kills + 1))
            assert {name: v for name, v in contents(where).items() if name in expected}.items() <= expected.items()
            assert made(command, where)[0] == expected
        report(f"0 lost in {kills} kills of {command[0]}")


def made(command, where, after=None):
    """Run a command in a folder, or kill it ``after`` some seconds; what it has made, and how long it took."""
    where.mkdir(exist_ok=True)
    environment = {**os.environ, "QUADNORM_CACHE": str(where), "PYTHONPATH": str(ROOT / "src")}
    begun = time.monotonic()
    running = subprocess.Popen([sys.executable, "-m", "quadnorm", "-q", *command], env=environment, cwd=where)
    try:
        assert running.wait(after or 300) == 0
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        assert after
    return contents(where), time.monotonic() - begun


def contents(where):
    """Every file but the locks and what a killed writer had begun, which is no file under its name yet."""
    begun = (".quadnorm-", ".block-")
    files = [p for p in where.rglob("*") if p.is_file()]
    shown = [p for p in files if not any(part.startswith(begun) for part in p.relative_to(where).parts)]
    return {str(p.relative_to(where)): p.read_bytes() for p in shown}
