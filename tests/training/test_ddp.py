"""Two processes compute what one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quadnorm.training import TrainConfig, read_metrics, train, write_config
from quadnorm.training.ddp import Group
from tests import HANGS, ROOT
from tests.training.tiny_runs import TINY, assert_same_run, contents

Tiny = Callable[..., TrainConfig]
SCRIPT = """
import json, os, sys
from quadnorm.cli.app import run
from quadnorm.training import train
result = train(sys.argv[1], sys.argv[2], progress=False)
with open(sys.argv[2] + "-rank" + os.environ["RANK"], "w") as file:
    json.dump([(r["train"], r["val"]) for r in result.history], file)
sys.exit(run(["train", "-c", sys.argv[1], "-o", sys.argv[2] + "-again", "seed=1"]))  # the ranks can meet again
"""


def torchrun(config: TrainConfig, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder.parent / "config.yaml").write_text(write_config(config))
    (folder.parent / "script.py").write_text(SCRIPT)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [str(folder.parent / name) for name in ("script.py", "config.yaml")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command, *arguments, str(folder)],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=environment,
    )


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_cover_a_batch(world: int) -> None:
    for count in range(12):
        shares = [list(range(count))[Group(rank, world).share(count)] for rank in range(world)]
        assert [i for share in shares for i in share] == list(range(count))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_two_processes_equal_one(tiny: Tiny, tmp_path: Path) -> None:
    """17 samples in batches of 8: shares of 4 and 4, then of 1 and none; two grids, an odd validation set."""
    config = tiny("samples.train=17", "samples.val=3", "resolutions.train=[9, 7]", "dtype=float64", "epochs=4")
    two = torchrun(config, tmp_path / "two")
    assert two.returncode == 0, two.stderr
    ranks = [json.loads((tmp_path / f"two-rank{k}").read_text()) for k in (0, 1)]
    assert len(ranks[0]) == 4
    assert ranks[0] == ranks[1]  # to the last bit: they decide alike when to stop
    assert len(read_metrics(tmp_path / "two-again" / "metrics.jsonl")) == 4
    (line,) = two.stdout.splitlines()  # of the command: one process speaks
    assert line.startswith(f"{tmp_path / 'two-again'}: all epochs are done after 4 epochs; best validation error ")
    assert two.stderr.count("epoch 4/4") == 1
    one = train(config, tmp_path / "one", progress=False)
    metrics = read_metrics(tmp_path / "two" / "metrics.jsonl")
    assert [r["epoch"] for r in metrics] == [1, 2, 3, 4]  # only one process wrote
    for a, b in zip(one.history, metrics, strict=True):
        for key in ("train", "val", "val_weighted", "gradient"):
            assert a[key] == pytest.approx(b[key], rel=1e-9)
    a, b = (contents(tmp_path / name / "last.safetensors") for name in ("one", "two"))
    assert a["tensors"].keys() == b["tensors"].keys()
    # The run of two can be continued or repeated by one: the checkpoint is the same kind of file.
    assert train(config, tmp_path / "two", progress=False).epochs == 4


def test_ranks_stop_and_resume_together(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.forked", "ranks", str(tmp_path), json.dumps(TINY)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
