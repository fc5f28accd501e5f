"""A puzzle: is it the norm that makes a model depend on the grid, or its coordinate channel?

The FNO of the CROP repository has InstanceNorm before and after every spectral convolution, is trained on periodic
Navier–Stokes at 64² to make one step in time, and rolled out; on finer grids its error grows, and less without the
norms. On a periodic grid counting samples is the integral, so that a norm cannot leak. The coordinates
``linspace(0, 1, n)`` can: they jump where the axis closes, their last sample moves with n, and every step adds to it.

Small FNOs with norms or none, and with three kinds of coordinates, are trained at 64² and rolled out at 64², 128² and
256² as they are and extended: on flows that a force has just begun to drive, which a network must learn from the
coordinates, and with ``--flow developed`` on flows that show by themselves where the force acts.
``python examples/crop_puzzle.py --results FILE.json`` keeps what was measured and goes on from there; ``--figure
FILE.svg`` draws it. About 40 minutes on one core, 20 with developed flows; needs ``pip install 'quadnorm[bench]'``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import torch
from crop_fno import Net
from torch import Tensor, nn

import quadnorm as qn
from quadnorm.problems import Problem, problem

TRAIN, GRIDS, SAMPLES, TESTS = 64, (64, 128, 256), 32, 4


class Flow(NamedTuple):
    """Navier–Stokes, what is learned of it and for how long."""

    viscosity: float
    forcing: float
    dt: float
    starts: tuple[int, ...]  # times at which training pairs begin
    steps: tuple[int, int]  # after which the roll-out is compared with the truth
    updates: int  # of the training

    def problem(self, start: float, horizon: float) -> Problem:
        """ω(start) → ω(start + horizon)."""
        options = {"viscosity": self.viscosity, "forcing": self.forcing, "dt": self.dt}
        return problem("navier-stokes", start=start, horizon=horizon, **options)


FLOWS = {
    "driven": Flow(2e-3, 0.4, 1 / 80, (0, 2, 4, 6, 8), (1, 5), 800),
    "developed": Flow(1e-3, 0.1, 1 / 32, (10, 13, 16, 19), (1, 10), 400),  # viscosity, force and times of the report
}
CASES = {
    "norms, coordinates linspace(0, 1, n)": (True, "linspace"),
    "no norm, coordinates linspace(0, 1, n)": (False, "linspace"),
    "norms, no coordinates": (True, "none"),
    "norms, coordinates sin 2πr, cos 2πr": (True, "closed"),
}
RANDOM = ", random weights"
Errors = dict[str, dict[str, list[float]]]  # by way, by what was measured after which step: one for each grid


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def pairs(flow: Flow) -> tuple[Tensor, Tensor]:
    """Training pairs ω(t) → ω(t + 1) at 64², of trajectories that are different for each t."""
    parts = [range(k * SAMPLES, (k + 1) * SAMPLES) for k in range(len(flow.starts))]
    data = [flow.problem(t, 1).dataset_many(part, [TRAIN])[0] for t, part in zip(flow.starts, parts, strict=True)]
    return torch.cat([x for x, _ in data]), torch.cat([y for _, y in data])


def rollouts(flow: Flow) -> dict[int, list[tuple[Tensor, Tensor]]]:
    """For each number of steps, ω at the first time and after them, on every grid."""
    first = len(flow.starts) * SAMPLES
    tests = range(first, first + TESTS)
    return {k: flow.problem(flow.starts[0], k).dataset_many(tests, list(GRIDS)) for k in flow.steps}


def train(norm: bool, coordinates: str, seed: int, x: Tensor, y: Tensor, steps: int) -> nn.Module:
    """One network, fitted to make one step."""
    torch.manual_seed(seed)
    model = Net(norm, coordinates)
    optimiser = torch.optim.Adam(model.parameters(), 4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(steps):
        at = torch.randint(len(x), (4,))
        optimiser.zero_grad()
        error(model(x[at]), y[at]).backward()
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def measure(model: nn.Module, scale: Tensor, tests: dict[int, list[tuple[Tensor, Tensor]]]) -> Errors:
    """After each number of steps, as the model is and extended: errors on every grid, and drifts from 64², in %."""
    example = tests[1][0][0] / scale
    ways = {"as it is": model, "extended": qn.extend(model, (TRAIN, TRAIN), "periodic", example=example)}
    values: Errors = {way: {f"{what} {k}": [] for k in tests for what in ("error", "drift")} for way in ways}
    for way, run in ways.items():
        native: dict[int, Tensor] = {}
        for g, n in enumerate(GRIDS):
            w = tests[1][g][0] / scale
            for k in range(1, max(tests) + 1):
                w = run(w)
                if k in tests:
                    shared = w[..., :: n // TRAIN, :: n // TRAIN]
                    values[way][f"error {k}"].append(100 * float(error(w * scale, tests[k][g][1])))
                    values[way][f"drift {k}"].append(100 * float(error(shared, native.setdefault(k, shared))))
    return values


def main() -> None:
    """Measure what is not there yet, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flow", choices=list(FLOWS), default="driven")
    parser.add_argument("--results", type=Path, default=Path("puzzle.json"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    results: dict[str, list[Errors]] = json.loads(options.results.read_text()) if options.results.exists() else {}
    flow = FLOWS[options.flow]
    x, y = pairs(flow)
    tests, scale = rollouts(flow), x.std()

    def random(case: tuple[bool, str], seed: int) -> Errors:
        torch.manual_seed(seed)
        return measure(Net(*case).eval(), scale, {1: tests[1]})

    def fitted(case: tuple[bool, str], seed: int) -> Errors:
        return measure(train(*case, seed, x / scale, y / scale, flow.updates), scale, tests)

    for more, run in ((RANDOM, random), ("", fitted)):
        for seed in range(options.seeds):
            for name, case in CASES.items():
                if len(results.setdefault(name + more, [])) == seed:
                    results[name + more].append(run(case, seed))
                    options.results.write_text(json.dumps(results, indent=1) + "\n")
                    print(name + more, seed, results[name + more][-1], flush=True)
    print(f"\nrandom weights, one step\n{table(results, 1, RANDOM)}")
    for steps in flow.steps:
        print(f"\ntrained, after {steps} steps\n{table(results, steps)}")
    if options.figure:
        draw(results, flow.steps[-1], options.figure)


def table(results: dict[str, list[Errors]], steps: int, more: str = "") -> str:
    """Markdown: errors and drifts after the steps, means over the seeds and the range that they span."""
    grids = [] if more else [f"error at {n}²" for n in GRIDS]
    heads = [*grids, *(f"drift at {n}²" for n in GRIDS[1:])]
    lines = ["| model | way | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for name in CASES:
        runs = results[name + more]
        for way in runs[0]:
            errors, drifts = ([run[way][f"{what} {steps}"] for run in runs] for what in ("error", "drift"))
            cells = [spread(c, ".2f") for c in zip(*errors, strict=True) if grids]
            cells += [spread(c, ".2g") for c in list(zip(*drifts, strict=True))[1:]]
            lines.append(f"| {name} | {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """The mean, and the range if there is one."""
    ends = f" ({min(values):{form}}–{max(values):{form}})" if len(values) > 1 else ""
    return f"{mean(values):{form}}{ends}"


def growth(errors: list[float]) -> list[float]:
    """By how much of its value at 64² the error grows on the other grids, in %."""
    return [100 * (e / errors[0] - 1) for e in errors[1:]]


def draw(results: dict[str, list[Errors]], last: int, file: Path) -> None:
    """What the test grid adds: means, and bars from the least to the greatest seed."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(10.5, 4.2), layout="constrained")
    drift = "change of the output at the 64² nodes, %"
    kinds = (
        (RANDOM, "drift 1", f"random weights, one step\n{drift}"),
        ("", f"drift {last}", f"trained, {last} steps\n{drift}"),
        ("", f"error {last}", f"trained, {last} steps\ngrowth of the error, % of that at 64²"),
    )
    for axes, (more, what, title) in zip(panels, kinds, strict=True):
        part = growth if what.startswith("error") else lambda values: values[1:]
        for k, name in enumerate(CASES):
            for way, line, face in (("as it is", "-", f"C{k}"), ("extended", ":", "white")):
                columns = list(zip(*(part(run[way][what]) for run in results[name + more]), strict=True))
                middle = [mean(c) for c in columns]
                below = [m - min(c) for m, c in zip(middle, columns, strict=True)]
                above = [max(c) - m for m, c in zip(middle, columns, strict=True)]
                at = [n * 1.05 ** (k - 1.5) for n in GRIDS[1:]]
                style = {"color": f"C{k}", "ls": line, "marker": "osD^"[k], "mfc": face, "ms": 5, "capsize": 2}
                axes.errorbar(at, middle, [below, above], label=name if face != "white" else None, **style)
        axes.set(xscale="log", xlabel="test grid", yscale="linear" if part is growth else "log")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(GRIDS[1:], [f"{n}²" for n in GRIDS[1:]])
        axes.tick_params(which="minor", bottom=False, labelbottom=False)
    handles, names = panels[0].get_legend_handles_labels()
    title = "solid: as it is; dotted, open: extended"
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, title=title)
    figure.savefig(file)


if __name__ == "__main__":
    main()
