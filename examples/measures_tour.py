"""A tour of the measures: one smooth field, five grids, five ways to average it.

``python examples/measures_tour.py [folder]`` prints a table and writes ``measures_tour.png`` (default folder: out).
"""

import argparse
import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import quadnorm as qn

SIZES = [17, 33, 65, 129, 257]
TRAIN = 17  # the grid that the anchored measure remembers
FINE = 2049  # stands for n → ∞ where there is no closed form
EXACT = (math.e - 1) * math.sin(2) / 2  # ∫∫ e^x cos 2y over the unit square


def field(n: int) -> torch.Tensor:
    """e^x cos 2y on n×n endpoint-inclusive samples."""
    x = torch.linspace(0, 1, n, dtype=torch.float64)
    return torch.exp(x)[:, None] * torch.cos(2 * x)


def main(folder: Path) -> None:
    """Print the table and draw the figure."""
    anchored = qn.Anchored((TRAIN, TRAIN))
    measures = {
        "counting (LayerNorm's average)": (qn.Grid("counting"), EXACT),
        "0.3·counting + 0.7·trapezoid": (qn.Blend(0.3, qn.Grid("trapezoid")), EXACT),
        "trapezoid": (qn.Grid("trapezoid"), EXACT),
        "Simpson": (qn.Grid("simpson"), EXACT),
        f"anchored at {TRAIN}²": (anchored, anchored.integrate(field(FINE)).item()),
    }
    errors = {name: [abs(m.integrate(field(n)).item() - limit) for n in SIZES] for name, (m, limit) in measures.items()}
    console = Console(width=110)
    console.print(f"\nThe mean of e^x cos 2y on n×n endpoint-inclusive samples; the integral is {EXACT:.6f}.")
    console.print("Distance of each average to its own limit for n → ∞. The anchored average tends to what a model")
    console.print(f"trained at {TRAIN}² has seen there ({field(TRAIN).mean():.6f}), so it starts close and stays.\n")
    table = Table("measure", *(f"{n}²" for n in SIZES), "order in h")
    for name, e in errors.items():
        table.add_row(name, *(f"{v:.1e}" for v in e), _order(e))
    console.print(table)
    target = folder / "measures_tour.png"
    _draw(errors, target)
    console.print(f"\nfigure: {target}")


def _order(errors: list[float]) -> str:
    slope = np.polyfit(np.log([1 / (n - 1) for n in SIZES]), np.log(errors), 1)[0]
    return f"{slope:.2f}"


def _draw(errors: dict[str, list[float]], target: Path) -> None:
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00"])
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    for (name, e), marker in zip(errors.items(), "osD^v", strict=True):
        left.loglog(SIZES, e, marker=marker, label=name)
    left.set_xticks(SIZES, [str(n) for n in SIZES])
    left.minorticks_off()
    left.set(xlabel="samples per axis", ylabel="distance to the limit", title="How an average depends on the grid")
    left.legend(fontsize=7)

    for label, w in {
        "counting": qn.Grid("counting").weights(17),
        "trapezoid": qn.Grid("trapezoid").weights(17),
        "Clenshaw–Curtis": qn.Grid("clenshaw-curtis").weights(17),
        "anchored at 9": qn.Anchored(9).weights(17),
    }.items():
        middle.plot(17 * w, marker=".", label=label)
    middle.set(xlabel="sample", ylabel="weight × n", title="Weights of 17 samples")
    middle.legend(fontsize=7)

    points = np.random.default_rng(0).random((300, 2)) ** np.array([1.0, 2.0])  # crowded at the lower edge
    volume = qn.voronoi_weights(points, bounds=((0, 1), (0, 1)))
    dots = right.scatter(*points.T, c=300 * volume, s=14, cmap="viridis")
    right.set(title="Control volumes of scattered points", aspect="equal", xlim=(0, 1), ylim=(0, 1))
    fig.colorbar(dots, ax=right, label="volume × n")
    target.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(target, dpi=140)
    plt.close(fig)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out"), help="where to write; default: out")
    main(parser.parse_args().folder)
