"""Degradation factors, error over native error, of every model and problem, in every way, at every distance; and the
errors of the studies that answer critics, by octave of the wavenumber."""

from __future__ import annotations

import re
from collections import defaultdict
from math import exp, isfinite, log, log2, nan
from typing import TYPE_CHECKING

import numpy as np

from quadnorm._ways import WAYS
from quadnorm.lab.analysis.comparisons import AS_TRAINED, TITLES, TRANSFERRED, way_of
from quadnorm.lab.analysis.figures.style import FAINT, sheet, style
from quadnorm.lab.analysis.results import Library, Results
from quadnorm.lab.studies.records import evaluation_file
from quadnorm.lab.studies.study import Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = tuple[str, str, int]  # operator, problem, steps of a rollout
DARK = "#111111"  # the ink inside coloured cells, on light and dark pages


def factors(library: Library) -> dict[Row, dict[tuple[str, int], list[float]]]:
    """Error over that at the training grid (after one step), for each model: row → (way, log₂ of the ratio) → values.

    Models that were trained on several grids have no native one and are left out; grids at other ratios too.
    """
    found: dict[Row, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    seen = set()
    for results in library.all_comparable():
        for r in results.runs:
            v, method, seed = r.run.variant, r.run.method.label, r.run.seed
            native = results.of(v.name, method, v.train[0]).get(seed) if len(v.train) == 1 else None
            if not native:
                continue
            for e in results.study.evaluations:
                name, steps = _unrolled(e.name)
                for n in v.test:
                    error, doublings = results.of(v.name, method, n, e.name).get(seed), _doublings(n / v.train[0])
                    cell, way = (r.key, e.name, n), way_of(name)
                    if error and isfinite(error) and way and doublings is not None and cell not in seen:
                        seen.add(cell)
                        found[v.operator, _problem(v), steps][way, doublings].append(error / native)
    return found


def _unrolled(evaluation: str) -> tuple[str, int]:
    """``as-trained-20-steps`` as (``as-trained``, 20)."""
    match = re.fullmatch(r"(.+)-(\d+)-steps", evaluation)
    return (match[1], int(match[2])) if match else (evaluation, 1)


def _doublings(ratio: float) -> int | None:
    whole = round(log2(ratio))
    return whole if abs(log2(ratio) - whole) < 0.08 else None


def _problem(v: Variant) -> str:
    placement, band = (v.problem_params.get(name) for name in ("placement", "band"))
    return ", ".join(filter(None, (v.problem, placement, band and f"{band} periods")))


def degradation(library: Library) -> Figure | None:
    """A cell for each model, problem, way and distance: the geometric mean of its factors."""
    found = {row: cells for row, cells in factors(library).items() if any(d for _, d in cells)}
    if not found:
        return None
    rows = sorted(found)
    distances = sorted({d for cells in found.values() for _, d in cells if d or any(steps > 1 for _, _, steps in rows)})
    with style():
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("factors", ["#7fc8a9", "#f4f1e6", "#f2b872", "#e07a5f", "#c0504d"])
        figure, axes = sheet(0.55 + 0.145 * len(rows), 1, len(WAYS), sharey=True)
        for axis, way in zip(axes[0], WAYS, strict=True):
            cells = [[_mean(found[row].get((way, d)), d or row[2] > 1) for d in distances] for row in rows]
            shown = np.log2(np.array(cells))
            axis.imshow(shown, cmap=colours, vmin=-0.5, vmax=2, aspect="auto", interpolation="none")  # 0.7 to 4
            for i, j in np.argwhere(np.isfinite(shown)):
                text = f"{cells[i][j]:.1f}" if cells[i][j] < 9.95 else f"{cells[i][j]:.0f}"  # two digits fit a cell
                axis.text(j, i, text, ha="center", va="center", fontsize=5.2, color=DARK)
            axis.set(xlim=(-0.5, len(distances) - 0.5), ylim=(len(rows) - 0.5, -0.5))
            axis.set_xticks(range(len(distances)), [f"×{2**d}" if d >= 0 else f"÷{2**-d}" for d in distances])
            axis.tick_params(length=0, labelsize=6)
            axis.set_title(TITLES[way].replace("run", ""), fontsize=6.5)
            for i in range(1, len(rows)):
                if rows[i][0] != rows[i - 1][0]:
                    axis.axhline(i - 0.5, color=FAINT, lw=0.6)
        names = [f"{o} · {p}" + (f", {steps} steps" if steps > 1 else "") for o, p, steps in rows]
        axes[0, 0].set_yticks(range(len(rows)), names, fontsize=6)
        return figure


def _mean(values: list[float] | None, counts: object) -> float:
    """The geometric mean of the factors of a cell; NaN if it has none, or shows nothing: a model at its own grid."""
    return exp(sum(map(log, values)) / len(values)) if values and counts else nan


def octaves(library: Library) -> Figure | None:
    """Energy by octave at the finest grid of the truth and of errors: as trained, transferred, of several grids."""
    pairs = [
        (single, several)
        for names in (
            ("false-promise", "false-promise-multires-low"),
            ("false-promise-whole", "false-promise-multires"),
        )
        if (single := library.comparable(names[0])) is not None
        for several in (library.comparable(names[1]),)
    ]
    if not pairs:
        return None
    variants = [v for v in pairs[0][0].study.variants if v.operator == "fno"]
    with style():
        figure, axes = sheet(1.9 * len(pairs) + 0.3, len(pairs), len(variants), sharey=True)
        for line, (single, several) in zip(axes, pairs, strict=True):
            for axis, v in zip(line, variants, strict=True):
                _spectra(axis, single, several, single.study.variant(v.name))
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
        figure.supylabel("energy of an octave, of the truth's whole energy", fontsize=7)
        for axis in axes[-1]:
            axis.set_xlabel("periods per length")
        return figure


def _spectra(axis: Axes, single: Results, several: Results | None, v: Variant) -> None:
    curves = [("truth", single, v.name, AS_TRAINED, "truth"), ("as trained", single, v.name, AS_TRAINED, "error")]
    curves.append(("transferred", single, v.name, TRANSFERRED, "error"))
    if several is not None:
        curves.append(("trained at 16, 32, 64", several, f"{v.name}, equal samples", AS_TRAINED, "error"))
    looks = {"truth": (FAINT, ":"), "as trained": ("#D55E00", "-"), "transferred": ("#0072B2", "-")}
    for label, results, variant, way, part in curves:
        if energies := octave_means(results, variant, way, v.test[-1], part):
            colour, line = looks.get(label, ("#009E73", "--"))
            axis.plot(range(len(energies)), energies, line, color=colour, marker=".", label=label)
    axis.set(yscale="log", ylim=(1e-10, 3))
    count = v.test[-1].bit_length() - 1
    axis.set_xticks(range(count), ["<1", *(f"{2**k}–" for k in range(count - 1))], fontsize=6)
    axis.axvline(3.5, color=FAINT, lw=0.7)  # what the training grid holds
    kind = "3 periods" if v.problem_params.get("band") else "whole fields"
    axis.set_title(f"{v.problem}, {kind}, at {v.test[-1]}", fontsize=7)


def octave_means(results: Results, variant: str, way: str, grid: int, part: str) -> list[float]:
    """Mean over seeds of the energies by octave that the runs of a variant have stored; empty if there are none."""
    from quadnorm.lab.studies.records import read_json

    stored = []
    for r in results.runs:
        if r.run.variant.name == variant and r.record:
            found = read_json(evaluation_file(r.folder, way, grid))
            if found is not None and isinstance(found.get("octaves"), dict):
                stored.append(found["octaves"][part])
    return [sum(column) / len(column) for column in zip(*stored, strict=True)]
