"""A description of a file of fields, for printing."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._text import html_table
from quadnorm.measures.placement import PLACEMENTS
from quadnorm.problems.files import Field, FieldFile, read_fields, takes
from quadnorm.problems.files.axes.request import AXES
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.files.nodes.uneven import ADVICE, uneven

SOME = 64  # samples that the ranges are taken from


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
    rows = tuple(_row(field, file) for field in file.fields.values())
    return FileDescription(Path(path), file.layout, len(file), file.resolution, placement, rows)


def _opened(path: Path, options: dict[str, Any]) -> tuple[FieldFile, str]:
    """The file, and a text about its nodes: as declared, by the file's coordinates, or unknown and what to do."""
    try:
        file = read_fields(path, **options)
    except ValueError as silent:
        if options.get("placement") is not None:
            raise
        assumed: dict[str, Any] = {"placement": "left"}
        if takes(path, "ignore_coordinates") and "does not say where" in str(silent):
            assumed["ignore_coordinates"] = True  # there may be coordinates of another axis
        try:
            file = read_fields(path, **{**options, **assumed})
        except ValueError:
            raise silent from None
        if "does not say where" not in str(silent):  # the coordinates in the file allow more than one reading
            return file, str(silent).removeprefix(f"{path}: ").replace("pass placement=", "say -p placement=")
        return file, f"not stated in the file; say so with -p placement={'|'.join(PLACEMENTS)}{_per_axis(file)}"
    if found := uneven(file):
        return file, f"not equispaced are those of {found}, and models here need equispaced ones: {ADVICE}"
    return file, f"{_each(file)}, {file.evidence}{_domain(file)}"


def _per_axis(file: FieldFile) -> str:
    return ", or one for each axis: [cell,periodic]" if len(file.resolution) > 1 else ""


def _each(file: FieldFile) -> str:
    """The placements of all axes; one word if all have the same, with the names of axes that have other names."""
    names = file.placement
    if "".join(file.words) != SPACE[: len(names)]:
        return ", ".join(f"{word} {name}" for word, name in zip(file.words, names, strict=True))
    return names[0] if len(set(names)) == 1 else ", ".join(names)


def _domain(file: FieldFile) -> str:
    """The extent of the axes, if it is not that of the unit cube."""
    if all(ends == (0.0, 1.0) for ends in file.domain):
        return ""
    return "; domain " + " × ".join(f"[{lo:.6g}, {hi:.6g}]" for lo, hi in file.domain)


def _row(field: Field, file: FieldFile) -> tuple[str, str, str, str]:
    shape = "×".join(map(str, field.shape))
    what = {"n": "samples", "t": "times"}.get(field.axes[:1], "")
    some = min(SOME, field.shape[0]) if what else 0
    if what == "times":
        values = field.steps(0, some, allow_nan=True)
    else:
        values = field.read(range(some) if what else None, allow_nan=True)
    if values.dtype.kind not in "fiub":
        span = str(values.dtype)
    else:
        bad = int((~np.isfinite(values)).sum())
        kept = values[np.isfinite(values)]
        span = f"{kept.min():.4g} … {kept.max():.4g}" if kept.size else "no finite value"
        span += f" {field.units}" if field.units else ""
        span += f", {bad} NaN or infinite" if bad else ""
    if what and some < field.shape[0]:
        span += f" (first {some} {what})"
    if what == "times" and field.shape[0] > 1:
        span += f"; one sample: if each time is a sample, say -p axes={field.axes.replace('t', 'n')}"
    words = AXES | dict(zip(SPACE, file.words, strict=False))
    return field.name, ", ".join(words.get(a, a) for a in field.axes), shape, span
