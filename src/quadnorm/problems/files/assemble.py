"""From the arrays of a file to a :class:`FieldFile`: name their axes, compare their grids, find where the nodes lie."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.measures.data.lines import settled
from quadnorm.measures.data.names import FLAT, POINTS
from quadnorm.measures.data.placements import LONGITUDE, PLACEMENTS, Domain, nodes, unwrapped
from quadnorm.problems.files.axes import Item, listed, name_axes, ways
from quadnorm.problems.files.coordinates import FileCoordinates, with_dimensions
from quadnorm.problems.files.model import AXES, MOST_NODES, SPACE, Field, FieldFile
from quadnorm.problems.files.options import ReadOptions

_WRONG = "if they are no coordinates, pass ignore_coordinates=true and placement="


def read_items(
    path: Path,
    layout: str,
    items: Mapping[str, Item],
    options: ReadOptions,
    lines: FileCoordinates | None = None,
    *,
    law: str | Sequence[str | None] | None = None,
    law_from: str = "as the file states",
    times: np.ndarray | None = None,
    notes: Mapping[str, Any] | None = None,
) -> FieldFile:
    """The wanted ones of some arrays as fields on one grid.

    Args:
        path: the file, named in every error.
        layout: name of the file's layout, kept in the result.
        items: the arrays that may be fields.
        options: the caller's arguments, which must not contradict the file.
        lines: the coordinates among the file's arrays, which help to name the axes.
        law: placement that the file or its layout prescribes, for all axes or one entry per axis.
        law_from: where it comes from, for data cards.
        times: the times of the time axis, if they are not those of a dimension.
        notes: parameters stored in the file.
    """
    lines = lines or FileCoordinates()
    given = options.fields if options.fields is not None and not callable(options.fields) else None
    likely = list(items) if given else [name for name, i in items.items() if _is_field(name, i, options)]
    if not likely:
        raise _no_fields(path, items, options)
    chosen = {name: items[name] for name in options.choose(path, likely)}
    if isinstance(options.axes, str) and all(len(i.shape) != len(options.axes) for i in chosen.values()):
        held = ", ".join(f"{name} {i.shape}" for name, i in chosen.items())
        raise ValueError(f"{path}: axes={options.axes} name {len(options.axes)} axes, which no array has: {held}")
    letters = name_axes(path, chosen, options, lines.counts, lines.order)
    for name, i in chosen.items():
        if not options.ignore_coordinates and options.letters(name, len(i.shape)) is not None:
            _check_letters(path, name, letters[name], i)
    lines = with_dimensions(path, _turned(lines, letters, chosen, options), chosen, letters)
    fields = {name: _field(path, name, i, letters[name]) for name, i in chosen.items()}
    lines = lines if times is None else replace(lines, times=times)
    return _assembled(path, layout, fields, options, lines, law, law_from, notes or {})


def _is_field(name: str, i: Item, options: ReadOptions) -> bool:
    """Whether an array may be a field: its axes are named, or it has samples and as many axes as there should be."""
    if options.letters(name, len(i.shape)) is not None:
        return True
    return bool(ways(i.dims, options.spatial)) if i.dims else 1 <= len(i.shape) - options.spatial <= 2


def _field(path: Path, name: str, i: Item, letters: str) -> Field:
    fits = len(letters) == len(i.shape)
    first = max(letters.find("n"), 0) if fits else 0  # samples may be stored last, as in MATLAB's (x, y, sample)
    order = letters[first] + letters[:first] + letters[first + 1 :] if fits and letters else letters
    shape = (*i.shape[first : first + 1], *i.shape[:first], *i.shape[first + 1 :])
    return Field(name, order, shape, i.along(first), path, i.units)


def _check_letters(path: Path, name: str, letters: str, i: Item) -> None:
    """Raise a ValueError if letters that the caller gave contradict the names in the file."""
    for letter, d in zip(letters, i.dims, strict=False):
        if letter not in SPACE and d.kind in FLAT:
            what = {"n": "the samples", "t": "time"}.get(letter, "the channels")
            raise ValueError(
                f"{path}: axes={letters} say that an axis of {name!r} is {what}, but the file calls that axis "
                f"{d.name!r}; the file has {listed(i.dims)}. Give the letters in this order, or, if the file's names "
                "are wrong, pass ignore_coordinates=true and placement="
            )


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
    new = dict(zip((fitting or orders)[0], stored, strict=True))
    values = {new[a]: x for a, x in lines.values.items()}
    words = {new[a]: word for a, word in lines.words.items()}
    return replace(lines, values=values, words=words, order=stored, unsure=len(fitting) > 1)


def _no_fields(path: Path, items: Mapping[str, Item], options: ReadOptions) -> ValueError:
    held = ", ".join(f"{n} {f'{listed(i.dims)} of the sizes ' if i.dims else ''}{i.shape}" for n, i in items.items())
    return ValueError(
        f"{path}: no fields found: expected arrays with samples and {options.spatial} spatial axes, got "
        f"{held or 'no array of numbers'}. Say how many spatial axes there are (axes=1, axes=3; dim= of a reader), or "
        "name the axes, as in axes=xy for one sample without a sample axis"
    )


def _assembled(
    path: Path,
    layout: str,
    fields: Mapping[str, Field],
    options: ReadOptions,
    lines: FileCoordinates,
    law: Any,
    law_from: str,
    notes: Mapping[str, Any],
) -> FieldFile:
    """Check the fields against each other and find where the nodes lie."""
    counts = {f.name: f.shape[0] for f in fields.values() if f.axes.startswith("n")}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{path}: fields hold different numbers of samples: {_pairs(counts)}; they cannot be paired")
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    given = {} if options.ignore_coordinates else lines.values
    words = tuple(lines.words.get(letter, letter) for letter in letters)
    evidence = "as declared" if options.placement is not None else "by the coordinates in the file"
    if lines.located and not options.ignore_coordinates:
        if options.placement not in (None, "coordinates"):
            raise ValueError(
                f"{path}: you said that the nodes are {options.placement!r}, but each has two coordinates in the file; "
                "if these are wrong, pass ignore_coordinates=true as well"
            )
        axes = [(POINTS, np.arange(float(sizes[a])), (0.0, float(sizes[a] - 1))) for a in letters]
        evidence = "by the coordinates in the file"
    else:
        each = _law(path, None if options.placement is not None else law, len(letters))
        axes = [
            _axis(path, letter, word, sizes[letter], given.get(letter), lines.cells.get(letter), want, by_layout, ends)
            for letter, word, (want, ends), by_layout in zip(
                letters, words, options.per_axis(len(letters), path), each, strict=True
            )
        ]
        if not given and options.placement is None:
            evidence = law_from
    placement, coordinates, domain = (tuple(part) for part in zip(*axes, strict=True))
    if lines.unsure and given and len(set(placement)) > 1:
        raise ValueError(
            f"{path}: {' and '.join(words)} have {sizes[letters[0]]} nodes each, so that nothing says which axis of "
            "the fields is which, and their nodes lie differently; leave axes= out if the fields are stored as "
            "(sample, latitude, longitude), or pass ignore_coordinates=true and placement= with one entry for each axis"
        )
    times = lines.times
    return FieldFile(path, layout, dict(fields), placement, coordinates, domain, times, dict(notes), evidence, words)


def _axis(
    path: Path,
    letter: str,
    word: str,
    count: int,
    x: np.ndarray | None,
    cells: np.ndarray | None,
    want: str | None,
    law: str | None,
    domain: Domain | None,
) -> tuple[str, np.ndarray, Domain]:
    """Placement, nodes and domain of one axis: what the file (``x``, ``cells``), its layout (``law``) and the caller
    (``want``, ``domain``) say must agree, and leave one placement.
    """
    title = f"axis {letter} ({word})" if word not in ("", letter) else f"axis {letter}"
    placement = want or law
    if x is None:
        if placement is None or placement == "coordinates":
            raise ValueError(
                f"{path}: the file does not say where the {count} nodes of {title} lie; pass placement='endpoint' "
                "(both ends stored), 'cell' (centres of cells), 'periodic' or 'left' (first end stored, last not), "
                "'interior' (neither end stored)"
            )
        ends = domain or (0.0, 1.0)
        return placement, nodes(placement, count, ends), ends
    if np.iscomplexobj(x):
        raise ValueError(f"{path}: coordinates of {title} must be real, got complex numbers")
    x = np.asarray(x, dtype=np.float64)
    x = unwrapped(x) if word == LONGITUDE else x
    if x.shape != (count,):
        raise ValueError(f"{path}: {title} has {count} nodes, its coordinates have shape {x.shape}; {_WRONG}")
    steps = np.diff(x)
    if not np.isfinite(x).all() or not ((steps > 0).all() or (steps < 0).all()):
        raise ValueError(f"{path}: coordinates of {title} must be finite, and increasing or decreasing; {_WRONG}")
    source = "you said" if want else "the layout says"
    name, ends = settled(x, word, title, placement, domain, cells, source, f"{path}: ")
    return name, x, ends


def _law(path: Path, known: Any, dim: int) -> list[str | None]:
    """The placement that the file or its layout states, for each axis; an attribute of a file may be anything."""
    each = list(known) if isinstance(known, (list, tuple)) else [known] * dim
    if len(each) != dim or any(p is not None and p not in PLACEMENTS for p in each):
        raise ValueError(
            f"{path}: the file states the placement {known!r}; expected one of {', '.join(PLACEMENTS)}, or one for "
            f"each of {dim} axes"
        )
    return each


def _space(path: Path, fields: Mapping[str, Field]) -> dict[str, int]:
    """The number of nodes along each spatial axis, which must be the same in all fields."""
    sizes: dict[str, int] = {}
    for f in fields.values():
        if len(f.axes) != len(f.shape) or len(set(f.axes)) != len(f.axes) or set(f.axes) - set(AXES):
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
