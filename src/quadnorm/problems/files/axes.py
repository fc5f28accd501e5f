"""Which axis of an array is which: by the names of its dimensions, by shapes, or by the caller's letters.

Names and attributes say what an axis is (:mod:`quadnorm.measures.data.names`). An axis whose name says nothing, and
arrays without names, are read as (sample, x, y), (sample, channel, x, y) or (sample, x, y, channel): channels come
first unless the file itself shows that they come last, as another array or the coordinates fit one reading only. Where
both readings fit and channels first is not the natural one, the caller is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.measures.data.names import FLAT, UPRIGHT
from quadnorm.problems.files.model import AXES, SPACE
from quadnorm.problems.files.options import ReadOptions

EARTH = ("vertical", "latitude", "longitude")  # as such files store them, so that (lat, lon) stays (lat, lon)
_ORDERS = (("x", "y", "z", "vertical"), ("z", *EARTH))
_SIMPLE = {"sample": "n", "time": "t", "lead": "t", "channel": "c"}
Load = Callable[[Any], np.ndarray]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Dimension:
    """One axis of an array: its name in the file, what that means, and the coordinates of its nodes, if there are any.

    ``key`` is the same for the same dimension in several arrays; ``cells`` (n, 2) are around the nodes; ``bent`` are
    the names of arrays of coordinates that vary along this dimension and along another one.
    """

    name: str = ""
    kind: str = ""
    key: str = ""
    values: np.ndarray | None = field(default=None, compare=False)
    cells: np.ndarray | None = field(default=None, compare=False)
    bent: tuple[str, ...] = ()
    located: bool = False  # its samples have two coordinates each, and their cells are known


Dimensions = tuple[Dimension, ...]


@dataclass(frozen=True)
class Item:
    """An array of a file: its shape, for each axis a function that reads samples along that axis, and its attributes.

    ``dims`` are its dimensions, if the file names them.
    """

    shape: Shape
    along: Callable[[int], Load]
    dims: Dimensions = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    encoding: Mapping[str, Any] = field(default_factory=dict)  # attributes that xarray has used up

    @property
    def units(self) -> str:
        """The units that the attributes state; empty where they state none."""
        return str(self.attrs.get("units") or self.attrs.get("unit") or "")

    def whole(self) -> np.ndarray:
        """All values."""
        return np.asarray(self.along(0)(slice(None)))


def item(values: np.ndarray) -> Item:
    """An array in memory (or mapped into it) as an :class:`Item`.

    >>> item(np.zeros((4, 4, 9))).along(2)([0, 5]).shape
    (2, 4, 4)
    """
    return Item(
        values.shape, lambda axis: np.moveaxis(values, axis, 0).__getitem__ if values.ndim else lambda _: values
    )


def ways(dims: Dimensions, dim: int) -> list[str]:
    """The ways to read the axes of an array, as letters, the likelier first; none if it does not have ``dim`` spatial
    axes, or more axes than can be used.

    >>> axes = {"time": "time", "level": "vertical", "lat": "latitude", "lon": "longitude"}
    >>> ways(tuple(Dimension(name, kind) for name, kind in axes.items()), 2)
    ['tcxy']
    >>> ways((Dimension(),) * 4, 2)
    ['ncxy', 'nxyc']
    """
    fixed = _by_name(dims, dim)
    free = [k for k, role in enumerate(fixed) if not role]
    need = dim - fixed.count("s")
    leading = "n" not in fixed and len(free) > need  # samples come first
    nodes = tuple(k for k in free if dims[k].values is not None)
    sure = len(nodes) == need and (need > 1 or not (leading and 0 in nodes))
    found: list[str] = []
    for chosen in reversed(list(combinations(free, need))) if need >= 0 else ():  # the last axes first
        space = sorted([*chosen, *(k for k, role in enumerate(fixed) if role == "s")])
        apart = space[-1:] != [space[0] + len(space) - 1]
        if need and (chosen != nodes if sure else apart or (leading and 0 in chosen)):
            continue
        rest = [k for k in free if k not in chosen]  # samples come first, the others are channels
        firsts = [None] if "n" in fixed or not rest else rest[:1] if rest[0] == 0 else [*rest, None]
        for first in firsts:
            roles = ["s" if k in chosen else "n" if k == first else role or "c" for k, role in enumerate(fixed)]
            letters = _letters(dims, roles)
            if letters and letters not in found:
                found.append(letters)
    return found


def _by_name(dims: Dimensions, dim: int) -> list[str]:
    """For each axis what its name says: n, t, c, s for space, or nothing."""
    kinds = [d.kind for d in dims]
    # forecasts: each begins at a time of its own and has steps
    first = {"time": "n"} if {"time", "lead"} <= set(kinds) and "sample" not in kinds else {}
    room = dim - sum(kind in FLAT for kind in kinds)
    roles = []
    for kind in kinds:
        if kind in UPRIGHT:  # levels are one more spatial axis if one is wanted, else channels
            roles.append("s" if room > 0 else "c")
            room -= 1
        else:
            roles.append("s" if kind in FLAT else (_SIMPLE | first).get(kind, ""))
    return roles


def _letters(dims: Dimensions, roles: Sequence[str]) -> str:
    """One letter for each axis; empty if one letter would be needed too often. Two axes of channels are c and d.

    Space is in the order x, y, z, or level, latitude, longitude; as stored where names do not tell.
    """
    places: dict[str, list[int]] = {role: [k for k, r in enumerate(roles) if r == role] for role in "sc"}
    kinds = [dims[k].kind for k in places["s"]]
    for order in _ORDERS:
        if set(kinds) <= set(order) and len(set(kinds)) == len(kinds):
            places["s"].sort(key=lambda k, order=order: order.index(dims[k].kind))
            break
    letters = dict(zip(places["s"], SPACE, strict=False)) | dict(zip(places["c"], "cd", strict=False))
    whole = "".join(role if role in "nt" else letters.get(k, "") for k, role in enumerate(roles))
    return whole if len(whole) == len(roles) == len(set(whole)) else ""


def listed(dims: Dimensions) -> str:
    """The names of dimensions, for messages.

    >>> listed((Dimension("time"), Dimension()))
    '(time, ?)'
    """
    return f"({', '.join(d.name or '?' for d in dims)})"


def name_axes(
    path: Path, items: Mapping[str, Item], options: ReadOptions, counts: Mapping[str, int], stored: str = ""
) -> dict[str, str]:
    """Letters of the axes of each array.

    ``counts`` are the numbers of nodes of axes that have coordinates; ``stored`` is the order of the axes, such as
    "yx", where the coordinates show it.

    >>> items = {name: item(np.zeros(shape)) for name, shape in (("a", (5, 64, 64, 3)), ("u", (5, 64, 64)))}
    >>> name_axes(Path("a.npz"), items, ReadOptions(), {})
    {'a': 'nxyc', 'u': 'nxy'}
    """
    space = SPACE[: options.spatial]
    known = tuple(counts[a] for a in space) if set(space) <= set(counts) else None
    # Coordinates may show that the axes are stored in another order, (sample, y, x).
    orders = (stored,) if stored else (space, space[::-1]) if known else (space,)
    for order in orders:
        readings = {n: _readings(path, n, i, options, order) for n, i in items.items()}
        grids = [{_grid(way, items[n].shape, space) for way in found} - {None} for n, found in readings.items()]
        common = set.intersection(*filter(None, grids)) if any(grids) else set()
        common = {g for g in common if known is None or g == known}
        if not common:
            continue
        unnamed = known is None and options.axes is None and not any(d.kind for i in items.values() for d in i.dims)
        if unnamed and all(_samples_look_last(i.shape, space) for i in items.values()):
            name = next(iter(items))
            raise _ask(path, name, items[name].shape, [readings[name][0], space + "n"])
        return {n: _settled(path, n, items[n].shape, found, common, space) for n, found in readings.items()}
    if known and options.axes is None:  # an array may fit the coordinates only if its last axis is not space
        for name, i in items.items():
            for order in orders:
                if not i.dims and len(i.shape) == len(known) + 1 and i.shape[:-1] == _sizes(known, order):
                    raise _ask(path, name, i.shape, [order + "n", order + "c"])
    return {n: _readings(path, n, i, options, space)[0] for n, i in items.items()}


def _sizes(known: Shape, order: str) -> Shape:
    return tuple(known[SPACE.index(a)] for a in order)


def _readings(path: Path, name: str, i: Item, options: ReadOptions, space: str) -> list[str]:
    """The ways to read an array, channels first before channels last."""
    given = options.letters(name, len(i.shape))
    if given is not None:
        return [given]
    shorter = len(i.shape) - len(space)
    found = (
        ways(i.dims, options.spatial) if i.dims else {1: ["n" + space], 2: ["nc" + space, f"n{space}c"]}.get(shorter)
    )
    if not found:
        has = f"{len(i.shape)} dimensions, {i.shape}; expected samples and {len(space)} spatial axes, with or without "
        named = f"the dimensions {listed(i.dims)} of the sizes {i.shape}; expected {len(space)} spatial axes among them"
        raise ValueError(
            f"{path}: {name!r} has {named if i.dims else has + 'channels'}. Say how many spatial axes there are "
            f"(axes=1, axes=3; dim= of a reader), or name the axes of the array, as in axes={{{name}: nxyt}} "
            "(n sample, t time, c channel, x y z space)"
        )
    if len({"".join(sorted(way)) for way in found}) > 1:
        said = " or ".join(f"axes={{{name}: {way}}}" for way in found)
        raise ValueError(
            f"{path}: {name!r} has the dimensions {listed(i.dims)}; it is not clear which are samples and which are "
            f"channels; say so with {said} (n sample, t time, c channel, x y z space)"
        )
    if len(found) == 1 or options.channels == "auto":
        return found
    return [w for w in found if (w.find("c") < w.index("x")) == (options.channels == "first")] or found


def _grid(letters: str, shape: Shape, space: str) -> Shape | None:
    if len(letters) != len(shape) or not set(space) <= set(letters):
        return None
    return tuple(shape[letters.index(a)] for a in space)


def _settled(path: Path, name: str, shape: Shape, each: Sequence[str], grids: set[Shape | None], space: str) -> str:
    """The only reading of an array on one of the grids; if there are two, channels first where that is natural."""
    fitting = [way for way in each if _grid(way, shape, space) in {*grids, None}]
    if len(fitting) > 1 and not (len(shape) == len(space) + 2 and _channels_first_is_natural(shape)):
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


def _ask(path: Path, name: str, shape: Shape, each: Sequence[str]) -> ValueError:
    words = " or as ".join(f"({', '.join(AXES[a] for a in way)})" for way in each)
    options = " or ".join(f"axes={way}" for way in each)
    if all("c" in way for way in each):
        more = len(shape) - 1
        options = f"channels=first or channels=last (axes={more} if it has {more} spatial axes)"
    return ValueError(f"{path}: {name!r} has shape {shape}, which can be read as {words}; say which with {options}")
