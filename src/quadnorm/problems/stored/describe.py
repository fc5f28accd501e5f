"""A description of a file of fields, for printing."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._text import html_table
from quadnorm.problems.files import Field, FieldFile, read_fields
from quadnorm.problems.files.mat import MAT_NODES
from quadnorm.problems.files.nodes import PLACEMENTS

SOME = 64  # samples that the ranges are taken from
AXES = {"n": "sample", "t": "time", "c": "channel", "d": "component", "x": "x", "y": "y", "z": "z"}


@dataclass(frozen=True)
class FileDescription:
    """A file's fields, shapes, node placement and ranges of values; prints as a card, and as a table in notebooks."""

    path: Path
    layout: str
    samples: int
    resolution: tuple[int, ...]
    placement: str
    fields: tuple[tuple[str, str, str, str], ...]  # name, axes, shape, range

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.layout}, {self.samples} samples at {'×'.join(map(str, self.resolution))}",
            f"nodes: {self.placement}",
        ]
        lines += [f"{name}: {shape} ({axes}), {span}" for name, axes, shape, span in self.fields]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, nodes, *_ = str(self).split("\n")
        rows = [(name, shape, axes, span) for name, axes, shape, span in self.fields]
        table = html_table(["field", "shape", "axes", "values"], rows)
        return f"<p>{escape(head)}<br>{escape(nodes)}</p>{table}"

    def to_json(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {
            "path": str(self.path),
            "layout": self.layout,
            "samples": self.samples,
            "resolution": list(self.resolution),
            "placement": self.placement,
            "fields": [dict(zip(("name", "axes", "shape", "values"), f, strict=True)) for f in self.fields],
        }


def describe(path: str | Path, **options: Any) -> FileDescription:
    """Describe a file of fields; ``options`` go to :func:`~quadnorm.problems.files.read_fields`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
    >>> np.savez(path, a=np.zeros((5, 8, 8)), u=np.ones((5, 8, 8)))
    >>> print(str(describe(path, placement="cell")).split(": ", 1)[1])
    npz, 5 samples at 8×8
    nodes: cell, as declared
    a: 5×8×8 (sample, x, y), 0 … 0
    u: 5×8×8 (sample, x, y), 1 … 1
    """
    file, placement = _opened(Path(path).expanduser(), options)
    rows = tuple(_row(field) for field in file.fields.values())
    return FileDescription(Path(path), file.layout, len(file), file.resolution, placement, rows)


def _opened(path: Path, options: dict[str, Any]) -> tuple[FieldFile, str]:
    """The file, and a text about its nodes: as declared, by the file's coordinates, or unknown and what to do."""
    try:
        file = read_fields(path, **options)
    except ValueError as silent:
        if options.get("placement") is not None:
            raise
        try:
            file = read_fields(path, **options, placement="left")
        except ValueError:
            raise silent from None
        names = "|".join(name for name in PLACEMENTS if name != "coordinates")
        return file, f"not stated in the file; say so with -p placement={names}"
    found = MAT_NODES if file.layout.startswith("mat") else "by the coordinates in the file"
    how = "as declared" if options.get("placement") else found
    return file, f"{', '.join(dict.fromkeys(file.placement))}, {how}"


def _row(field: Field) -> tuple[str, str, str, str]:
    shape = "×".join(map(str, field.shape))
    some = range(min(SOME, field.shape[0])) if field.axes.startswith("n") else None
    values = field.read(some, allow_nan=True)
    if values.dtype.kind not in "fiub":
        span = str(values.dtype)
    else:
        bad = int((~np.isfinite(values)).sum())
        kept = values[np.isfinite(values)]
        span = f"{kept.min():.4g} … {kept.max():.4g}" if kept.size else "no finite value"
        span += f" {field.units}" if field.units else ""
        span += f", {bad} NaN or infinite" if bad else ""
    if some is not None and len(some) < field.shape[0]:
        span += f" (first {len(some)} samples)"
    return field.name, ", ".join(AXES.get(a, a) for a in field.axes), shape, span
