"""Figures of the measures themselves: no records, only ``quadnorm.measures``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadnorm.analysis.figures_style import FAINT, INK, sheet, style
from quadnorm.measures import Anchored, Blend, Grid

Array = NDArray[np.float64]
UNIFORM, QUADRATURE, BLENDED, ANCHORED = "#D55E00", "#009E73", "#0072B2", "#CC79A7"
EXACT = 4 / np.pi**2  # ∫∫ sin πx · sin πy over the unit square


def field(x: Array, y: Array) -> Array:
    """Sin πx · sin πy at the nodes of a tensor grid, (n, m): zero on the boundary, as the solutions are."""
    return np.sin(np.pi * x)[:, None] * np.sin(np.pi * y)[None, :]


def refined(n: int, strength: float) -> Array:
    """Nodes on [0, 1] crowded at both ends: ½(1 + tanh(β(2s−1))/tanh β); even for strength 0."""
    s = np.linspace(0, 1, n)
    return s if strength == 0 else 0.5 * (1 + np.tanh(strength * (2 * s - 1)) / np.tanh(strength))


def _jittered(n: int) -> Array:
    x = np.linspace(0, 1, n)
    x[1:-1] += np.random.default_rng(0).uniform(-0.35, 0.35, n - 2) / (n - 1)
    return x


MESHES: dict[str, Callable[[int], Array]] = {
    "even": lambda n: np.linspace(0, 1, n),
    "jittered": _jittered,
    "one end": lambda n: np.linspace(0, 1, n) ** 2,
    "Chebyshev": lambda n: 0.5 * (1 - np.cos(np.pi * np.linspace(0, 1, n))),
    "both ends": lambda n: refined(n, 3.0),
}


def weights(x: Array) -> Array:
    """Control volumes of the tensor grid x × x, as QuadNorm takes them: (n, n), sum 1."""
    measure = Grid.from_coordinates(x, x, bounds=((0.0, 1.0), (0.0, 1.0)))
    made: Array = measure.weights((x.size, x.size)).numpy()
    return made


def biases(x: Array) -> tuple[float, float]:
    """Relative error of the mean of :func:`field` with equal weights, and with control volumes."""
    u = field(x, x)
    return abs(float(u.mean()) / EXACT - 1), abs(float((weights(x) * u).sum()) / EXACT - 1)


def schematic() -> Any:
    """What each norm weighs the samples with, and what of it moves with the grid."""
    with style():
        figure, axes = sheet(4.3, 2, 3)
        x = refined(9, 1.6)
        volume = weights(x)
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


def bias_convergence() -> Any:
    """Bias of the mean against the mesh's unevenness, by mesh, and against n."""
    with style():
        figure, axes = sheet(2.5, 1, 3)
        left, middle, right = axes[0]
        sweep = np.linspace(0, 4, 21)
        meshes = [refined(64, float(b)) for b in sweep]
        uneven = [float(np.diff(x).max() / np.diff(x).min()) for x in meshes]
        found = np.array([biases(x) for x in meshes])
        left.loglog(uneven, found[:, 0], color=UNIFORM, label="equal weights")
        left.loglog(uneven, found[:, 1], color=QUADRATURE, label="control volumes")
        left.set(xlabel="largest over smallest spacing", ylabel="relative bias of the mean")
        left.set_title("64², refined at both ends")
        left.legend()
        factors = {name: np.divide(*biases(make(64))) for name, make in MESHES.items()}
        _bars(middle, factors, QUADRATURE, "{:.0f}×")
        middle.set_title("bias divided by")
        sizes = np.array([17, 33, 65, 129, 257])
        table = np.array([biases(np.linspace(0, 1, n)) for n in sizes])
        for k, colour in enumerate((UNIFORM, QUADRATURE)):
            right.loglog(1 / (sizes - 1), table[:, k], color=colour, marker="o", ms=3)
            p = np.log(table[-1, k] / table[0, k]) / np.log((sizes[0] - 1) / (sizes[-1] - 1))
            right.annotate(
                f"order {p:.2f}", (1 / (sizes[2] - 1), table[2, k]), (4, -10), textcoords="offset points", color=colour
            )
        right.set(xlabel="spacing h")
        right.set_xticks([1 / 16, 1 / 64, 1 / 256], ["1/16", "1/64", "1/256"])
        right.minorticks_off()
        right.set_title("even grid, ends included")
        return figure


def nonuniform_bias() -> Any:
    """Bias of the mean on five meshes of 64², and what control volumes gain."""
    with style():
        figure, axes = sheet(2.4, 1, 2)
        found = {name: biases(make(64)) for name, make in MESHES.items()}
        place = np.arange(len(found))
        for k, (label, colour) in enumerate((("equal weights", UNIFORM), ("control volumes", QUADRATURE))):
            axes[0, 0].bar(place + (k - 0.5) * 0.38, [v[k] for v in found.values()], 0.36, color=colour, label=label)
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_xticks(place, list(found), fontsize=6.5)
        axes[0, 0].set(ylabel="relative bias of the mean")
        axes[0, 0].legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        _bars(axes[0, 1], {name: a / b for name, (a, b) in found.items()}, QUADRATURE, "{:.0f}×")
        axes[0, 1].set_title("bias divided by")
        return figure


def _bars(axis: Any, values: dict[str, float], colour: str, form: str) -> None:
    axis.barh(range(len(values)), list(values.values()), color=colour)
    axis.set_xscale("log")
    axis.set_yticks(range(len(values)), list(values))
    axis.invert_yaxis()
    for k, v in enumerate(values.values()):
        axis.annotate(form.format(v), (v, k), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axis.set_xlim(right=max(values.values()) * 6)


def nonuniform_mechanism() -> Any:
    """Why equal weights miss the mean on a boundary-refined mesh: volumes, field, mismatch, and contributions."""
    from matplotlib.colors import LogNorm, TwoSlopeNorm

    with style():
        figure, axes = sheet(4.5, 2, 3)
        x = refined(64, 2.2)
        u, w = field(x, x), weights(x)
        count = 1 / u.size
        equal, volumes = float(u.mean()), float((u * w).sum())
        mismatch, difference = count - w, count * u - w * u
        edges = np.concatenate([[0], (x[1:] + x[:-1]) / 2, [1]])
        top = max((count * u).max(), (w * u).max())
        panels: tuple[tuple[str, Array, Any, str], ...] = (
            ("control volume of each node", w, LogNorm(w.min(), w.max()), "viridis"),
            ("field sin πx · sin πy", u, None, "viridis"),
            ("1/N − volume", mismatch, TwoSlopeNorm(0, mismatch.min(), mismatch.max()), "PuOr_r"),
            (f"share of the mean, equal: {equal:.3f}", count * u, LogNorm(top * 1e-3, top), "viridis"),
            (f"volumes: {volumes:.3f}, exact {EXACT:.3f}", w * u, LogNorm(top * 1e-3, top), "viridis"),
            ("their difference", difference, TwoSlopeNorm(0, difference.min(), difference.max()), "PuOr_r"),
        )
        for axis, (title, values, norm, colours) in zip(axes.flat, panels, strict=True):
            shown = np.maximum(values, top * 1e-3) if isinstance(norm, LogNorm) and title[0] != "c" else values
            image = axis.pcolormesh(edges, edges, shown.T, norm=norm, cmap=colours, rasterized=True)
            bar = figure.colorbar(image, ax=axis, shrink=0.8, aspect=25, pad=0.02)
            bar.ax.tick_params(labelsize=6)
            if isinstance(norm, TwoSlopeNorm):
                ends = (values.min(), 0, values.max())
                bar.set_ticks(ends, labels=[f"{v:.0e}" if v else "0" for v in ends])
            bar.outline.set_visible(False)
            axis.set(aspect="equal", xticks=[0, 1], yticks=[0, 1])
            axis.set_title(title, fontweight="normal", fontsize=7.5, color=INK)
        return figure
