"""Six models of ``examples/strangers.py`` trained on Darcy flow at 33² and tested at 129² in every way.

Part of ``examples/zoo.py --train``, which keeps the results and writes the table.
"""

from __future__ import annotations

from functools import cache
from statistics import mean
from typing import Any

import torch
from strangers import MODELS
from torch import Tensor
from zoo_ways import NATIVE, WAYS, ways

from quadnorm.problems import problem

TEST, SAMPLES, TESTS, STEPS = 129, 400, 20, 300
TRAINED = (
    "neuraloperator FNO",
    "neuraloperator FNO, domain padding",
    "FNO by torch.fft",
    "FNO by torch.fft, padded by 9",
    "UNO",
    "U-Net",
)


@cache
def data() -> list[Tensor]:
    """Inputs and answers: for training, then for tests at 33² and at 129². Inputs have mean 0 and deviation 1."""
    darcy = problem("darcy")
    (train,) = darcy.dataset_many(range(SAMPLES), [NATIVE])
    tests = darcy.dataset_many(range(SAMPLES, SAMPLES + TESTS), [NATIVE, TEST])
    middle, spread, unit = train[0].mean(), train[0].std(), train[1].std()
    return [t for x, y in (train, *tests) for t in ((x - middle) / spread, y / unit)]


def trained(name: str, seed: int) -> dict[str, Any]:
    """Mean relative L² error in % on other samples: at 33², then at 129² in every way, or why that was refused."""
    x, y, x0, y0, x1, y1 = data()
    torch.manual_seed(seed)
    model = MODELS[name]()
    optimiser = torch.optim.AdamW(model.parameters(), 4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=STEPS)
    for _ in range(STEPS):
        at = torch.randperm(SAMPLES)[:16]
        optimiser.zero_grad()
        error(model(x[at]), y[at]).backward()
        optimiser.step()
        schedule.step()
    usable, refused = ways(model.eval())
    with torch.no_grad():
        values: dict[str, Any] = {"at 33²": 100 * float(error(model(x0), y0)), "refused": refused}
        for way, run in usable.items():
            values[way] = 100 * float(error(torch.cat([run(part) for part in x1.split(4)]), y1))
    return values


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def trained_table(results: dict[str, Any]) -> str:
    """Markdown: means over the seeds that were run, and the range that they span."""
    lines = [
        "| model | seeds | at 33² | " + " | ".join(f"{w}, 129²" for w in WAYS) + " |",
        "|---|---|---|" + "---|" * len(WAYS),
    ]
    for name in TRAINED:
        runs = [results[key] for key in results if key.startswith(f"trained {name} ")]
        if runs:
            columns = [[r[k] for r in runs if k in r] for k in ("at 33²", *WAYS)]
            cells = [cell(c, len(runs)) for c in columns]
            lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "Not run yet."


def cell(errors: list[float], runs: int) -> str:
    """Mean and range, and how many of the trained models the way refused."""
    refused = f"refused {runs - len(errors)} of {runs}" if len(errors) < runs else ""
    if not errors:
        return refused
    spread = f" ({min(errors):.2f}–{max(errors):.2f})" if len(errors) > 1 else ""
    return f"{mean(errors):.2f}{spread}" + (f"; {refused}" if refused else "")
