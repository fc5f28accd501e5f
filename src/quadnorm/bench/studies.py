"""How well a study spreads over worker processes."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from quadnorm.bench.timing import Row, row
from quadnorm.studies import study
from quadnorm.studies.runner import run_study


def run(scale: float = 1.0) -> list[Row]:
    """Wall-clock time of one study with one and with two workers of one thread each; the ratio is 1/gain.

    ``scale`` 1 trains eight FNOs of the demo for eight epochs each, about two minutes on one core. Worker processes
    are started inside the timed part, as they are for a user.
    """
    s = study("demo").at("desk")
    v = s.variants[0]
    budget = replace(v.budget, train=100, val=20, test=10, epochs=max(1, round(8 * scale)))
    s = replace(s, variants=(replace(v, budget=budget, test=v.train),), seeds=(0, 1))
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        # One run puts the data into the cache, for both alike.
        run_study(replace(s, seeds=(9,)), Path(folder) / "warm", workers=1, threads=1)
        for workers in (1, 2):
            began = time.perf_counter()
            run_study(s, Path(folder) / str(workers), workers=workers, threads=1)
            seconds[workers] = time.perf_counter() - began
    size = f"{len(s.seeds) * len(v.methods)} runs of {budget.epochs} epochs"
    return [row("two workers", size, seconds[2], "one worker", seconds[1])]
