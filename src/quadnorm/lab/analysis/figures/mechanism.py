"""The mechanism figure: why equal weights miss the mean on a boundary-refined mesh."""

from __future__ import annotations

from math import cos, pi
from typing import Any

from quadnorm.lab.analysis.figures.style import FAINT, INK, WIDTH, style
from quadnorm.lab.theory.bias import Array
from quadnorm.lab.theory.refinement import STRIP, Mechanism, mechanism

UNIFORM, QUADRATURE = "#D55E00", "#009E73"
DARK = "#111111"  # text on an image: the usual ink colour turns light on a dark page, but the image stays the same
_UNIT = 1e-4  # of weights and contributions: 1/N is 2.44 of it on 64² nodes


def nonuniform_mechanism(_: object = None) -> Any:
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
    figure: Any, axis: Any, shares_of: Mechanism, title: str, values: Array, colours: str, limits: tuple[float, float]
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


def _sums(axis: Any, strip: str, rest: str, outside: str, inside: str) -> None:
    """Write the sums over the boundary strip and over the rest; two colours, for dark and light background."""
    from matplotlib.patches import Rectangle

    side = 1 - 2 * STRIP
    axis.add_patch(Rectangle((STRIP, STRIP), side, side, fill=False, ec=outside, lw=0.8, ls=(0, (3, 2))))
    axis.text(0.5, STRIP / 2, strip, color=outside, ha="center", va="center", fontsize=7)
    axis.text(0.5, 0.5, rest, color=inside, ha="center", va="center", fontsize=8)


def _totals(figure: Any, shares_of: Mechanism) -> None:
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
