"""Name the axes of arrays that do not name them: (sample, x, y), (sample, channel, x, y) or (sample, x, y, channel).

Channels come first unless the file itself shows that they come last: another array or the coordinates of the same file
fit one reading only. Where both readings fit and channels first is not the natural one, the caller is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.files.coordinates import FileCoordinates
from quadnorm.problems.files.model import SPACE, Field

CHANNELS = ("auto", "first", "last")
AXES = {"n": "sample", "t": "time", "c": "channel", "d": "component", "x": "x", "y": "y", "z": "z"}
Load = Callable[[Any], np.ndarray]
Picker = Callable[[Sequence[str]], Sequence[str]]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Item:
    """An array of a file: its shape, and for each axis a function that reads samples along that axis."""

    shape: Shape
    along: Callable[[int], Load]
    units: str = ""


def item(values: np.ndarray, units: str = "") -> Item:
    """An array in memory (or mapped into it) as an :class:`Item`.

    >>> item(np.zeros((4, 4, 9))).along(2)([0, 5]).shape
    (2, 4, 4)
    """
    return Item(values.shape, lambda axis: np.moveaxis(values, axis, 0).__getitem__, units)


@dataclass(frozen=True)
class Request:
    """The caller's arguments about fields and their axes; see :func:`quadnorm.problems.files.read_hdf5`."""

    fields: Sequence[str] | Picker | None = None
    axes: Mapping[str, str] | str | None = None
    spatial: int = 2  # axes, for arrays whose letters are not given
    channels: str = "auto"

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise ValueError(unknown("place of the channels", self.channels, CHANNELS))

    @property
    def dim(self) -> int:
        """Number of spatial axes.

        >>> Request(axes={"a": "nx", "u": "nxt"}).dim
        1
        """
        return spatial_axes(self.axes, self.spatial)

    @property
    def named(self) -> tuple[str, ...]:
        """Fields that the caller names; such an array is never taken for coordinates."""
        listed = () if self.fields is None or callable(self.fields) else tuple(self.fields)
        return (*listed, *(self.axes if isinstance(self.axes, Mapping) else ()))

    def letters(self, name: str, rank: int) -> str | None:
        """The letters that the caller gives to an array's axes; letters for all arrays go to those of that rank."""
        if isinstance(self.axes, str):
            return self.axes if len(self.axes) == rank else None
        return (self.axes or {}).get(name)

    def is_field(self, name: str, shape: Shape) -> bool:
        """Whether an array may be a field: its axes are named, or it has samples and ``dim`` axes."""
        return self.letters(name, len(shape)) is not None or self.dim + 1 <= len(shape) <= self.dim + 2


def spatial_axes(axes: Mapping[str, str] | str | None, otherwise: int = 2) -> int:
    """The number of spatial axes that letters name; ``otherwise`` if no letters are given.

    >>> spatial_axes("nxyzt"), spatial_axes(None, 3)
    (3, 3)
    """
    each = [axes] if isinstance(axes, str) else list((axes or {}).values())
    return max((sum(a in SPACE for a in letters) for letters in each), default=otherwise)


def choose(path: Path, wanted: Sequence[str] | Picker | None, present: Sequence[str]) -> list[str]:
    """The wanted names, each of which must be present; all present names if ``wanted`` is None."""
    names = list(wanted(present)) if callable(wanted) else list(wanted or present)
    for name in names:
        if name not in present:
            raise ValueError(f"{path}: " + unknown("field", name, present))
    return names


def as_fields(path: Path, items: Mapping[str, Item], request: Request, lines: FileCoordinates) -> dict[str, Field]:
    """The wanted arrays as fields; coordinates in the file help to name their axes."""
    listed = request.fields if request.fields is not None and not callable(request.fields) else None
    likely = list(items) if listed else [name for name, i in items.items() if request.is_field(name, i.shape)]
    if not likely:
        raise _no_fields(path, items, request)
    chosen = {name: items[name] for name in choose(path, request.fields, likely)}
    if isinstance(request.axes, str) and all(len(i.shape) != len(request.axes) for i in chosen.values()):
        held = ", ".join(f"{name} {i.shape}" for name, i in chosen.items())
        raise ValueError(f"{path}: axes={request.axes} name {len(request.axes)} axes, which no array has: {held}")
    letters = name_axes(path, {name: i.shape for name, i in chosen.items()}, request, lines)
    return {name: _field(path, name, i, letters[name]) for name, i in chosen.items()}


def _field(path: Path, name: str, i: Item, letters: str) -> Field:
    first = max(letters.find("n"), 0)  # samples may be stored last, as in MATLAB's (x, y, sample)
    fits = len(letters) == len(i.shape)
    order = letters[first] + letters[:first] + letters[first + 1 :] if fits else letters
    shape = (i.shape[first], *i.shape[:first], *i.shape[first + 1 :]) if fits and i.shape else i.shape
    return Field(name, order, shape, i.along(first if fits else 0), path, i.units)


def name_axes(path: Path, shapes: Mapping[str, Shape], request: Request, lines: FileCoordinates) -> dict[str, str]:
    """Letters of the axes of each array.

    >>> shapes = {"a": (5, 64, 64, 3), "u": (5, 64, 64)}
    >>> name_axes(Path("a.npz"), shapes, Request(), FileCoordinates({}))
    {'a': 'nxyc', 'u': 'nxy'}
    """
    space = SPACE[: request.dim]
    known = tuple(lines.counts[a] for a in space) if set(space) <= set(lines.counts) else None
    # Coordinates may show that the axes are stored in another order, (sample, y, x).
    orders = (lines.order,) if lines.order else (space, space[::-1]) if known else (space,)
    for order in orders:
        readings = {name: _readings(path, name, shape, request, order) for name, shape in shapes.items()}
        grids = [g for g in _grids(readings, shapes, space) if known is None or g == known]
        if grids:
            if known is None and request.axes is None and all(_samples_look_last(s, space) for s in shapes.values()):
                name, shape = next(iter(shapes.items()))
                raise _ask(path, name, shape, [readings[name][0], space + "n"])
            return {name: _settled(path, name, shapes[name], ways, grids, space) for name, ways in readings.items()}
    return {name: _readings(path, name, shape, request, space)[0] for name, shape in shapes.items()}


def _readings(path: Path, name: str, shape: Shape, request: Request, space: str) -> list[str]:
    """The ways to read an array, channels first before channels last."""
    given = request.letters(name, len(shape))
    if given is not None:
        return [given]
    if len(shape) == request.dim + 1:
        return ["n" + space]
    if len(shape) == request.dim + 2:
        ways = {"first": ["nc" + space], "last": ["n" + space + "c"]}
        return ways.get(request.channels) or ways["first"] + ways["last"]
    raise ValueError(
        f"{path}: {name!r} has {len(shape)} dimensions, {shape}; expected samples and {request.dim} spatial axes, with "
        f"or without channels. Say how many spatial axes there are (axes=1, axes=3; dim= of a reader), or name the "
        f"axes of the array, as in axes={{{name}: nxyt}} (n sample, t time, c channel, x y z space)"
    )


def _grids(readings: Mapping[str, list[str]], shapes: Mapping[str, Shape], space: str) -> list[Shape]:
    """The grids on which every array can be read."""
    each = [{g for way in ways if (g := _grid(way, shapes[name], space))} for name, ways in readings.items()]
    each = [grids for grids in each if grids]
    return sorted(set.intersection(*each)) if each else []


def _grid(letters: str, shape: Shape, space: str) -> Shape | None:
    if len(letters) != len(shape) or not set(space) <= set(letters):
        return None
    return tuple(shape[letters.index(a)] for a in space)


def _settled(path: Path, name: str, shape: Shape, ways: Sequence[str], grids: Sequence[Shape], space: str) -> str:
    """The only reading of an array on one of the grids; if there are two, channels first where that is natural."""
    fitting = [way for way in ways if _grid(way, shape, space) in (*grids, None)]
    if len(fitting) > 1 and not _channels_first_is_natural(shape):
        raise _ask(path, name, shape, fitting)
    return fitting[0]


def _channels_first_is_natural(shape: Shape) -> bool:
    """Fewer channels than nodes along each axis, and no square grid that channels last would give instead.

    >>> [_channels_first_is_natural(s) for s in ((9, 3, 64, 64), (9, 64, 64, 3), (9, 16, 16, 20))]
    [True, False, False]
    """
    _, channels, *grid = shape
    squarer = len(set(shape[1:-1])) == 1 < len(set(grid))
    return channels < min(grid) and not (squarer and len(grid) > 1)


def _samples_look_last(shape: Shape, space: str) -> bool:
    """Whether the grid is square only if the last axis runs over samples, as in MATLAB's (64, 64, 100)."""
    return len(shape) == len(space) + 1 > 2 and len(set(shape[:-1])) == 1 < len(set(shape))


def _ask(path: Path, name: str, shape: Shape, ways: Sequence[str]) -> ValueError:
    words = " or as ".join(f"({', '.join(AXES[a] for a in way)})" for way in ways)
    options = " or ".join(f"axes={way}" for way in ways)
    if all("c" in way for way in ways):
        more = len(shape) - 1
        options = f"channels=first or channels=last (axes={more} if it has {more} spatial axes)"
    return ValueError(f"{path}: {name!r} has shape {shape}, which can be read as {words}; say which with {options}")


def _no_fields(path: Path, items: Mapping[str, Item], request: Request) -> ValueError:
    held = ", ".join(f"{name} {i.shape}" for name, i in items.items()) or "no array of numbers"
    return ValueError(
        f"{path}: no fields found: expected arrays with samples and {request.dim} spatial axes, got {held}. Say how "
        "many spatial axes there are (axes=1, axes=3; dim= of a reader), or name the axes, as in axes=xy for one "
        "sample without a sample axis"
    )
