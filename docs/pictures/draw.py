"""The pictures of the front page and the README, light and dark: ``python docs/pictures/draw.py [RESULTS]``.

With RESULTS, the folder of ``quadnorm study run demo --preset desk --out RESULTS``, its numbers are first written to
transfer.json; without, the ones that are there are drawn again. The same numbers give the same bytes. Two figures of
the report, ``degradation`` and ``octaves``, are drawn from the packs in results/.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure

import quadnorm as qn
from quadnorm import _ways as way_names
from quadnorm.lab.analysis.export import attempt
from quadnorm.lab.analysis.figures.style import inline_svg
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.studies.pack import unpack

HERE = Path(__file__).parent
TRAIN = 33
WAYS = {name: way_names.WAYS[name].title for name in ("as-trained", "transferred", "native")}
THEMES = {
    "light": {"ink": "#1f2328", "faint": "#d0d7de", "bad": "#c9510c", "colours": ("#0969da", "#1a7f37", "#8250df")},
    "dark": {"ink": "#e6edf3", "faint": "#3d444d", "bad": "#f0883e", "colours": ("#58a6ff", "#56d364", "#bc8cff")},
}


def read_demo(results: Path) -> dict[str, Any]:
    """Mean errors in % of the demo's LayerNorm model, by way and grid."""
    (run,) = results.glob(f"runs/fno-darcy-layer-{TRAIN}-s0-*")
    errors: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    for file in sorted(run.glob("evaluations/*.json"), key=lambda f: int(f.stem.split("@")[1])):
        way, _, grid = file.stem.partition("@")
        if way in errors:
            plain = json.loads(file.read_text())["plain"]
            errors[way][grid] = round(100 * sum(plain) / len(plain), 3)
    return {"command": "quadnorm study run demo --preset desk --out RESULTS", "relative L2 error, %": errors}


def transfer(figure: Figure, theme: dict[str, Any]) -> None:
    """One trained model on finer grids."""
    errors = json.loads((HERE / "transfer.json").read_text())["relative L2 error, %"]
    axis = figure.subplots()
    grids = [int(n) for n in errors["as-trained"]]
    colours = dict(zip(WAYS, (theme["bad"], *theme["colours"][:2]), strict=True))
    for (way, label), mark, line in zip(WAYS.items(), "osd", ("-", "-", ":"), strict=True):
        values = [errors[way][str(n)] for n in grids]
        axis.plot(grids, values, mark + line, color=colours[way], label=label, markersize=6, linewidth=2)
    first, last = errors["as-trained"][str(grids[0])], errors["as-trained"][str(grids[-1])]
    axis.annotate(
        f"×{last / first:.1f}", (grids[-1], last), (-8, -4), textcoords="offset points", ha="right", va="top",
        color=theme["bad"], fontsize=13, fontweight="bold",
    )  # fmt: skip
    axis.set(xscale="log", ylim=(0, 1.12 * last), xlabel="samples per axis", ylabel="relative L² error [%]")
    axis.set_xticks(grids, [f"{n}²" + (" (training)" if n == TRAIN else "") for n in grids])
    axis.minorticks_off()
    axis.legend(loc="lower right", frameon=False, ncols=2)
    axis.set_title("An FNO with LayerNorm, trained on Darcy flow at 33²", fontsize=11, loc="left")


def weights(figure: Figure, theme: dict[str, Any]) -> None:
    """Weights per sample on the training grid and on a finer one, as weight over length."""
    coarse, fine = 9, 17
    measures = {
        "counting": (qn.Grid("counting"), theme["bad"]),
        "trapezoid": (qn.Grid("trapezoid"), theme["colours"][0]),
        f"anchored at {coarse}": (qn.Anchored((coarse,)), theme["colours"][1]),
    }
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for row, n in zip(axes, (coarse, fine), strict=True):
        for axis, (name, (measure, colour)) in zip(row, measures.items(), strict=True):
            w = measure.weights((n,))
            length = qn.Grid("trapezoid").weights((n,))
            axis.bar(torch.linspace(0, 1, n).numpy(), (w / length).numpy(), 0.8 / (n - 1), color=colour)
            axis.axhline(1, color=theme["faint"], linewidth=1, zorder=0)
            axis.text(0.5, 1.55, f"boundary: {_boundary(w, length):.1%}", ha="center", color=theme["ink"], fontsize=10)
            if n == coarse:
                axis.set_title(name, fontsize=11)
        row[0].set_ylabel(f"{n} samples")
    for axis in axes[-1]:
        axis.set_xticks([0, 1])


def _boundary(w: torch.Tensor, length: torch.Tensor) -> float:
    """What the outermost samples have beyond the length that they stand for, in units of an inner sample's density."""
    density = float(w[len(w) // 2] / length[len(w) // 2])
    return float((w - density * length)[[0, -1]].sum())


def ways(figure: Figure, theme: dict[str, Any]) -> None:
    """Where sums are taken (filled), and how values between the training nodes (open) come about."""
    axes = figure.subplots(1, 3)
    coarse, fine = np.linspace(0, 1, 5), np.linspace(0, 1, 17)
    titles = ("anchored", "extended", "run at the training grid")
    texts = (
        "sums over the new samples,\nweighted by the training measure",
        "sums of the training run,\nnetwork evaluated at new samples",
        "everything on the training grid,\noutput interpolated",
    )
    for k, (axis, title, text, colour) in enumerate(zip(axes, titles, texts, theme["colours"], strict=True)):
        summed = fine if k == 0 else coarse
        for x in summed:
            axis.plot([float(x), 0.5], [1, 2], color=colour, linewidth=0.8, alpha=0.7)
        for x in fine if k < 2 else coarse:
            axis.plot([0.5, float(x)], [2, 3], color=colour, linewidth=0.8, alpha=0.35)
        axis.plot(fine, np.full(17, 1.0), "o", color=theme["faint"], markersize=4)
        axis.plot(summed, np.full(len(summed), 1.0), "o", color=colour, markersize=6)
        axis.plot(fine, np.full(17, 3.0), "o", color=theme["faint"] if k == 2 else colour, markersize=4)
        if k == 2:
            axis.plot(fine, np.full(17, 3.0), "-", color=colour, linewidth=1)
            axis.plot(coarse, np.full(5, 3.0), "o", color=colour, markersize=6)
        axis.plot([0.5], [2], "s", color=theme["ink"], markersize=13)
        axis.text(0.5, 2, "Σ", ha="center", va="center_baseline", color="#ffffff" if theme["ink"] < "#8" else "#000000")
        axis.text(0.5, 0.72, text, ha="center", va="top", fontsize=9, color=theme["ink"])
        axis.set_title(title, fontsize=11)
        axis.set(xlim=(-0.08, 1.08), ylim=(0.1, 3.25))
        axis.set_axis_off()
    axes[0].text(-0.1, 1, "in", ha="right", va="center", color=theme["ink"], fontsize=9)
    axes[0].text(-0.1, 3, "out", ha="right", va="center", color=theme["ink"], fontsize=9)


PICTURES: dict[str, tuple[Callable[[Figure, dict[str, Any]], None], tuple[float, float]]] = {
    "transfer": (transfer, (6.0, 3.1)),  # small, so that its type can be read on a phone
    "weights": (weights, (8.4, 3.6)),
    "ways": (ways, (8.8, 2.9)),
}


def draw(name: str, theme: str, folder: Path = HERE) -> Path:
    """Write one picture in one theme; the page's background shows through."""
    make, size = PICTURES[name]
    style = THEMES[theme]
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), style["ink"])
    fixed = {"svg.hashsalt": name, "svg.fonttype": "path", "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context({**ink, **fixed, "font.size": 10}):
        figure = Figure(figsize=size, layout="constrained")
        make(figure, style)
        path = folder / f"{name}-{theme}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    return path


def draw_of_records(name: str, theme: str, library: Library, folder: Path = HERE) -> Path:
    """Write a figure of the report, in the ink of a theme."""
    figure, why = attempt(name, library)
    if figure is None:
        raise ValueError(f"{name} {why}")
    path = folder / f"{name}-{theme}.svg"
    path.write_text(inline_svg(figure, name).replace("currentColor", THEMES[theme]["ink"]) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    if len(sys.argv) > 1:
        (HERE / "transfer.json").write_text(json.dumps(read_demo(Path(sys.argv[1])), indent=1) + "\n")
    for picture in PICTURES:
        for shade in THEMES:
            print(draw(picture, shade))
    with tempfile.TemporaryDirectory() as place:
        packs = sorted((HERE.parents[1] / "results").glob("*.tar.xz"))
        records = Library([unpack(pack, Path(place) / pack.name) for pack in packs])
        for picture in ("degradation", "octaves"):
            for shade in THEMES:
                print(draw_of_records(picture, shade, records))
