"""Find the coordinates of the axes among the arrays of a file, whatever its format.

| arrays | shapes |
|---|---|
| ``x``, ``y``, ``z``, or ``x-coordinate``, ``x_coord``, ``grid_x``, ``grid/x``, … | (n,) each |
| the same names | (n, m) each, as by ``numpy.meshgrid`` |
| ``grid``, ``coords`` or ``coordinates`` | (n, m, 2) or (2, n, m); in one dimension (n,) |
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quadnorm.problems.files.model import SPACE

Shape = tuple[int, ...]
_MOST = 2**24  # numbers of an array of coordinates
_TOGETHER = ("grid", "coords", "coordinates")


@dataclass(frozen=True)
class FileCoordinates:
    """1-D coordinates by letter of the axis, and the names of the arrays that they were taken from.

    ``order`` are the letters of the axes in the order in which fields are stored, such as "yx", if the file shows it.
    """

    values: Mapping[str, np.ndarray]
    names: frozenset[str] = frozenset()
    order: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes of each axis that has coordinates."""
        return {letter: len(x) for letter, x in self.values.items()}


def names_of(letter: str) -> tuple[str, ...]:
    """Names under which files keep the coordinates of an axis.

    >>> names_of("x")[:3]
    ('x', 'x-coordinate', 'x_coordinate')
    """
    words = ("coordinate", "coordinates", "coord", "coords", "grid")
    folders = ("grid", "coordinates", "coords")
    return (
        letter,
        *(f"{letter}{mark}{word}" for word in words for mark in "-_"),
        *(f"{word}{mark}{letter}" for word in ("coord", "grid") for mark in "-_"),
        *(f"{folder}/{letter}" for folder in folders),
    )


def coordinates_in(
    path: Path,
    shapes: Mapping[str, Shape],
    read: Callable[[str], np.ndarray],
    dim: int,
    fields: Collection[str] = (),
    *,
    vectors: bool = False,
    ignore: bool = False,
) -> FileCoordinates:
    """The coordinates that a file holds, maybe of some axes only.

    Args:
        path: the file, named in errors.
        shapes: name → shape of every array of numbers.
        read: gives an array by name; called for arrays of coordinates only.
        dim: number of spatial axes.
        fields: names that are fields, whatever they are called.
        vectors: whether 1-D arrays are stored as (1, n) or (n, 1), as MATLAB does.
        ignore: only name the arrays, which are no fields, and do not read them.

    >>> grid = np.stack(np.meshgrid([0.0, 1.0], [0.0, 0.5, 1.0], indexing="ij"), -1)
    >>> coordinates_in(Path("a.npz"), {"grid": grid.shape}, {"grid": grid}.__getitem__, 2).values
    {'x': array([0., 1.]), 'y': array([0. , 0.5, 1. ])}
    """
    every = {name: _flat(shape) if vectors else shape for name, shape in shapes.items()}
    flat = {name: shape for name, shape in every.items() if name not in fields}
    space = SPACE[:dim]
    lines = {a: n for a in space if (n := _named(a, flat, 1))}
    if lines and _others(lines.values(), every, 2 if vectors else 1):
        names = frozenset(lines.values())
        values = {} if ignore else {a: _read(path, n, shapes[n], read).reshape(-1) for a, n in lines.items()}
        return FileCoordinates(values, names)
    meshes = [n for a in space if dim > 1 and (n := _named(a, flat, dim))]
    if len(meshes) == dim and _others(meshes, every, dim):
        return _from_grid(path, meshes, [] if ignore else [_read(path, n, shapes[n], read) for n in meshes])
    for name in _TOGETHER:
        if name in flat and _holds_all(shapes[name], dim):
            return _from_grid(path, [name], [] if ignore else _parts(_read(path, name, shapes[name], read), dim))
    return FileCoordinates({})


def _named(letter: str, shapes: Mapping[str, Shape], rank: int) -> str | None:
    return next((name for name in names_of(letter) if len(shapes.get(name, ())) == rank), None)


def _flat(shape: Shape) -> Shape:
    """The shape of a vector without axes of length 1; other shapes as they are."""
    return (max(shape),) if shape and int(np.prod(shape)) == max(shape) else shape


def _others(names: Collection[str], shapes: Mapping[str, Shape], rank: int) -> bool:
    """Whether there are other arrays, which may be the fields; if not, x and y are fields themselves."""
    return any(len(shape) >= rank for name, shape in shapes.items() if name not in names)


def _read(path: Path, name: str, shape: Shape, read: Callable[[str], np.ndarray]) -> np.ndarray:
    if int(np.prod(shape)) > _MOST:
        raise ValueError(f"{path}: {name!r} has shape {shape}; coordinates have at most {_MOST} numbers")
    return np.asarray(read(name))


def _holds_all(shape: Shape, dim: int) -> bool:
    """Whether an array of this shape may hold the coordinates of all axes."""
    if dim == 1:
        return len(_flat(shape)) == 1
    return len(shape) == dim + 1 and dim in (shape[0], shape[-1])


def _parts(values: np.ndarray, dim: int) -> list[np.ndarray]:
    """The coordinates of each axis on the whole grid; (2, m, 2) is read as (n, m, 2)."""
    if dim == 1:
        return [values.reshape(-1)]
    return list(np.moveaxis(values, -1 if values.shape[-1] == dim else 0, 0))


def _from_grid(path: Path, names: Sequence[str], parts: Sequence[np.ndarray]) -> FileCoordinates:
    """One line for each axis from coordinates on the whole grid: each coordinate must vary along an axis of its own."""
    axes = {letter: _axis(values) for letter, values in zip(SPACE, parts, strict=False)}
    if sorted(axes.values()) != list(range(len(parts))):
        raise ValueError(
            f"{path}: the coordinates in {', '.join(map(repr, names))} are not those of a grid with straight axes; if "
            "they are no coordinates, pass ignore_coordinates=true and placement="
        )
    lines = {}
    for (letter, axis), values in zip(axes.items(), parts, strict=True):
        lines[letter] = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, 0]
    return FileCoordinates(lines, frozenset(names), "".join(sorted(axes, key=axes.__getitem__)))


def _axis(values: np.ndarray) -> int:
    """The only axis along which a coordinate varies; −1 if there is none or more than one."""
    if not values.size or not np.isfinite(values).all():
        return -1
    span = np.ptp(values)
    varying = [k for k in range(values.ndim) if np.ptp(values, axis=k).max() > 1e-6 * span]
    return varying[0] if len(varying) == 1 else -1
