"""A study that is killed again and again. Run as a script, so that torch is loaded once and forked from there.

    killed.py FOLDER SEED KILLS

``FOLDER/whole`` is the study without a kill; ``FOLDER/0``, ``FOLDER/1``, … are killed in turn, at random moments of the
time that the whole one took and in the middle of its writes, until KILLS have hit. A study that gets through is
followed by the next. Prints the number of kills by kind and of studies.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# What a study imports on first use; nothing is run here: a kernel that has run does not survive a fork.
import quadnorm.lab.analysis
import quadnorm.lab.studies.evaluate
import quadnorm.norms.kernels.numba.launch
import quadnorm.training  # noqa: F401
from quadnorm.lab.studies.runner import run_study
from tests.lab.studies.tiny_study import tiny_study
from tests.training.forked import died


def start(root: Path, dies_at: int | None = None) -> int:
    """A process that runs the study, with data of its own; at the write operation ``dies_at`` it kills itself."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.environ["QUADNORM_CACHE"] = str(root / "cache")
        calls = 0

        def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal calls
                if calls == dies_at:
                    os.killpg(0, signal.SIGKILL)
                calls += 1
                return real(*args, **options)

            return call

        code = 1
        try:
            os.fsync, os.replace = mortal(os.fsync), mortal(os.replace)
            run_study(tiny_study(), root, workers=1, threads=1)
            (root / "writes").write_text(str(calls))
            code = 0
        finally:
            os._exit(code)
    return pid


def main(folder: Path, seed: int, kills: int) -> None:
    began = time.monotonic()
    died(start(folder / "whole"))
    takes, writes = time.monotonic() - began, int((folder / "whole" / "writes").read_text())
    choose, run = random.Random(seed), 0
    hits = {"moments": 0, "writes": 0}
    while sum(hits.values()) < kills:
        kind = min(hits, key=lambda k: hits[k])
        if kind == "writes":
            pid = start(folder / str(run), choose.randrange(writes // 4))
        else:
            pid = start(folder / str(run))
            time.sleep(choose.uniform(0.0, takes))
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:  # before it had its group
                os.kill(pid, signal.SIGKILL)
        hit = died(pid)
        hits[kind] += hit
        run += not hit
    died(start(folder / str(run)))
    print(hits["moments"], hits["writes"], run + 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
