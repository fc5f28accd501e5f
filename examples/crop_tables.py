"""The tables and the figure of ``examples/crop_puzzle.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

Errors = dict[str, dict[str, list[float]]]  # by way, by what was measured: one number for each grid
Runs = dict[str, list[Errors]]  # by name of the network: one for each seed
KINDS = {"error": 0, "drift": 1}  # and the first grid that has one: there is no drift at the training grid


def table(results: Runs, grids: Sequence[int], when: str) -> str:
    """Markdown: what the coordinates add, errors and drifts; means over the seeds and the range that they span."""
    heads = ["use", *(f"error at {n}²" for n in grids), *(f"drift at {n}²" for n in grids[1:])]
    lines = ["| model | way | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for name, runs in results.items():
        for way in runs[0]:
            use = [run[way]["use"][0] for run in runs if "use" in run[way]]
            errors, drifts = (zip(*(run[way][f"{what}, {when}"] for run in runs), strict=True) for what in KINDS)
            cells = [spread(use, ".0f") if use else "", *(spread(c, ".2f") for c in errors)]
            cells += [spread(c, ".2g") for c in list(drifts)[1:]]
            lines.append(f"| {name} | {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """The mean, and the range if there is one."""
    ends = f" ({min(values):{form}}–{max(values):{form}})" if len(values) > 1 else ""
    return f"{mean(values):{form}}{ends}"


def draw(results: Runs, grids: Sequence[int], steps: int, file: Path) -> None:
    """Drifts and errors at the last step: means, and bars from the least to the greatest seed."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.5, 4.4), layout="constrained")
    titles = {"drift": "change of the output at the 64² nodes", "error": "error"}
    for axes, (what, title) in zip(panels, titles.items(), strict=True):
        first = KINDS[what]
        for k, (name, runs) in enumerate(results.items()):
            for way, line, face in (("as trained", "-", f"C{k}"), ("extended", ":", "white")):
                columns = list(zip(*(run[way][f"{what}, last"][first:] for run in runs), strict=True))
                middle = [mean(c) for c in columns]
                below = [m - min(c) for m, c in zip(middle, columns, strict=True)]
                above = [max(c) - m for m, c in zip(middle, columns, strict=True)]
                at = [n * 1.04 ** (k - 1.5) for n in grids[first:]]
                style = {"color": f"C{k}", "ls": line, "marker": "osD^"[k], "mfc": face, "ms": 5, "capsize": 2}
                axes.errorbar(at, middle, [below, above], label=name if face != "white" else None, **style)
        axes.set(xscale="log", xlabel="test grid", yscale="log")
        axes.set_title(f"after {steps} steps: {title}, %", fontsize=10)
        axes.set_xticks(grids[first:], [f"{n}²" for n in grids[first:]])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    handles, names = panels[0].get_legend_handles_labels()
    title = "solid: as trained; dotted, open: extended"
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, title=title)
    figure.savefig(file)
