"""A puzzle: is it the norm that makes a model depend on the grid, or its coordinate channel?

The FNO of the CROP repository has InstanceNorm before and after every spectral convolution, is trained on periodic
Navier–Stokes at 64² to make one step in time, and rolled out; on finer grids its error grows seven-fold, and not at all
without the norms. On a periodic grid counting samples is the integral, so that a norm cannot leak. The coordinates
``linspace(0, 1, n)`` can, as far as the network makes use of them: they jump where the axis closes, and their last
sample moves with n.

Small FNOs with norms or none, and with three kinds of coordinates, are trained at 64² and rolled out at 64², 128² and
256² as they are and extended: on young flows, where the network needs the coordinates to know where the force acts, and
with ``--flow developed`` on flows that show it by themselves. ``python examples/crop_puzzle.py --results FILE.json``
keeps what was measured and goes on from there; ``--figure FILE.svg`` draws it. About 15 minutes on one core; needs
``pip install 'quadnorm[bench]'``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import torch
from crop_flows import FLOWS, TESTS, on_grid, trajectories
from crop_fno import Net
from crop_tables import Errors, draw, table
from torch import Tensor

import quadnorm as qn

TRAIN, GRIDS = 64, (64, 128, 256)


class Case(NamedTuple):
    """A network, and how many times as long it is trained: without norms it learns later what coordinates are for."""

    norm: bool
    coordinates: str
    longer: int = 1


CASES = {
    "norms, linspace(0, 1, n)": Case(True, "linspace"),
    "no norm, linspace(0, 1, n)": Case(False, "linspace", 3),
    "norms, sin 2πr and cos 2πr": Case(True, "closed"),
    "norms, no coordinates": Case(True, "none"),
}


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def train(case: Case, seed: int, w: Tensor, updates: int, batch: int = 6) -> Net:
    """One network, fitted to make one step of the trajectories w (samples, times, 64, 64)."""
    torch.manual_seed(seed)
    model = Net(case.norm, case.coordinates)
    optimiser = torch.optim.Adam(model.parameters(), 8e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 8e-3, total_steps=updates * case.longer)
    for _ in range(updates * case.longer):
        i, t = torch.randint(len(w), (batch,)), torch.randint(w.shape[1] - 1, (batch,))
        optimiser.zero_grad()
        error(model(w[i, t][:, None]), w[i, t + 1][:, None]).backward()
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def measure(model: Net, tests: dict[int, Tensor], steps: int) -> Errors:
    """As the model is and extended, in %: errors and drifts from 64² on every grid, at the last step and on average."""
    native = tests[TRAIN]
    ways = {"as trained": model, "extended": qn.extend(model, (TRAIN, TRAIN), "periodic", example=native[:, :1])}
    values: Errors = {}
    for way, run in ways.items():
        kept: list[Tensor] = []
        values[way] = {f"{what}, {when}": [] for what in ("error", "drift") for when in ("mean", "last")}
        for n, truth in tests.items():
            w, errors, drifts = truth[:, :1], [], []
            for t in range(steps):
                w = run(w)
                shared = w[..., :: n // TRAIN, :: n // TRAIN]
                if n == TRAIN:
                    kept.append(shared)
                errors.append(100 * float(error(w[:, 0], truth[:, t + 1])))
                drifts.append(100 * float(error(shared, kept[t])))
            for what, found in (("error", errors), ("drift", drifts)):
                values[way][f"{what}, mean"].append(sum(found) / steps)
                values[way][f"{what}, last"].append(found[-1])
    pairs = native[:, :-1].flatten(0, 1)[:, None]
    seen = model(pairs)
    model.blind = True
    values["as trained"]["use"] = [100 * float(error(model(pairs), seen))]
    model.blind = False
    return values


def main() -> None:
    """Measure what is not there yet, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flow", choices=list(FLOWS), default="young", help="which flows to learn")
    parser.add_argument("--results", type=Path, default=Path("puzzle.json"), help="where measurements are kept")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to train")
    parser.add_argument("--cases", type=int, default=len(CASES), help="how many of the networks, from the first")
    parser.add_argument("--figure", type=Path, help="the picture to draw, .svg")
    options = parser.parse_args()
    results: dict[str, list[Errors]] = json.loads(options.results.read_text()) if options.results.exists() else {}
    flow, cases = FLOWS[options.flow], dict(list(CASES.items())[: options.cases])
    bands = trajectories(flow)
    w = on_grid(bands[:-TESTS], TRAIN)
    tests = {n: on_grid(bands[-TESTS:], n) / w.std() for n in GRIDS}
    for seed in range(options.seeds):
        for name, case in cases.items():
            if len(results.setdefault(name, [])) == seed:
                results[name].append(measure(train(case, seed, w / w.std(), flow.updates), tests, flow.steps))
                options.results.write_text(json.dumps(results, indent=1) + "\n")
                print(name, seed, results[name][-1], flush=True)
    for when in ("mean", "last"):
        print(f"\n{when} of {flow.steps} steps\n{table(results, GRIDS, when)}")
    if options.figure:
        draw(results, GRIDS, flow.steps, options.figure)


if __name__ == "__main__":
    main()
