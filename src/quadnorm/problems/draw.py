"""Pictures of samples: one row per sample, one column per channel."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
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

_MOST_PANELS = 6  # of a row


def figure(p: Problem, indices: Iterable[int] | int = 4, resolution: Resolution = 129, seed: int = 0) -> Figure:
    """A matplotlib figure of samples: in one dimension lines, in two every node of a grid is a pixel, centred on it.

    Axes are those of the nodes' coordinates, longitude to the right and latitude upwards. An output that is the same as
    an input is drawn once, and of many channels the first.
    """
    try:
        from matplotlib.figure import Figure  # not pyplot: no window system, no global state
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'quadnorm[bench]'") from error
    wanted = p.indices(indices)
    on_mesh = p.placement == "points"
    if p.dim > (3 if on_mesh else 2):
        raise ValueError(f"only problems in one or two dimensions can be drawn; {p.name} has dimension {p.dim}")
    x, y = p.sample(wanted, resolution, seed)
    skipped = ("x", "y", "z")[: p.dim] if on_mesh else ()  # the coordinates are channels, but not fields to draw
    panels = [(name, x[:, k]) for k, name in enumerate(p.inputs) if k not in range(1, 1 + len(skipped))]
    known = dict(panels)
    for k, name in enumerate(p.outputs):
        same = known.get(name)
        if same is None or same.shape != y[:, k].shape or not y[:, k].allclose(same, 0, 0, equal_nan=True):
            panels.append((name, y[:, k]))
    count, panels = len(panels), panels[:_MOST_PANELS]
    sheet = Figure(figsize=(max(3.2 * len(panels), 6.4), 2.8 * len(wanted) + 0.4), layout="constrained")
    axes = sheet.subplots(len(wanted), len(panels), squeeze=False)
    lines = [] if on_mesh else _lines(p, resolution)
    for row, index in enumerate(wanted):
        for axis, (name, fields) in zip(axes[row], panels, strict=True):
            axis.set_title(drawable(name) + (f", sample {index}" if axis is axes[row][0] else ""), fontsize=10)
            if p.dim == 1:
                nodes = x[row, 1].numpy() if on_mesh else lines[0][1]
                axis.plot(nodes, fields[row].numpy(), marker="." if on_mesh else "")
                axis.set_xlabel("" if on_mesh or lines[0][0] == "x" else drawable(lines[0][0]), fontsize=8)
                continue
            if lines:
                image = _on_grid(axis, fields[row], lines)
            else:
                drawn = _on_sphere if p.dim == 3 else _on_mesh
                image = drawn(axis, x[row, : 1 + p.dim], fields[row], name == "volume")
            sheet.colorbar(image, ax=axis, shrink=0.85)
    shape = "×".join(str(n) for n in p.shape(resolution))
    nodes = p.placement if isinstance(p.placement, str) else ", ".join(p.placement)
    names = [name for name in p.inputs if name not in skipped] if on_mesh else p.inputs
    what = drawable(f"{', '.join(names)} → {', '.join(p.outputs)}") if count <= _MOST_PANELS else f"{count} fields"
    sheet.suptitle(f"{p.name}: {what}   ({shape}, {nodes}, seed {seed})")
    return sheet


def _lines(p: Problem, resolution: Resolution) -> list[tuple[str, Any]]:
    """The name and the nodes of each axis."""
    dims, _, where = p.coordinates(resolution)
    return [(d, np.asarray(where[d][1])) for d in dims]


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


def _on_grid(axis: Any, field: Tensor, lines: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> Any:
    values = field.numpy()  # (first axis, second axis); pictures are (row = up, column = right)
    if "longitude" in lines[1][0] or "latitude" in lines[0][0]:
        lines = lines[::-1]
    else:
        values = values.T
    extent: list[float] = []
    for side, (name, nodes) in enumerate(lines):
        if len(nodes) > 1 and nodes[0] > nodes[-1]:
            values, nodes = np.flip(values, 1 - side), nodes[::-1]
        extent += _edges(nodes[0], nodes[-1], len(nodes))
        if nodes[0] >= 0 and nodes[-1] <= 1:
            (axis.set_yticks if side else axis.set_xticks)([0, 1])
        if name not in ("x", "y"):
            (axis.set_ylabel if side else axis.set_xlabel)(drawable(name), fontsize=8)
    (left, right, low, high), names = extent, {name for name, _ in lines}
    aspect = "equal" if names == {"x", "y"} and 0.4 <= (right - left) / (high - low) <= 3 else "auto"
    shown = {"origin": "lower", "interpolation": "nearest", "aspect": aspect}
    return axis.imshow(values, extent=(left, right, low, high), **shown, **_colours(field))


def _on_mesh(axis: Any, points: Tensor, field: Tensor, lines: bool) -> Any:
    """Draw a field with colours interpolated between the vertices; for the volume, draw the mesh's ``lines`` too."""
    from matplotlib.tri import Triangulation

    mesh = Triangulation(points[1].numpy(), points[2].numpy())
    image = axis.tripcolor(mesh, field.numpy(), shading="gouraud", **_colours(field))
    if lines and len(mesh.x) <= 64**2:  # the lines of a finer mesh would hide the colours
        axis.triplot(mesh, color="white", lw=0.3)
    axis.set_aspect("equal")
    axis.set_xticks([0, 1])
    axis.set_yticks([0, 1])
    return image


def _on_sphere(axis: Any, points: Tensor, field: Tensor, _: bool) -> Any:
    """Points by longitude and latitude; those that a mask leaves out are not drawn."""
    there = points[0] > 0
    x, y, z = points[1:, there].double().numpy()
    lon, lat = np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(np.clip(z, -1, 1)))
    size = min(250.0, 2e4 / max(len(lon), 1))
    axis.set_xlabel("longitude", fontsize=8)
    axis.set_ylabel("latitude", fontsize=8)
    return axis.scatter(lon, lat, c=field[there].numpy(), s=size, marker="s", linewidths=0, **_colours(field[there]))


def _edges(first: float, last: float, n: int) -> tuple[float, float]:
    half = (last - first) / (n - 1) / 2 if n > 1 else 0.5
    return float(first) - half, float(last) + half
