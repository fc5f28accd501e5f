"""Pictures of samples: one row per sample, one column per channel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from quadnorm.problems.base import Problem, Resolution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(p: Problem, indices: Iterable[int] | int = 4, resolution: Resolution = 129, seed: int = 0) -> Figure:
    """A matplotlib figure of samples of a two-dimensional problem; every node is one pixel, centred on it."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no window system, no global state
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'quadnorm[bench]'") from error
    wanted = p.indices(indices)
    if p.dim != 2:
        raise ValueError(f"only two-dimensional problems can be drawn; {p.name} has dimension {p.dim}")
    x, y = p.sample(wanted, resolution, seed)
    names = [*p.inputs, *p.outputs]
    made = Figure(figsize=(3.2 * len(names), 2.8 * len(wanted) + 0.4), layout="constrained")
    axes = made.subplots(len(wanted), len(names), squeeze=False)
    edges = [e for nodes in p.nodes(resolution) for e in _edges(nodes[0], nodes[-1], len(nodes))]
    for row, index in enumerate(wanted):
        fields = [*x[row], *y[row]]
        for axis, name, field in zip(axes[row], names, fields, strict=True):
            low, high = float(field.min()), float(field.max())
            signed = low < 0 < high
            bound = max(-low, high)
            image = axis.imshow(
                field.T.numpy(),  # arrays are (x, y), pictures (row = y, column = x)
                origin="lower",
                extent=(edges[0], edges[1], edges[2], edges[3]),
                cmap="RdBu_r" if signed else "viridis",
                vmin=-bound if signed else low,
                vmax=bound if signed else high,
                interpolation="nearest",
            )
            made.colorbar(image, ax=axis, shrink=0.85)
            axis.set_title(f"{name}, sample {index}" if axis is axes[row][0] else name, fontsize=10)
            axis.set_xticks([0, 1])
            axis.set_yticks([0, 1])
    shape = "×".join(str(n) for n in p.shape(resolution))
    made.suptitle(f"{p.name}: {', '.join(p.inputs)} → {', '.join(p.outputs)}   ({shape}, {p.placement}, seed {seed})")
    return made


def draw(
    p: Problem, path: str | Path, indices: Iterable[int] | int = 4, resolution: Resolution = 129, seed: int = 0
) -> Path:
    """Write samples of a problem to a PNG file (or any format that matplotlib knows from the suffix)."""
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure(p, indices, resolution, seed).savefig(out, dpi=110)
    return out


def _edges(first: float, last: float, n: int) -> tuple[float, float]:
    half = (last - first) / (n - 1) / 2 if n > 1 else math.nan
    return first - half, last + half
