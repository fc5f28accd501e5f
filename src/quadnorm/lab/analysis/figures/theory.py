"""Figures of weights and of the biases that ``quadnorm.lab.theory`` measures on meshes; they need no records."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from quadnorm.lab.analysis.figures.style import FAINT, INK, QUADRATURE, UNIFORM, WIDTH, sheet, style
from quadnorm.lab.theory.bias import Array, Bias, Sweep, bias
from quadnorm.lab.theory.families import FAMILIES
from quadnorm.lab.theory.meshes import refined, tensor
from quadnorm.lab.theory.refinement import SHOWN, STRIP, Mechanism, at, mechanism
from quadnorm.measures import Anchored, Blend, Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bias_convergence", "nonuniform_bias", "nonuniform_mechanism", "schematic"]

BLENDED, ANCHORED = "#0072B2", "#CC79A7"
BOTH = (("counting", "equal weights", UNIFORM, "o"), ("quadrature", "control volumes", QUADRATURE, "s"))
# n of each family that gives about 4000 samples, so that families can be compared.
ALIKE = {"tetrahedra": 12, "voronoi-3d": 13, "triangle-cells": 45, "latlon": 45, "latlon-cells": 45}
TRACED = {"boundary-refined": BLENDED, "chebyshev": ANCHORED, "even": FAINT}
CLAIMS = {"boundary-refined": 1500, "chebyshev": 200}  # the paper's factors, "more than"


def schematic(_: object = None) -> Figure:
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


def _boundary_mass(figure: Figure, row: Any) -> None:
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


def bias_convergence(_: object = None) -> Figure:
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


def _factor_by_family(axis: Axes) -> None:
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


def _factors(axis: Axes, sweep: Sweep, name: str, colour: str) -> None:
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


def nonuniform_bias(_: object = None) -> Figure:
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


DARK = "#111111"  # text on an image: the usual ink colour turns light on a dark page, but the image stays the same
_UNIT = 1e-4  # of weights and contributions: 1/N is 2.44 of it on 64² nodes


def nonuniform_mechanism(_: object = None) -> Figure:
    """Control volumes, field and mismatch of the weights; contributions of each node; the means that they add up to."""
    from matplotlib.figure import Figure

    shares_of = mechanism()
    with style():
        figure = Figure(figsize=(WIDTH, 5.9), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(4.5, 1.35))
        axes = above.subplots(2, 3)
        top = float(shares_of.volume_shares.max()) / _UNIT
        panels: tuple[tuple[str, Array, str, tuple[float, float]], ...] = (
            ("a  control volume |V|", shares_of.volume / _UNIT, "viridis", (0, float(shares_of.volume.max()) / _UNIT)),
            ("b  field u = sin πx · sin πy", shares_of.field, "viridis", (0, 1)),
            ("c  mismatch 1/N − |V|", shares_of.mismatch / _UNIT, "PuOr_r", _around(shares_of.mismatch)),
            ("d  contributions u/N", shares_of.equal_shares / _UNIT, "viridis", (0, top)),
            ("e  contributions |V| u", shares_of.volume_shares / _UNIT, "viridis", (0, top)),
            ("f  difference d − e", shares_of.difference / _UNIT, "PuOr_r", _around(shares_of.difference)),
        )
        for axis, (title, values, colours, limits) in zip(axes.flat, panels, strict=True):
            _panel(above, axis, shares_of, title, values, colours, limits)
        # The edges of the cells, which are dense at the boundary.
        axes[0, 0].vlines(shares_of.edges, 0, 1, color="white", lw=0.2, alpha=0.7)
        axes[0, 0].hlines(shares_of.edges, 0, 1, color="white", lw=0.2, alpha=0.7)
        strip = shares_of.strip()
        parts = (
            (axes[1, 0], shares_of.equal_shares, "white", "white", "{:.3f}"),
            (axes[1, 1], shares_of.volume_shares, "white", DARK, "{:.3f}"),
            (axes[1, 2], shares_of.difference, DARK, "white", "{:+.3f}"),
        )
        for axis, values, outside, inside, form in parts:
            near, far = (form.format(float(values[at].sum())).replace("-", "−") for at in (strip, ~strip))
            _sums(axis, near, far, outside, inside)
        _totals(below, shares_of)
        return figure


def _around(values: Array) -> tuple[float, float]:
    """Colour limits that are symmetric around zero, so that both signs have the same scale."""
    top = float(abs(values).max()) / _UNIT
    return -top, top


def _panel(
    figure: Figure,
    axis: Axes,
    shares_of: Mechanism,
    title: str,
    values: Array,
    colours: str,
    limits: tuple[float, float],
) -> None:
    image = axis.pcolormesh(
        shares_of.edges, shares_of.edges, values.T, cmap=colours, vmin=limits[0], vmax=limits[1], rasterized=True
    )
    bar = figure.colorbar(image, ax=axis, shrink=0.85, aspect=22, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2)
    if not title.startswith("b"):
        bar.ax.set_title("×10⁻⁴", fontsize=7, fontweight="normal", loc="left", pad=4)
    axis.set(aspect="equal", xticks=[0, 1], yticks=[0, 1])
    axis.tick_params(length=2)
    axis.set_title(title, fontweight="normal", fontsize=8)


def _sums(axis: Axes, strip: str, rest: str, outside: str, inside: str) -> None:
    """Write the sums over the boundary strip and over the rest; two colours, for dark and light background."""
    from matplotlib.patches import Rectangle

    side = 1 - 2 * STRIP
    axis.add_patch(Rectangle((STRIP, STRIP), side, side, fill=False, ec=outside, lw=0.8, ls=(0, (3, 2))))
    axis.text(0.5, STRIP / 2, strip, color=outside, ha="center", va="center", fontsize=7)
    axis.text(0.5, 0.5, rest, color=inside, ha="center", va="center", fontsize=8)


def _totals(figure: Figure, shares_of: Mechanism) -> None:
    """Shares of nodes and area in the strip, and the means whose contributions panels d and e show."""
    shares, means = figure.subplots(1, 2, width_ratios=(1, 1.6))
    strip = shares_of.strip()
    inner = (2 * cos(pi * STRIP) / pi) ** 2  # ∫∫ u over the inner square
    rows = (
        ("equal weights", UNIFORM, float(shares_of.equal_shares[strip].sum()), shares_of.equal),
        ("control volumes", QUADRATURE, float(shares_of.volume_shares[strip].sum()), shares_of.volumes),
        ("exact, 4/π²", FAINT, shares_of.exact - inner, shares_of.exact),
    )
    for k, (label, colour, part, total) in enumerate(rows):
        means.barh(k, part, color=colour, alpha=0.45, height=0.62)
        means.barh(k, total - part, left=part, color=colour, height=0.62)
        means.text(total + 0.006, k, f"{total:.4f}" if k else f"{total:.3f}", va="center", fontsize=8)
        means.text(-0.006, k, label, va="center", ha="right", fontsize=8)
    means.axvline(shares_of.exact, color=INK, lw=0.8, ls=(0, (3, 2)))
    means.set(yticks=[], xlim=(0, 0.5), ylim=(2.6, -0.6), xticks=[0, 0.1, 0.2, 0.3, 0.4])
    means.set_title("h  mean (pale: the strip's part)", fontweight="normal", fontsize=8)
    for k, (label, colour, part) in enumerate(
        (("of the nodes", UNIFORM, float(strip.mean())), ("of the area", QUADRATURE, 1 - (1 - 2 * STRIP) ** 2))
    ):
        shares.barh(k, part, color=colour, alpha=0.45, height=0.55)
        shares.text(part + 0.02, k, f"{part:.0%} {label}", va="center", fontsize=8)
    shares.set(yticks=[], xlim=(0, 1.25), ylim=(1.6, -0.6), xticks=[0, 0.5, 1])
    shares.set_xticklabels(["0", "½", "1"])
    shares.set_title(f"g  the strip: within {STRIP:g} of the boundary", fontweight="normal", fontsize=8)
