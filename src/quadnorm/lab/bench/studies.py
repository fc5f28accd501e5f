"""Speed-up of a study by a second worker process, and the cost of training steps against the estimates."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from quadnorm.lab.bench.timing import BenchRow, row
from quadnorm.lab.studies import study
from quadnorm.lab.studies.catalog.parts import OPERATORS
from quadnorm.lab.studies.estimate import STEP, step_seconds
from quadnorm.lab.studies.runner import run_study
from quadnorm.training.model import operator_class


def run(scale: float = 1.0) -> list[BenchRow]:
    """Two workers against one, then one step of each operator. ``scale`` shrinks epochs and numbers of steps."""
    return [*workers(scale), *steps(max(1, round(5 * scale)))]


def workers(scale: float = 1.0) -> list[BenchRow]:
    """Wall-clock time of one study with two workers and with one, each with one thread; the ratio is 1/speed-up.

    ``scale`` 1 trains eight FNOs of the demo for 32 epochs each, under two minutes on one core. Worker processes
    are started inside the timed part, as they are for a user.
    """
    s = study("demo").at("desk")
    v = s.variants[0]
    budget = replace(v.budget, train=100, val=20, test=10, epochs=max(1, round(32 * scale)))
    s = replace(s, variants=(replace(v, budget=budget, test=v.train),), seeds=(0, 1))
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        # One run first puts the data into the cache, so that both find them there.
        warm = replace(s, variants=(replace(v, budget=replace(budget, epochs=1), test=v.train),), seeds=(9,))
        run_study(warm, Path(folder) / "warm", workers=1, threads=1)
        for count in (1, 2):
            began = time.perf_counter()
            run_study(s, Path(folder) / str(count), workers=count, threads=1)
            seconds[count] = time.perf_counter() - began
    size = f"{len(s.seeds) * len(v.methods)} runs of {budget.epochs} epochs"
    return [row("two workers", size, seconds[2], "one worker", seconds[1])]


def steps(repeats: int = 5, grids: tuple[int, ...] = (32, 64)) -> list[BenchRow]:
    """A training step of each operator at the paper's size, batch 20, one thread, against the estimate's constant.

    The smallest processor time of ``repeats`` steps, so that waiting on a busy machine does not count. The constants in
    ``studies/estimate.py`` are these figures with a margin: a ratio below 1 means that estimates are on the safe side.
    """
    return [
        row(
            f"{name}, one step",
            f"{n}², batch 20",
            _step(name, n, repeats),
            "the estimate",
            step_seconds(name, n, cost.width, cost.layers),
        )
        for name, cost in STEP.items()
        if installed(name)
        for n in grids
    ]


def installed(name: str) -> bool:
    """Whether the package of an operator is there."""
    try:
        operator_class(name)()
    except ImportError:
        return False
    return True


def _step(name: str, n: int, repeats: int) -> float:
    from quadnorm.training.losses import relative_l2

    cost = STEP[name]
    norm = {"norm": "quad:instance"} if name in OPERATORS else {}  # others' models have norms of their own
    params: dict[str, Any] = {"width": cost.width, "layers": cost.layers, **OPERATORS.get(name, {}), **norm}
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            model = operator_class(name)(**params)
            x, y = torch.randn(20, 1, n, n), torch.randn(20, 1, n, n)
        optimiser = torch.optim.AdamW(model.parameters())
        times = []
        for _ in range(1 + repeats):
            began = time.thread_time()
            optimiser.zero_grad()
            relative_l2(model(x), y).sum().backward()
            optimiser.step()
            times.append(time.thread_time() - began)
    finally:
        torch.set_num_threads(before)
    return min(times[1:])  # the first also prepares
