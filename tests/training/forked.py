"""Children that train and are killed. Run as a script, so that torch is loaded once and forked from there.

    forked.py kill FOLDER CONFIG SEED KILLS     kill runs at random moments, then let them finish
    forked.py crash FOLDER CONFIG               for every k: crash at the k-th write operation, then let it finish
    forked.py ranks FOLDER CONFIG               two processes share a run; one is asked to stop, both resume

Prints the number of runs that were killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from quadnorm.training import Interrupted, read_config, train
from quadnorm.training.loop import Loop


def child(folder: Path, config: dict[str, Any], before: Callable[[], None] = lambda: None) -> int:
    """Start a process that trains in ``folder``; returns its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            before()
            train(read_config(config), folder, progress=False)
            code = 0
        except Interrupted:
            code = 130
        finally:
            os._exit(code)
    return pid


def died(pid: int) -> bool:
    """Wait for a child: False if it finished well, True if it was killed."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit("a child failed by itself")
    return False


def kill(folder: Path, config: dict[str, Any], seed: int, kills: int) -> int:
    """SIGKILL after random times, until it has hit often enough; a run that gets through is followed by another."""
    choose, count, run = random.Random(seed), 0, 0
    while count < kills:
        pid = child(folder / str(run), config)
        time.sleep(choose.uniform(0.0, 0.3))
        os.kill(pid, signal.SIGKILL)
        hit = died(pid)
        count, run = count + hit, run + (not hit)
    died(child(folder / str(run), config))
    return run + 1


def crash(folder: Path, config: dict[str, Any]) -> int:
    """Die just before and just after each system call of a write, one after the other, in a new folder for each."""
    count = 0
    while True:
        k = count

        def arm(k: int = k) -> None:
            calls = 0

            def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls == k + 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args)

                return call

            os.fsync, os.replace = mortal(os.fsync), mortal(os.replace)

        where = folder / str(k)
        if not died(child(where, config, arm)):
            return count
        count += 1
        died(child(where, config))


def ranks(folder: Path, config: dict[str, Any], stop_at: int | None = None) -> list[int]:
    """Two processes with one run; rank 1 sends itself SIGINT in step ``stop_at``. Returns their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def become(rank: int) -> Callable[[], None]:
        def set_up() -> None:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            step = Loop._step

            def signalled(self: Loop, batch: Any) -> Any:
                if rank == 1 and self.state.step(self.config) == stop_at:
                    os.kill(os.getpid(), signal.SIGINT)
                return step(self, batch)

            Loop._step = signalled  # type: ignore[method-assign]

        return set_up

    pids = [child(folder, config, become(rank)) for rank in range(2)]
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def shared(folder: Path, config: dict[str, Any]) -> int:
    """Both ranks stop together though one was asked, and go on together."""
    assert ranks(folder / "whole", config) == [0, 0]
    assert ranks(folder / "stopped", config, stop_at=4) == [130, 130]
    assert ranks(folder / "stopped", config) == [0, 0]
    return 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    mode, where, text, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as warm:  # what is imported on first use is then there in every child
        train(read_config(json.loads(text), ["epochs=1"]), warm, progress=False)
    if mode == "kill":
        print(kill(Path(where), json.loads(text), *map(int, rest)))
    else:
        print({"crash": crash, "ranks": shared}[mode](Path(where), json.loads(text)))
