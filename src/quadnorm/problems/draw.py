"""Pictures of samples: one row per sample, one column per channel."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from quadnorm._files import write_atomic
from quadnorm._text import drawable
from quadnorm.problems.base import Problem, Resolution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(p: Problem, indices: Iterable[int] | int = 4, resolution: Resolution = 129, seed: int = 0) -> Figure:
    """A matplotlib figure of samples: in one dimension lines, in two every node of a grid is a pixel, centred on it."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no window system, no global state
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'quadnorm[bench]'") from error
    wanted = p.indices(indices)
    on_mesh = p.placement == "points"
    if p.dim > (3 if on_mesh else 2):
        raise ValueError(f"only problems in one or two dimensions can be drawn; {p.name} has dimension {p.dim}")
    x, y = p.sample(wanted, resolution, seed)
    skipped = ("x", "y", "z") if on_mesh else ()  # the coordinates are channels, but not fields to draw
    names = [name for name in (*p.inputs, *p.outputs) if name not in skipped]
    sheet = Figure(figsize=(3.2 * len(names), 2.8 * len(wanted) + 0.4), layout="constrained")
    axes = sheet.subplots(len(wanted), len(names), squeeze=False)
    for row, index in enumerate(wanted):
        fields = dict(zip((*p.inputs, *p.outputs), (*x[row], *y[row]), strict=True))
        for axis, name in zip(axes[row], names, strict=True):
            axis.set_title(drawable(name) + (f", sample {index}" if axis is axes[row][0] else ""), fontsize=10)
            if on_mesh and p.dim == 3:
                sheet.colorbar(_on_sphere(axis, fields, name), ax=axis, shrink=0.85)
                continue
            axis.set_xticks([0, 1])
            if p.dim == 1:
                nodes = fields["x"].numpy() if on_mesh else p.nodes(resolution)[0]
                axis.plot(nodes, fields[name].numpy(), marker="." if on_mesh else "")
                continue
            axis.set_yticks([0, 1])
            image = _on_mesh(axis, fields, name) if on_mesh else _on_grid(axis, fields[name], p.nodes(resolution))
            sheet.colorbar(image, ax=axis, shrink=0.85)
    shape = "×".join(str(n) for n in p.shape(resolution))
    nodes = p.placement if isinstance(p.placement, str) else ", ".join(p.placement)
    what = drawable(f"{', '.join(p.inputs)} → {', '.join(p.outputs)}")
    sheet.suptitle(f"{p.name}: {what}   ({shape}, {nodes}, seed {seed})")
    return sheet


def draw(
    p: Problem, path: str | Path, indices: Iterable[int] | int = 4, resolution: Resolution = 129, seed: int = 0
) -> Path:
    """Write samples of a problem to a PNG file (or any format that matplotlib knows from the suffix)."""
    out = Path(path)
    ending = out.suffix[1:].lower()
    if out.is_dir() or not ending:
        raise ValueError(f"cannot draw to {out}: give the name of a file with an ending, such as {out}.png")
    picture = figure(p, indices, resolution, seed)
    buffer = io.BytesIO()
    try:
        picture.savefig(buffer, dpi=110, format=ending)
    except ValueError as error:  # an ending that matplotlib does not know
        raise ValueError(f"cannot draw to {out}: {error}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, buffer.getvalue(), "the picture")
    return out


def _colours(field: Tensor) -> dict[str, Any]:
    finite = field[field.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
    bound = max(-low, high)
    if low < 0 < high:
        return {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound}
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def _on_grid(axis: Any, field: Tensor, axes: Sequence[npt.NDArray[np.float64]]) -> Any:
    extent = tuple(e for nodes in axes for e in _edges(nodes[0], nodes[-1], len(nodes)))
    # arrays are (x, y), pictures (row = y, column = x)
    return axis.imshow(field.T.numpy(), origin="lower", extent=extent, interpolation="nearest", **_colours(field))


def _on_mesh(axis: Any, fields: Mapping[str, Tensor], name: str) -> Any:
    """Draw a field with colours interpolated between the vertices; for the volume, draw the mesh too."""
    from matplotlib.tri import Triangulation

    mesh = Triangulation(fields["x"].numpy(), fields["y"].numpy())
    image = axis.tripcolor(mesh, fields[name].numpy(), shading="gouraud", **_colours(fields[name]))
    if name == "volume" and len(mesh.x) <= 64**2:  # the lines of a finer mesh would hide the colours
        axis.triplot(mesh, color="white", lw=0.3)
    axis.set_aspect("equal")
    return image


def _on_sphere(axis: Any, fields: Mapping[str, Tensor], name: str) -> Any:
    """Points by longitude and latitude; those that a mask leaves out are not drawn."""
    there = (fields["volume"] > 0).numpy()
    x, y, z = (fields[a].double().numpy()[there] for a in "xyz")
    lon, lat = np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(np.clip(z, -1, 1)))
    size = min(40.0, 2e4 / max(len(lon), 1))
    values = fields[name][fields["volume"] > 0]
    axis.set_xlabel("longitude", fontsize=8)
    axis.set_ylabel("latitude", fontsize=8)
    return axis.scatter(lon, lat, c=values.numpy(), s=size, marker="s", linewidths=0, **_colours(values))


def _edges(first: float, last: float, n: int) -> tuple[float, float]:
    half = (last - first) / (n - 1) / 2 if n > 1 else math.nan
    return first - half, last + half
