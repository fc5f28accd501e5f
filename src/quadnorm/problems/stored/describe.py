"""A description of a file of fields, for printing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._text import html_table
from quadnorm.measures import LatLon
from quadnorm.measures.data.placements import LATITUDE, gaussian
from quadnorm.measures.placement import PLACEMENTS
from quadnorm.problems.files import Field, FieldFile, ReadOptions, read_fields
from quadnorm.problems.files.model import AXES, SPACE
from quadnorm.problems.files.places import whereabouts
from quadnorm.problems.points import POINTS

SOME = 64  # samples that the ranges are taken from
MOST = 5  # fields that are printed in full
MOST_LINES = 10
_DIMS = (2, 1, 3)  # numbers of spatial axes that are tried, if none was given


@dataclass(frozen=True)
class FileDescription:
    """A file's fields, shapes, node placement and ranges of values; prints as a card, and as a table in notebooks."""

    path: Path
    layout: str
    samples: int
    resolution: tuple[int, ...]
    placement: str
    fields: tuple[tuple[str, str, str, str], ...]  # name, axes, shape, range
    weights: str = ""  # of the samples, where these are not nodes of equispaced axes; and how sure that is
    others: tuple[str, ...] = ()  # fields on other grids of the file
    assumed: str = ""  # the placement that the weights take for granted, where the file leaves it open

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.layout}, {self.samples} samples at {'×'.join(map(str, self.resolution))}",
            f"nodes: {self.placement}",
        ]
        lines += [f"weights: {self.weights}"] if self.weights else []
        lines += [f"{name}: {shape} ({axes}), {span}" for name, axes, shape, span in self.fields[:MOST]]
        left = [name for name, *_ in self.fields[MOST:]]
        lines += [f"and {len(left)} more: {_listed(left)}"] if left else []
        room = MOST_LINES - len(lines)
        shown = self.others if len(self.others) <= room else self.others[: room - 1]
        more = len(self.others) - len(shown)
        return "\n".join([*lines, *shown, *([f"and {more} grids more (--json lists them)"] if more else [])])

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
            "weights": self.weights,
            "others": list(self.others),
            "fields": [dict(zip(("name", "axes", "shape", "values"), f, strict=True)) for f in self.fields],
        }


def describe(path: str | Path, **options: Any) -> FileDescription:
    """Describe a file of fields; ``options`` are those of :class:`~quadnorm.problems.files.ReadOptions`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
    >>> np.savez(path, a=np.zeros((5, 8, 8)), u=np.ones((5, 8, 8)))
    >>> print(str(describe(path, placement="cell")).split(": ", 1)[1])
    npz, 5 samples at 8×8
    nodes: cell, as declared
    a: 5×8×8 (sample, x, y), 0 … 0
    u: 5×8×8 (sample, x, y), 1 … 1
    """
    place, given = Path(path).expanduser(), ReadOptions(**options)
    others: tuple[str, ...] = ()
    try:
        file, placement, assumed = _opened(place, given)
    except ValueError as error:
        found = _by_grid(place, given)
        if not found:
            raise error
        (file, placement, assumed), others = found[0], tuple(_other(f, text) for f, text, _ in found[1:])
    rows = tuple(_row(field, file) for field in file.fields.values())
    where = file.layout, len(file), file.resolution
    return FileDescription(Path(path), *where, placement, rows, _weights(file), others, assumed)


def _by_grid(path: Path, options: ReadOptions) -> list[tuple[FieldFile, str, str]]:
    """The fields of a file that lie on several grids, those of each grid together, the most fields first."""
    if options.fields is not None:
        return []
    groups: dict[Any, list[str]] = {}
    for dim in _DIMS if options.axes is None and options.dim == _DIMS[0] else (options.dim,):
        given = replace(options, dim=dim)
        for name in _names(path, given):
            with suppress(ValueError):
                file, *_ = _opened(path, replace(given, fields=[name]))
                groups.setdefault((dim, file.words, file.resolution, file.placement), []).append(name)
        if groups:
            break
    found = []
    for (dim, *_), names in sorted(groups.items(), key=lambda item: (-len(item[1]), -prod(item[0][2]))):
        given = replace(options, dim=dim)
        try:
            found.append(_opened(path, replace(given, fields=names)))
        except ValueError:  # alike, and still not together, such as fields with and without times
            found += [_opened(path, replace(given, fields=[name])) for name in names]
    return found


def _names(path: Path, options: ReadOptions) -> list[str]:
    """The names of all arrays that may be fields."""
    seen: list[str] = []

    def look(present: Sequence[str]) -> Sequence[str]:
        seen.extend(present)
        return present[:1]

    with suppress(ValueError):
        read_fields(path, replace(options, fields=look))
    return seen


def _other(file: FieldFile, placement: str) -> str:
    grid = "×".join(map(str, file.resolution))
    where = placement if len(placement) < 90 else placement.split(";")[0][:90]
    return f"other grid, {grid}: {_listed(list(file.fields))} ({where})"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _weights(file: FieldFile) -> str:
    """How the samples weigh, and how sure that is; empty for equispaced axes of a box."""
    earth = {"latitude", "longitude"} <= set(file.words)
    if not earth and not {POINTS, "coordinates"} & set(file.placement):
        return ""
    try:
        place = whereabouts(file)
    except (ValueError, ImportError) as error:
        return f"not known: {str(error).removeprefix(f'{file.path}: ')}"
    extent = f"{place.measure.total / (4 * np.pi):.4g} of the sphere, " if isinstance(place.measure, LatLon) else ""
    return f"{extent}{place.evidence}; {_sure(place.evidence)}"


def _sure(evidence: str) -> str:
    if "Voronoi" in evidence:
        return "assumed: each point stands for what is nearest to it"
    if evidence.endswith(": nodes") or ": nodes," in evidence or "no corners" in evidence:
        return "assumed: cells end halfway between nodes, and at the outermost ones"
    stated = ("cell areas", "corners", "the faces", "the nodes of a mesh", "HEALPix")
    if evidence.startswith(stated) or ": cells" in evidence:
        return "sure: stated in the file"
    return "sure: it follows from the coordinates"


def _opened(path: Path, options: ReadOptions) -> tuple[FieldFile, str, str]:
    """The file; a text about its nodes: as declared, by the file's coordinates, or unknown and what to do; and the
    placement that is assumed where the coordinates leave it open.
    """
    try:
        file = read_fields(path, options)
    except ValueError as silent:
        if options.placement is not None:
            raise
        unstated = "does not say where" in str(silent)  # there may be coordinates of another axis
        try:
            ignore = unstated and path.suffix != ".npy"
            assumed = "left" if unstated else "coordinates"
            file = read_fields(path, replace(options, placement=assumed, ignore_coordinates=ignore))
        except ValueError:
            raise silent from None
        if not unstated:  # the coordinates in the file allow more than one reading
            return file, str(silent).removeprefix(f"{path}: ").replace("pass placement=", "say -p placement="), POINTS
        each = ", or one for each axis: [cell,periodic]" if len(file.resolution) > 1 else ""
        return file, f"not stated in the file; say so with -p placement={'|'.join(PLACEMENTS)}{each}", ""
    uneven = [_uneven(*axis) for axis in zip(file.words, file.coordinates, file.placement, strict=True)]
    if found := " and ".join(filter(None, uneven)):
        text = f"not equispaced are those of {found}; they train as points, operators that need a grid refuse them"
    elif POINTS in file.placement:
        text = f"points, each with coordinates of its own, {file.evidence}; operators that need a grid refuse them"
    else:
        text = f"{_each(file)}, {file.evidence}{_domain(file)}"
    return file, text, ""


def _uneven(word: str, x: np.ndarray, placement: str) -> str:
    """An axis whose nodes are not equispaced, in words; empty for others."""
    if placement != "coordinates":
        return ""
    if x.size < 2:
        return f"{word}, a single node at {x[0]:.6g}"
    kind = "Gaussian latitudes" if word == LATITUDE and gaussian(x) else "nodes"
    steps = np.abs(np.diff(x))
    return (
        f"{word}, {len(x)} {kind} from {x[0]:.6g} to {x[-1]:.6g} with steps between {steps.min():.6g} and "
        f"{steps.max():.6g}"
    )


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
