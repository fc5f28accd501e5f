"""Find the coordinates of the axes among the arrays of a file, whatever its format.

| arrays | shapes |
|---|---|
| ``x``, ``y``, ``z``, or ``x-coordinate``, ``x_coord``, ``grid_x``, ``grid/x``, … | (n,) each |
| ``lat`` and ``lon``, ``latitude`` and ``longitude``, …, with ``level`` or ``depth`` in three dimensions | (n,) each |
| the same names | (n, m) each, as by ``numpy.meshgrid`` |
| ``grid``, ``coords`` or ``coordinates`` | (n, m, 2) or (2, n, m); in one dimension (n,) |
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from quadnorm.measures.data.names import SPATIAL, at_top, kind_of, letter_of
from quadnorm.problems.files.axes import EARTH, Dimension, Item, Shape
from quadnorm.problems.files.model import MOST_NODES, SPACE
from quadnorm.problems.files.options import ReadOptions


@dataclass(frozen=True)
class FileCoordinates:
    """1-D coordinates by letter of the axis, and the names of the arrays that they were taken from.

    ``order`` are the letters of the axes in the order in which fields are stored, such as "yx", if the file shows it;
    ``words`` are names of axes other than their letters, such as latitude; ``times`` those of the time axis.
    ``unsure``: latitudes and longitudes might also be exchanged.
    """

    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    order: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    times: np.ndarray | None = None
    unsure: bool = False
    located: bool = False  # the places of the samples are known, not as axes
    cells: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes of each axis that has coordinates."""
        return {letter: len(x) for letter, x in self.values.items()}


def coordinates_in(
    path: Path, items: Mapping[str, Item], options: ReadOptions, *, vectors: bool = False
) -> FileCoordinates:
    """The coordinates among arrays, maybe of some axes only; where they are ignored, only the names of these arrays.

    ``vectors``: 1-D arrays are stored as (1, n) or (n, 1), as MATLAB does.

    >>> from quadnorm.problems.files.axes import item
    >>> grid = item(np.stack(np.meshgrid([0.0, 1.0], [0.0, 0.5, 1.0], indexing="ij"), -1))
    >>> coordinates_in(Path("a.npz"), {"grid": grid}, ReadOptions()).values
    {'x': array([0., 1.]), 'y': array([0. , 0.5, 1. ])}
    """
    dim, ignore = options.spatial, options.ignore_coordinates
    every = {name: _flat(i.shape) if vectors else i.shape for name, i in items.items()}
    usable = {name: shape for name, shape in every.items() if name not in options.named and shape != (1,)}
    for letters in (_plain_letters(usable, 1, dim), _earth_letters(usable, 1, dim)):
        names, words = frozenset(letters.values()), _words(letters)
        if not names or not _others(names, every, 2 if vectors else 1) or (words and _labels(names, every)):
            continue
        values = {} if ignore else {a: whole(path, n, items[n]).reshape(-1) for a, n in letters.items()}
        return FileCoordinates(values, names, words=words)
    for letters in (_plain_letters(usable, dim, dim), _earth_letters(usable, dim, dim)):
        meshes = [letters[a] for a in SPACE[:dim] if a in letters]
        if dim > 1 and len(meshes) == dim and _others(meshes, every, dim):
            parts = [] if ignore else [whole(path, n, items[n]) for n in meshes]
            return _from_grid(path, meshes, parts, _words(letters))
    for name in ("grid", "coords", "coordinates"):
        shape = items[name].shape if name in usable else ()
        if len(_flat(shape)) == 1 if dim == 1 else (len(shape) == dim + 1 and dim in (shape[0], shape[-1])):
            x = np.zeros(0) if ignore else whole(path, name, items[name])
            last = -1 if shape[-1] == dim else 0  # (2, m, 2) is read as (n, m, 2)
            return _from_grid(
                path, [name], [] if ignore else [x.reshape(-1)] if dim == 1 else [*np.moveaxis(x, last, 0)]
            )
    return FileCoordinates()


def _plain_letters(shapes: Mapping[str, Shape], rank: int, dim: int) -> dict[str, str]:
    """Letter → name of the arrays of some rank that are called x, y, z; the plain name before others."""
    found: dict[str, str] = {}
    for name, shape in sorted(shapes.items(), key=lambda i: len(i[0])):
        letter = letter_of(name)
        if len(shape) == rank and letter and letter in SPACE[:dim]:
            found.setdefault(letter, name)
    return found


def _earth_letters(shapes: Mapping[str, Shape], rank: int, dim: int) -> dict[str, str]:
    """Letter → name of the arrays that are called latitude and longitude, and level if there is one more axis.

    The letters are in the order in which such fields are stored: (level, lat, lon), or (lat, lon).
    """
    names: dict[str, str] = {}
    for kind in EARTH:
        several = [name for name, shape in shapes.items() if len(shape) == rank and kind_of(name) == kind]
        best = [name for name in several if at_top(name)] or (several if len(several) == 1 else [])
        names |= {kind: best[0]} if best else {}
    flat = [kind for kind in EARTH[1:] if kind in names]
    if not flat:
        return {}
    kinds: Sequence[str] = EARTH if dim == 3 else EARTH[1:] if dim == 2 else flat
    if dim == 2 and len(flat) == 1 and "vertical" in names:  # a section
        kinds = ("vertical", *flat)
    if dim == 1 and len(flat) == 2:  # the one that is an axis of the fields
        axes = {n for name, shape in shapes.items() if name not in names.values() for n in shape[1:]}
        kinds = [kind for kind in flat if shapes[names[kind]][0] in axes] or flat
    return {a: names[kind] for a, kind in zip(SPACE[:dim], kinds, strict=False) if kind in names}


def _words(letters: Mapping[str, str]) -> dict[str, str]:
    """The names of the axes that are not x, y or z."""
    return {a: kind for a, name in letters.items() if (kind := kind_of(name)) in EARTH}


def _labels(names: Collection[str], shapes: Mapping[str, Shape]) -> bool:
    """Whether arrays have one number for each sample, as the places where samples were taken: no axis is as long."""
    counts = {shapes[name][0] for name in names}
    others = [shape for name, shape in shapes.items() if name not in names and len(shape) > 2]
    return len(counts) == 1 and counts <= {s[0] for s in others} and not any(counts & set(s[1:]) for s in others)


def _flat(shape: Shape) -> Shape:
    """The shape of a vector without axes of length 1; other shapes as they are."""
    return (max(shape),) if shape and int(np.prod(shape)) == max(shape) else shape


def _others(names: Collection[str], shapes: Mapping[str, Shape], rank: int) -> bool:
    """Whether there are other arrays, which may be the fields; if not, x and y are fields themselves."""
    return any(len(shape) >= rank for name, shape in shapes.items() if name not in names)


def whole(path: Path, name: str, i: Item) -> np.ndarray:
    """An array of coordinates; a ValueError if it is too large to be one."""
    if int(np.prod(i.shape)) > MOST_NODES:
        raise ValueError(f"{path}: {name!r} has shape {i.shape}; coordinates have at most {MOST_NODES} numbers")
    return i.whole()


def _from_grid(
    path: Path, names: Sequence[str], parts: Sequence[np.ndarray], words: Mapping[str, str] | None = None
) -> FileCoordinates:
    """One line for each axis from coordinates on the whole grid: each coordinate must vary along an axis of its own."""
    axes = {letter: axis_of(values) for letter, values in zip(SPACE, parts, strict=False)}
    if sorted(axes.values()) != list(range(len(parts))):
        raise not_straight(path, names)
    lines = {letter: line_of(values, axis) for (letter, axis), values in zip(axes.items(), parts, strict=True)}
    return FileCoordinates(lines, frozenset(names), "".join(sorted(axes, key=axes.__getitem__)), words or {})


def not_straight(path: Path, names: Sequence[str]) -> ValueError:
    """The error for coordinates that vary along more than one axis."""
    return ValueError(
        f"{path}: the coordinates in {', '.join(map(repr, names))} are not those of a grid with straight axes: they "
        "vary along both axes, as on a curvilinear grid, and the corners of its cells are not in the file. Interpolate "
        "the fields to a grid with straight axes, or say placement=points: then cells end halfway between nodes. If "
        "they are no coordinates, or the fields should be read by the index of their nodes, pass "
        "ignore_coordinates=true and placement="
    )


def line_of(values: np.ndarray, axis: int) -> np.ndarray:
    """The coordinates along the axis on which they vary."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, 0]


def axis_of(values: np.ndarray) -> int:
    """The only axis along which a coordinate varies; −1 if there is none or more than one."""
    if not values.size or not np.isfinite(values).all():
        return -1
    span = np.ptp(values)
    varying = [k for k in range(values.ndim) if np.ptp(values, axis=k).max() > 1e-6 * span]
    return varying[0] if len(varying) == 1 else -1


def with_dimensions(
    path: Path, lines: FileCoordinates, items: Mapping[str, Item], axes: Mapping[str, str]
) -> FileCoordinates:
    """The coordinates of the fields' dimensions; those of other arrays only for axes that the dimensions do not call
    something else. A ValueError if a letter of ``axes`` means two dimensions.
    """
    seen: dict[str, tuple[str, Dimension]] = {}
    for name, letters in axes.items():
        for letter, d in zip(letters, items[name].dims, strict=False):
            if letter not in (*SPACE, "t") or not d.key:
                continue
            if d.bent and letter in SPACE:
                raise not_straight(path, d.bent)
            other, first = seen.setdefault(letter, (name, d))
            if letter in SPACE and first.key != d.key and not _same_nodes(first, d):
                raise ValueError(
                    f"{path}: fields lie on different grids: axis {letter} is {first.name!r} in {other!r} and "
                    f"{d.name!r} in {name!r}; choose fields that belong together (input= and output=; fields= of a "
                    "reader), or name their axes, as in axes={u: nxyc}"
                )
    spatial = {letter: d for letter, (_, d) in seen.items() if letter in SPACE}
    if not seen:
        return lines
    other_kind = {a for a, d in spatial.items() if d.kind in SPATIAL and d.kind != lines.words.get(a, a)}
    kept = {a: x for a, x in lines.values.items() if a not in other_kind}
    # latitude and longitude whatever the file calls them
    words = {a: d.kind if d.kind in EARTH[1:] else d.name for a, d in spatial.items()}
    return replace(
        lines,
        values=kept | {a: d.values for a, d in spatial.items() if d.values is not None},
        words={a: word for a, word in lines.words.items() if a in kept} | words,
        times=seen["t"][1].values if "t" in seen else None,
        located=any(d.located for d in spatial.values()),
        cells={a: d.cells for a, d in spatial.items() if d.cells is not None},
    )


def _same_nodes(one: Dimension, other: Dimension) -> bool:
    """Whether two dimensions have the same nodes: input and output may each have their own copies of an axis."""
    if one.values is None or other.values is None:
        return one.values is other.values and one.kind == other.kind
    a, b = one.values, other.values
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= 1e-6 * np.abs(a).max(initial=0))
