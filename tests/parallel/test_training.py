"""``quadnorm train`` and ``eval`` under torchrun with parts of space: the run of one process, in several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from quadnorm.training import TrainConfig, evaluate, load_model, read_config, read_metrics, train
from quadnorm.training.ddp import Group, group
from quadnorm.training.losses import relative_l2
from tests import HANGS
from tests.training.tiny_runs import TINY, contents

SCRIPT = """
import sys
from quadnorm.cli.app import run
folder, *lines = sys.argv[1:]
for line in lines:
    code = run(line.split())
    if code:
        sys.exit(code)
"""
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
SETTINGS = {
    "grid": ["samples.train=9", "samples.val=3", "resolutions.train=[9, 8]", "loss=weighted", "epochs=3"],
    "points": [
        "problem.name=poisson-mesh",
        "operator={name: transolver, params: {width: 8, heads: 2, layers: 1, slices: 3, norm: quad}}",
        "samples.train=6",
        "samples.val=2",
        "samples.test=2",
        "epochs=2",
    ],
}


def config(name: str) -> TrainConfig:
    return read_config(TINY, ["dtype=float64", *SETTINGS[name]])


@pytest.mark.slow
def test_four_processes_equal_one(tmp_path: Path) -> None:
    """Grids on 2 × 2 (data × space), then points on 1 × 4, then an evaluation; 9 rows on two ranks are 5 and 4."""
    from quadnorm.training import write_config

    (tmp_path / "script.py").write_text(SCRIPT)
    for name in SETTINGS:
        (tmp_path / f"{name}.yaml").write_text(write_config(config(name)))
    lines = [
        f"train -c {tmp_path}/grid.yaml -o {tmp_path}/grid parallel.space=2",
        f"train -c {tmp_path}/points.yaml -o {tmp_path}/points parallel.space=4",
        f"eval {tmp_path}/grid -r 9 11 parallel.space=4 --out {tmp_path}/errors.json",
    ]
    run = subprocess.run(
        [sys.executable, *LAUNCH, str(tmp_path / "script.py"), str(tmp_path), *lines],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "OMP_NUM_THREADS": "1", "QUADNORM_KERNEL": "torch"},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("all epochs are done") == 2  # one process speaks
    for name in SETTINGS:
        one = train(config(name), tmp_path / f"{name}-one", progress=False)
        many = read_metrics(tmp_path / name / "metrics.jsonl")
        for a, b in zip(one.history, many, strict=True):
            for key in ("train", "val", "val_weighted", "gradient"):
                assert a[key] == pytest.approx(b[key], rel=1e-8), (name, key)
        serial, parted = (contents(tmp_path / run / "last.safetensors") for run in (f"{name}-one", name))
        assert {k: v[:2] for k, v in serial["tensors"].items()} == {k: v[:2] for k, v in parted["tensors"].items()}
        weights = [load_model(tmp_path / run, "last")[0].state_dict() for run in (f"{name}-one", name)]
        assert all((p - weights[1][key]).abs().max() < 1e-8 for key, p in weights[0].items())
        # The run of four can be taken up by one: nothing in its config differs.
        assert train(config(name), tmp_path / name, progress=False).epochs == one.epochs
    errors = json.loads((tmp_path / "errors.json").read_text())["errors"]
    for a, b in zip(evaluate(tmp_path / "grid", [9, 11]).grids, errors, strict=True):
        assert a.plain == pytest.approx(b["plain"], rel=1e-8)
        assert a.weighted == pytest.approx(b["weighted"], rel=1e-8)


def test_space_needs_as_many_processes() -> None:
    with pytest.raises(ValueError, match=r"parallel.space=2 needs a multiple of 2 processes, there is 1: torchrun"):
        group(torch.device("cpu"), 2)


def test_shares_and_parts() -> None:
    field = torch.arange(2 * 7).reshape(1, 1, 7, 2)
    parts = [Group(rank, 6, 3).part(field) for rank in range(6)]
    assert torch.equal(torch.cat(parts[:3], 2), field)
    assert torch.equal(torch.cat(parts[3:], 2), field)
    assert [Group(rank, 6, 3).share(5) for rank in range(6)] == [slice(0, 3)] * 3 + [slice(3, 5)] * 3


def test_relative_l2_of_parts_is_that_of_the_whole() -> None:
    p, u, w = torch.randn(3, 2, 6, dtype=torch.float64), torch.randn(3, 2, 6, dtype=torch.float64), torch.rand(6)
    p[0] = u[0]  # no error, no NaN in its derivative
    p.requires_grad_()
    expected = relative_l2(p, u, w)
    squares_here = relative_l2(p, u, w, lambda squares: squares)
    assert torch.allclose(squares_here, expected)
    (a,), (b,) = (torch.autograd.grad(loss.sum(), p) for loss in (squares_here, expected))
    assert torch.allclose(a, b)
