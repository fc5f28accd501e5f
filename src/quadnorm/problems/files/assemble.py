"""From the arrays of a file to a :class:`FieldFile`: name their axes, compare their grids, find where the nodes lie."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.data.names import POINTS
from quadnorm.measures.data.placements import PLACEMENTS
from quadnorm.problems.files.axes import Item, check_letters, listed, name_axes, ways
from quadnorm.problems.files.coordinates import FileCoordinates, with_dimensions
from quadnorm.problems.files.model import MOST_NODES, SPACE, Field, FieldFile
from quadnorm.problems.files.nodes import StoredAxis
from quadnorm.problems.files.options import ReadOptions


def read_items(
    path: Path,
    layout: str,
    items: Mapping[str, Item],
    options: ReadOptions,
    lines: FileCoordinates | None = None,
    **known: Any,
) -> FieldFile:
    """The wanted ones of some arrays as fields; ``lines`` are the coordinates among the file's arrays, which help to
    name the axes, ``known`` goes to :func:`assemble`.
    """
    lines = lines or FileCoordinates({})
    given = options.fields if options.fields is not None and not callable(options.fields) else None
    likely = list(items) if given else [name for name, i in items.items() if _is_field(name, i, options)]
    if not likely:
        raise _no_fields(path, items, options)
    chosen = {name: items[name] for name in choose(path, options, likely)}
    if isinstance(options.axes, str) and all(len(i.shape) != len(options.axes) for i in chosen.values()):
        held = ", ".join(f"{name} {i.shape}" for name, i in chosen.items())
        raise ValueError(f"{path}: axes={options.axes} name {len(options.axes)} axes, which no array has: {held}")
    letters = name_axes(path, chosen, options, lines.counts, lines.order)
    for name, i in chosen.items():
        if not options.ignore_coordinates and options.letters(name, len(i.shape)) is not None:
            check_letters(path, name, letters[name], i.dims)
    lines = with_dimensions(path, _turned(lines, letters, chosen, options), chosen, letters)
    fields = {name: _field(path, name, i, letters[name]) for name, i in chosen.items()}
    return assemble(path, layout, fields, options, lines, **known)


def choose(path: Path, options: ReadOptions, present: Sequence[str]) -> list[str]:
    """The wanted names, each of which must be present; all present names if none are."""
    wanted = options.fields
    names = list(wanted(present)) if callable(wanted) else list(wanted or present)
    for name in names:
        if name not in present:
            raise ValueError(f"{path}: " + unknown("field", name, present))
    return names


def _is_field(name: str, i: Item, options: ReadOptions) -> bool:
    """Whether an array may be a field: its axes are named, or it has samples and as many axes as there should be."""
    if options.letters(name, len(i.shape)) is not None:
        return True
    return bool(ways(i.dims, options.spatial)) if i.dims else 1 <= len(i.shape) - options.spatial <= 2


def _field(path: Path, name: str, i: Item, letters: str) -> Field:
    first = max(letters.find("n"), 0)  # samples may be stored last, as in MATLAB's (x, y, sample)
    fits = len(letters) == len(i.shape)
    order = letters[first] + letters[:first] + letters[first + 1 :] if fits else letters
    shape = (i.shape[first], *i.shape[:first], *i.shape[first + 1 :]) if fits and i.shape else i.shape
    return Field(name, order, shape, i.along(first if fits else 0), path, i.units)


def _turned(
    lines: FileCoordinates, letters: Mapping[str, str], chosen: Mapping[str, Item], options: ReadOptions
) -> FileCoordinates:
    """Latitudes and longitudes under the letters that the caller gave: these say where space is, not which axis is the
    latitude. It is the one as long as the latitudes; if both are, the first."""
    space = SPACE[: options.spatial]
    given = [name for name in chosen if set(space) <= set(options.letters(name, len(chosen[name].shape)) or "")]
    if not lines.words or not given:
        return lines
    shape, axes = chosen[given[0]].shape, letters[given[0]]
    stored = "".join(a for a in axes if a in SPACE)
    sizes = [shape[axes.index(a)] for a in stored]
    orders = [lines.order] if lines.order else [space, space[::-1]]
    fitting = [o for o in orders if all(lines.counts.get(a, n) == n for a, n in zip(o, sizes, strict=True))]
    order = (fitting or orders)[0]
    new = dict(zip(order, stored, strict=True))
    values = {new[a]: x for a, x in lines.values.items()}
    words = {new[a]: word for a, word in lines.words.items()}
    return replace(lines, values=values, words=words, order=stored, unsure=len(fitting) > 1)


def _no_fields(path: Path, items: Mapping[str, Item], options: ReadOptions) -> ValueError:
    held = ", ".join(f"{n} {f'{listed(i.dims)} of the sizes ' if i.dims else ''}{i.shape}" for n, i in items.items())
    held = held or "no array of numbers"
    return ValueError(
        f"{path}: no fields found: expected arrays with samples and {options.spatial} spatial axes, got {held}. Say "
        "how many spatial axes there are (axes=1, axes=3; dim= of a reader), or name the axes, as in axes=xy for one "
        "sample without a sample axis"
    )


def assemble(
    path: Path,
    layout: str,
    fields: Mapping[str, Field],
    options: ReadOptions,
    lines: FileCoordinates | None = None,
    known: str | Sequence[str | None] | None = None,
    times: np.ndarray | None = None,
    attributes: Mapping[str, Any] | None = None,
    known_from: str = "as the file states",
) -> FieldFile:
    """Check the fields against each other and find where the nodes lie.

    Args:
        path: the file, named in every error.
        layout: name of the file's layout, kept in the result.
        fields: name → field; all share one spatial grid.
        options: the caller's arguments, which must not contradict the file.
        lines: the coordinates of the axes, if the file has them.
        known: placement that the layout itself prescribes, for all axes or one entry per axis.
        times: the times of the time axis, if the file has them.
        attributes: parameters stored in the file.
        known_from: where ``known`` comes from, for data cards.
    """
    _same_counts(path, fields)
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    lines = lines or FileCoordinates({})
    given = {} if options.ignore_coordinates else lines.values
    words = tuple(lines.words.get(letter, letter) for letter in letters)
    if lines.located and not options.ignore_coordinates:
        if options.placement not in (None, "coordinates"):
            raise ValueError(
                f"{path}: you said that the nodes are {options.placement!r}, but each has two coordinates in the file; "
                "if these are wrong, pass ignore_coordinates=true as well"
            )
        index = tuple(np.arange(float(sizes[a])) for a in letters)
        ends = tuple((0.0, float(sizes[a] - 1)) for a in letters)
        scattered, notes = (POINTS,) * len(letters), dict(attributes or {})
        how = "by the coordinates in the file"
        return FieldFile(path, layout, dict(fields), scattered, index, ends, lines.times, notes, how, words)
    law = _law(path, None if options.placement is not None else known, len(letters))
    axes = [
        StoredAxis(path, letter, sizes[letter], given.get(letter), want, domain, by_layout, word).settled()
        for letter, word, (want, domain), by_layout in zip(
            letters, words, options.per_axis(len(letters), path), law, strict=True
        )
    ]
    placement, nodes_, domain = (tuple(part) for part in zip(*axes, strict=True))
    if lines.unsure and given and len(set(placement)) > 1:
        raise _exchangeable(path, words, sizes[letters[0]])
    evidence = known_from
    if given:
        evidence = "by the coordinates in the file"
    if options.placement is not None:
        evidence = "as declared"
    stated = times if times is not None else lines.times
    notes = dict(attributes or {})
    return FieldFile(path, layout, dict(fields), placement, nodes_, domain, stated, notes, evidence, words)


def _exchangeable(path: Path, words: Sequence[str], count: int) -> ValueError:
    return ValueError(
        f"{path}: {' and '.join(words)} have {count} nodes each, so that nothing says which axis of the fields is "
        "which, and their nodes lie differently; leave axes= out if the fields are stored as (sample, latitude, "
        "longitude), or pass ignore_coordinates=true and placement= with one entry for each axis"
    )


def _law(path: Path, known: Any, dim: int) -> list[str | None]:
    """The placement that the file or its layout states, for each axis; an attribute of a file may be anything."""
    each = list(known) if isinstance(known, (list, tuple)) else [known] * dim
    if len(each) != dim or any(p is not None and p not in PLACEMENTS for p in each):
        raise ValueError(
            f"{path}: the file states the placement {known!r}; expected one of {', '.join(PLACEMENTS)}, or one for "
            f"each of {dim} axes"
        )
    return each


def _same_counts(path: Path, fields: Mapping[str, Field]) -> None:
    counts = {f.name: f.shape[0] for f in fields.values() if f.axes.startswith("n")}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{path}: fields hold different numbers of samples: {_pairs(counts)}; they cannot be paired")


def _space(path: Path, fields: Mapping[str, Field]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for f in fields.values():
        if len(f.axes) != len(f.shape) or len(set(f.axes)) != len(f.axes) or set(f.axes) - set("ntcd" + SPACE):
            raise ValueError(
                f"{path}: {f.name!r} has shape {f.shape}, which axes {f.axes!r} do not name; one letter for each "
                "dimension: n sample, t time, c channel, x y z space"
            )
        for letter, size in zip(f.axes, f.shape, strict=True):
            if letter in SPACE and size > MOST_NODES:
                raise ValueError(
                    f"{path}: {f.name!r} announces {size} nodes along {letter}; at most {MOST_NODES} are read. Is the "
                    "file damaged, or are its axes in another order? Name them, as in axes=nxy"
                )
            if letter in SPACE and sizes.setdefault(letter, size) != size:
                shapes = _pairs({g.name: g.shape for g in fields.values()})
                raise ValueError(
                    f"{path}: fields lie on different grids: {shapes}; choose those that belong together (input= and "
                    "output=; fields= of a reader), or name their axes, as in axes={u: nxyc}"
                )
    if not sizes:
        raise ValueError(f"{path}: no field has a spatial axis; name the axes, as in axes=nxy")
    return sizes


def _pairs(items: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in items.items())
