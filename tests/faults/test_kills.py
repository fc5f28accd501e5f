"""Kills of parents and workers: nothing is lost, nothing is left behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadnorm.lab.studies.records import load
from quadnorm.training.files.folder import claimed
from tests import HANGS, ROOT
from tests.faults.children import in_child
from tests.faults.command_lines import TINY
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
        timeout=4 * HANGS,
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
        until = time.monotonic() + HANGS
        while sum(p.stat().st_size > 0 for p in (tmp_path / "runs").glob("*/metrics.jsonl")) < 2:
            assert time.monotonic() < until
            assert study.poll() is None
            time.sleep(0.1)
        assert len(session(study.pid)) >= 2
        begun = time.monotonic()
        os.kill(study.pid, number) if whom == "parent" else os.killpg(study.pid, number)
        _, said = study.communicate(timeout=HANGS)
        took = time.monotonic() - begun
        code = study.returncode
        assert said == "" or number == signal.SIGKILL  # then the tracker says what it removed
        assert code == (-number if number == signal.SIGKILL else 130)
        until = time.monotonic() + HANGS
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


COMMAND = """
import sys
from pathlib import Path
import quadnorm.__main__ as entry
sys.argv[0] = "quadnorm"
entry.wait_briefly = Path("begun").touch  # called first of all
sys.exit(entry.main())
"""
FETCH = """
import hashlib, zipfile
from dataclasses import replace
from quadnorm.problems.stored import neuralop
files = {name: bytes([k]) * 20_000_000 for k, name in enumerate(neuralop.WHEEL.files)}
with zipfile.ZipFile("data.whl", "w") as packed:
    for name, content in files.items():
        packed.writestr(f"{neuralop.WHEEL.folder}/{name}", content)
sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
with open("data.whl", "rb") as wheel:
    whole = hashlib.file_digest(wheel, "sha256").hexdigest()
neuralop.WHEEL = replace(neuralop.WHEEL, sha256=whole, files=sums)
"""
STOPPED = {signal.SIGKILL: {-signal.SIGKILL}, signal.SIGINT: {130}, signal.SIGTERM: {130, -signal.SIGTERM}}
COMMANDS = {
    "make": ["data", "make", "varcoeff", "--count", "64", "-p", "fine=33", "-p", "modes=16"],
    "report": ["report", "../records", "-o", "r.html", "--markdown", "r.md", "--files", "files"],
    "eval": ["eval", "../run", "-r", "9", "-r", "17", "-o", "errors.json"],
    "fetch": ["data", "fetch", "darcy-neuralop", "--archive", "data.whl", "-p", "folder=fetched"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_stopped_commands_leave_whole_files_or_none(tmp_path, name):
    """What a stopped command leaves is whole, it says no more than a line, and the next one makes what it would have.

    At any moment, which may be while its modules are loaded.
    """
    if name == "report":
        from tests.lab.analysis.synthetic_records import write_records

        write_records(tiny_study(), tmp_path / "records")
    if name == "eval":
        assert in_child(["train", *TINY, "-o", "run"], tmp_path).code == 0
    expected, length, _, _ = made(COMMANDS[name], tmp_path / "whole")
    assert expected
    for k in range(36 if LONG else 2):
        number = list(STOPPED)[k % 3]
        where = tmp_path / str(k)
        moment = random.Random(k).uniform(0, 1) if k != 1 else 0  # an interrupt while modules are loaded
        left, _, code, err = made(COMMANDS[name], where, moment * length, number)
        assert code in {0, *STOPPED[number]}, err
        assert err in ("", "quadnorm: interrupted\n") or code == 0
        assert {file: v for file, v in left.items() if file in expected}.items() <= expected.items()
        assert made(COMMANDS[name], where)[0] == expected
    report(f"0 lost in {k + 1} stops of {name}")


def made(command, where, after=None, number=signal.SIGKILL):
    """Run a command in a folder, or stop it ``after`` some seconds; files, time, exit code, and what it said."""
    where.mkdir(exist_ok=True)
    (where / "begun").unlink(missing_ok=True)
    running = subprocess.Popen(
        [sys.executable, "-c", (FETCH if "fetch" in command else "") + COMMAND, "-q", *command],
        env={**os.environ, "QUADNORM_CACHE": str(where), "PYTHONPATH": str(ROOT / "src")},
        cwd=where,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # not as a shell's & leaves it
    )
    while not (where / "begun").exists() and running.poll() is None:  # before that it is Python that loads
        time.sleep(0.01)
    begun = time.monotonic()
    try:
        _, err = running.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        running.send_signal(number)
        _, err = running.communicate()
    assert after is not None or running.returncode == 0, err
    return contents(where), time.monotonic() - begun, running.returncode, err


def contents(where):
    """Every file but the locks and what a killed writer had begun, which is no file under its name yet."""
    begun = (".quadnorm-", ".block-")
    files = [p for p in where.rglob("*") if p.is_file() and p.name not in ("data.whl", "begun")]
    shown = [p for p in files if not any(part.startswith(begun) for part in p.relative_to(where).parts)]
    return {str(p.relative_to(where)): p.read_bytes() for p in shown}
