"""One holder at a time; a dead holder's lock is free, also where its child keeps it open."""

import os
import signal
import subprocess
import sys

import pytest

from quadnorm._locks import LockedError, locked

HOLD = """
import os, sys, time
from pathlib import Path
from quadnorm._locks import locked
with locked(Path(sys.argv[1])):
    if len(sys.argv) > 2 and os.fork() == 0:
        os.close(1)
        time.sleep(1800)  # a child that has inherited the open file
        os._exit(0)
    print("held", flush=True)
    time.sleep(1800)
"""


def holder(path, *more):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *more], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_killed_holder_lets_go(tmp_path):
    process = holder(tmp_path / "lock")
    with pytest.raises(LockedError, match=f"held by another process .* {process.pid}"), locked(tmp_path / "lock"):
        pass
    process.kill()
    process.communicate()
    with locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "lock").exists()


def test_a_lock_whose_owner_is_gone_is_taken_over(tmp_path):
    """The owner was killed, its child still has the lock open: the kernel would keep it for ever."""
    process = holder(tmp_path / "lock", "with a child")
    try:
        process.kill()
        process.communicate()
        with locked(tmp_path / "lock"):
            pass
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_waiting_for_a_lock(tmp_path):
    process = holder(tmp_path / "lock")
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {process.pid}"])
    with locked(tmp_path / "lock", patience=20):
        pass
    killer.wait()
    process.communicate()


def test_many_processes_one_at_a_time(tmp_path):
    """Each adds one to a number that it reads and writes back, without any other protection."""
    (tmp_path / "number").write_text("0")
    code = (
        "import sys; from pathlib import Path; from quadnorm._locks import locked; f = Path(sys.argv[1])\n"
        "for _ in range(40):\n"
        "    with locked(f / 'lock', 60): (f / 'number').write_text(str(int((f / 'number').read_text()) + 1))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [p.wait() for p in processes] == [0] * 4
    assert (tmp_path / "number").read_text() == "160"
