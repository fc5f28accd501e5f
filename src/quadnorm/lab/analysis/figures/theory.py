"""Figures of weights and of the biases that ``quadnorm.lab.theory`` measures on meshes; they need no records."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadnorm.lab.analysis.figures.mechanism import QUADRATURE, UNIFORM, nonuniform_mechanism
from quadnorm.lab.analysis.figures.style import FAINT, INK, sheet, style
from quadnorm.lab.theory.bias import Bias, Sweep, bias
from quadnorm.lab.theory.families import FAMILIES
from quadnorm.lab.theory.meshes import refined, tensor
from quadnorm.lab.theory.refinement import SHOWN, at
from quadnorm.measures import Anchored, Blend, Grid

__all__ = ["bias_convergence", "nonuniform_bias", "nonuniform_mechanism", "schematic"]

BLENDED, ANCHORED = "#0072B2", "#CC79A7"
BOTH = (("counting", "equal weights", UNIFORM, "o"), ("quadrature", "control volumes", QUADRATURE, "s"))
# n of each family that gives about 4000 samples, so that families can be compared.
ALIKE = {"tetrahedra": 12, "voronoi-3d": 13, "triangle-cells": 45, "latlon": 45, "latlon-cells": 45}
TRACED = {"boundary-refined": BLENDED, "chebyshev": ANCHORED, "even": FAINT}
CLAIMS = {"boundary-refined": 1500, "chebyshev": 200}  # the paper's factors, "more than"


def schematic() -> Any:
    """The weights that each norm gives to the samples, and how their boundary mass changes with the grid."""
    with style():
        figure, axes = sheet(4.3, 2, 3)
        x = refined(9, 1.6)
        volume = tensor(x, x).weights.reshape(9, 9)
        equal = np.full_like(volume, 1 / volume.size)
        panels = (
            ("equal weights 1/N\nLayerNorm, InstanceNorm, …", equal, UNIFORM),
            ("control volumes |Vᵢ|\nQuadNorm", volume, QUADRATURE),
            ("0.3 · equal + 0.7 · volumes\nBlendQuadNorm", 0.3 * equal + 0.7 * volume, BLENDED),
        )
        edges = np.concatenate([[0], (x[1:] + x[:-1]) / 2, [1]])
        for axis, (title, w, colour) in zip(axes[0], panels, strict=True):
            axis.set_title(title, fontweight="normal")
            for e in edges:
                axis.plot([e, e], [0, 1], color=FAINT, lw=0.4)
                axis.plot([0, 1], [e, e], color=FAINT, lw=0.4)
            xx, yy = np.meshgrid(x, x, indexing="ij")
            axis.scatter(xx, yy, s=1900 * w, color=colour, alpha=0.75, lw=0, clip_on=False)
            axis.set(aspect="equal", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[])
            for side in axis.spines.values():
                side.set_visible(False)
        _boundary_mass(figure, axes[1])
        return figure


def _boundary_mass(figure: Any, row: Any) -> None:
    grid = row[0].get_gridspec()
    for axis in row:
        axis.remove()
    axis = figure.add_subplot(grid[1, :])
    n = np.array([9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257])
    lines: tuple[tuple[str, Any, str], ...] = (
        ("equal weights: 1/n", Grid("counting"), UNIFORM),
        ("blend: 0.3/n", Blend(0.3, Grid("trapezoid")), BLENDED),
        ("quadrature: 0", Grid("trapezoid"), QUADRATURE),
        ("anchored at 33: 1/33", Anchored((33,)), ANCHORED),
    )
    shown = [label for label, _, _ in lines]
    for label, measure, colour in lines:
        mass = []
        for k in n:
            end = float(measure.weights((int(k),))[0])
            h = 1 / (k - 1)
            mass.append((end - h / 2) / (0.5 - h / 2))  # w = (1 − m)·trapezoid + m·(ends)
        axis.plot(n, mass, color=colour, marker="o", ms=3)
        at = shown.index(label)
        low = (6, -10) if label.endswith("0") else (6, 4)
        axis.annotate(label, (n[2 * at], mass[2 * at]), low, textcoords="offset points", color=colour, fontsize=7.5)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="points per axis n, ends included", xticks=[9, 17, 33, 65, 129, 257], xlim=(8.5, 270))
    axis.set_xticklabels(["9", "17", "33", "65", "129", "257"])
    axis.set_title("mass on the boundary of one axis: what moves with the grid", fontweight="normal")


def bias_convergence(_: object = None) -> Any:
    """Bias of the mean against the strength of refinement, the factor by type of mesh, and how it grows with n."""
    with style():
        figure, axes = sheet(2.9, 1, 3)
        left, middle, right = axes[0]
        strengths = np.linspace(0, 4, 21)
        spacings = [np.diff(refined(SHOWN, float(s))) for s in strengths]
        swept = [at(SHOWN, float(s)) for s in strengths]
        uneven = [float(d.max() / d.min()) for d in spacings]
        for weighting, label, colour, _marker in BOTH:
            left.loglog(uneven, [getattr(b, weighting).mean for b in swept], color=colour, label=label)
        left.set(xlabel="largest over smallest spacing", ylabel="bias of the mean / σ", ylim=(2e-4, 20))
        left.set_title("64², boundary-refined")
        left.legend(loc="upper left")
        _factor_by_family(middle)
        for name, colour in TRACED.items():
            _factors(right, FAMILIES[name].sweep(), name, colour)
        right.set(xlabel="points per axis n", xlim=(14, 300), ylim=(8, 3e4))
        right.set_xticks([17, 65, 257], ["17", "65", "257"])
        right.minorticks_off()
        right.set_title("factor against n")
        right.annotate("dotted: the paper's", (1, 0), (0, 4), "axes fraction", "offset points", ha="right", fontsize=7)
        right.legend(loc="upper left", fontsize=7)
        return figure


def _factor_by_family(axis: Any) -> None:
    """Bars: bias with equal weights over bias with volumes, one mesh of about 4000 samples from each family."""
    factors = {name: biases(name).factor("mean") for name in FAMILIES}
    for k, (name, factor) in enumerate(factors.items()):
        axis.barh(k, factor, 0.62, color=TRACED.get(name, QUADRATURE))
        axis.annotate(f"{factor:.0f}×", (factor, k), (2, 0), textcoords="offset points", va="center", fontsize=6.5)
    for name, claimed in CLAIMS.items():
        k = list(factors).index(name)
        axis.plot([claimed, claimed], [k - 0.45, k + 0.45], color=INK, lw=1, ls=":")
    axis.set_xscale("log")
    axis.set(xlim=(5, 2e4), xlabel="equal weights / volumes")
    axis.set_yticks(range(len(factors)), list(factors), fontsize=6.5)
    axis.invert_yaxis()
    axis.set_title("factor by mesh type")


def _factors(axis: Any, sweep: Sweep, name: str, colour: str) -> None:
    """The factor against n; dotted: the paper's factor, for which the paper gives no n."""
    n = [1 + round(1 / h) for h in sweep.h]
    axis.loglog(n, sweep.factors("mean"), color=colour, marker="o", ms=3, label=name)
    if name in CLAIMS:
        axis.axhline(CLAIMS[name], color=colour, lw=0.8, ls=":")
        axis.annotate(
            f"> {CLAIMS[name]}×", (300, CLAIMS[name]), (2, 0), textcoords="offset points", va="center", color=colour,
            fontsize=7,
        )  # fmt: skip


def biases(name: str) -> Bias:
    """The family's biases on one mesh of about 4000 samples."""
    family = FAMILIES[name]
    points, weights, _ = family.make(ALIKE.get(name, SHOWN), np.random.default_rng(0))
    return bias(points, weights, family.field)


def nonuniform_bias(_: object = None) -> Any:
    """Bias of mean and output on every family, with equal weights and with volumes, and the factor between them."""
    with style():
        figure, axes = sheet(3.3, 1, 2, sharey=True)
        by_family = {name: biases(name) for name in FAMILIES}
        for axis, quantity in zip(axes[0], ("mean", "output"), strict=True):
            for k, b in enumerate(by_family.values()):
                ends = [getattr(getattr(b, weighting), quantity) for weighting, *_ in BOTH]
                axis.plot(ends, [k, k], color=FAINT, lw=0.8, zorder=1)
                for value, (_weighting, label, colour, marker) in zip(ends, BOTH, strict=True):
                    axis.plot(value, k, marker, color=colour, ms=5, label=label if k == 0 else None)
                axis.annotate(
                    f"{b.factor(quantity):.0f}×", (1, k), (-2, 0), ("axes fraction", "data"), "offset points",
                    ha="right", va="center", fontsize=7,
                )  # fmt: skip
            axis.set_xscale("log")
            axis.set(xlim=(1e-4, 60))
            axis.set_title("mean, in units of σ" if quantity == "mean" else "output of the layer, largest error")
        axes[0, 0].set_yticks(range(len(by_family)), list(by_family))
        axes[0, 0].invert_yaxis()
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure
