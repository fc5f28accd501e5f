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
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.files.options import AXES, ReadOptions

_EARTH = ("z", "vertical", "latitude", "longitude")  # as such files store them, so that (lat, lon) stays (lat, lon)
_PLAIN = ("x", "y", "z", "vertical")
_WORDS = {"n": "the samples", "t": "time", "c": "the channels", "d": "the channels"}
Load = Callable[[Any], np.ndarray]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Dimension:
    """One axis of an array: its name in the file, what that means, and the coordinates of its nodes, if there are any.

    ``key`` is the same for the same dimension in several arrays; ``bent`` are the names of arrays of coordinates that
    vary along this dimension and along another one.
    """

    name: str = ""
    kind: str = ""
    key: str = ""
    values: np.ndarray | None = field(default=None, compare=False)
    bent: tuple[str, ...] = ()
    located: bool = False  # its samples have two coordinates each, and their cells are known

    @property
    def word(self) -> str:
        """The name to print: latitude and longitude whatever the file calls them."""
        return self.kind if self.kind in ("latitude", "longitude") else self.name


Dimensions = tuple[Dimension, ...]


@dataclass(frozen=True)
class Item:
    """An array of a file: its shape, and for each axis a function that reads samples along that axis.

    ``dims`` are its dimensions, if the file names them.
    """

    shape: Shape
    along: Callable[[int], Load]
    units: str = ""
    dims: Dimensions = ()


def item(values: np.ndarray, units: str = "") -> Item:
    """An array in memory (or mapped into it) as an :class:`Item`.

    >>> item(np.zeros((4, 4, 9))).along(2)([0, 5]).shape
    (2, 4, 4)
    """
    return Item(values.shape, lambda axis: np.moveaxis(values, axis, 0).__getitem__, units)


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
    found: list[str] = []
    for chosen in _spatial(dims, fixed, free, need):
        rest = [k for k in free if k not in chosen]
        roles = ["s" if k in chosen else role for k, role in enumerate(fixed)]
        for others in _others(roles, rest):
            letters = _letters(dims, others)
            if letters and letters not in found:
                found.append(letters)
    return found


def _by_name(dims: Dimensions, dim: int) -> list[str]:
    """For each axis what its name says: n, t, c, s for space, or nothing."""
    kinds = [d.kind for d in dims]
    simple = {"sample": "n", "time": "t", "lead": "t", "channel": "c"}
    if {"time", "lead"} <= set(kinds) and "sample" not in kinds:
        simple["time"] = "n"  # forecasts: each begins at a time of its own and has steps
    room = dim - sum(kind in FLAT for kind in kinds)
    roles = []
    for kind in kinds:
        if kind in UPRIGHT:  # levels are one more spatial axis if one is wanted, else channels
            roles.append("s" if room > 0 else "c")
            room -= 1
        else:
            roles.append("s" if kind in FLAT else simple.get(kind, ""))
    return roles


def _spatial(dims: Dimensions, fixed: Sequence[str], free: Sequence[int], need: int) -> list[tuple[int, ...]]:
    """Which of the axes without a known name may be the missing spatial ones; the last ones first."""
    if need < 0 or need > len(free):
        return []
    if need == 0:
        return [()]
    leading = "n" not in fixed and len(free) > need  # samples come first
    allowed = [k for k in free if k or not leading]
    with_nodes = tuple(k for k in free if dims[k].values is not None)
    if len(with_nodes) == need and (need > 1 or set(with_nodes) <= set(allowed)):
        return [with_nodes]
    together = []
    for chosen in reversed(list(combinations(allowed, need))):
        places = sorted([*chosen, *(k for k, role in enumerate(fixed) if role == "s")])
        if places == list(range(places[0], places[0] + len(places))):
            together.append(chosen)
    return together


def _others(roles: Sequence[str], rest: Sequence[int]) -> list[list[str]]:
    """What the axes without a known name may be that are not spatial: samples come first, the others are channels."""
    if not rest:
        return [list(roles)]
    if "n" not in roles and rest[0] == 0:
        return [["n" if k == 0 else "c" if k in rest else role for k, role in enumerate(roles)]]
    channels = ["c" if k in rest else role for k, role in enumerate(roles)]
    if "n" in roles:
        return [channels]
    samples = [["n" if k == one else role for k, role in enumerate(channels)] for one in rest]
    return [*samples, channels]


def _letters(dims: Dimensions, roles: Sequence[str]) -> str:
    """One letter for each axis; empty if one letter would be needed too often. Two axes of channels are c and d."""
    spatial = [k for k, role in enumerate(roles) if role == "s"]
    letters = dict(zip(_ordered(dims, spatial), SPACE, strict=False))
    channels = [k for k, role in enumerate(roles) if role == "c"]
    letters |= dict(zip(channels, "cd", strict=False))
    letters |= {k: role for k, role in enumerate(roles) if role in ("n", "t")}
    whole = "".join(letters.get(k, "") for k in range(len(roles)))
    return whole if len(whole) == len(roles) == len(set(whole)) else ""


def _ordered(dims: Dimensions, spatial: Sequence[int]) -> list[int]:
    """The spatial axes in the order x, y, z, or level, latitude, longitude; as stored where names do not tell."""
    kinds = [dims[k].kind for k in spatial]
    for order in (_PLAIN, _EARTH):
        if set(kinds) <= set(order) and len(set(kinds)) == len(kinds):
            return sorted(spatial, key=lambda k: order.index(dims[k].kind))
    return list(spatial)


def listed(dims: Dimensions) -> str:
    """The names of dimensions, for messages.

    >>> listed((Dimension("time"), Dimension()))
    '(time, ?)'
    """
    return f"({', '.join(d.name or '?' for d in dims)})"


def check_letters(path: Path, name: str, letters: str, dims: Dimensions) -> None:
    """Raise a ValueError if letters that the caller gave contradict the names in the file."""
    for letter, d in zip(letters, dims, strict=False):
        if letter not in SPACE and d.kind in FLAT:
            raise ValueError(
                f"{path}: axes={letters} say that an axis of {name!r} is {_WORDS.get(letter, letter)}, but the file "
                f"calls that axis {d.name!r}; the file has {listed(dims)}. Give the "
                "letters in this order, or, if the file's names are wrong, pass ignore_coordinates=true and placement="
            )


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
    shapes = {n: i.shape for n, i in items.items()}
    known = tuple(counts[a] for a in space) if set(space) <= set(counts) else None
    # Coordinates may show that the axes are stored in another order, (sample, y, x).
    orders = (stored,) if stored else (space, space[::-1]) if known else (space,)
    for order in orders:
        readings = {n: _readings(path, n, i, options, order) for n, i in items.items()}
        grids = [g for g in _grids(readings, shapes, space) if known is None or g == known]
        if grids:
            unnamed = known is None and options.axes is None and not any(d.kind for i in items.values() for d in i.dims)
            if unnamed and all(_samples_look_last(shape, space) for shape in shapes.values()):
                name, shape = next(iter(shapes.items()))
                raise _ask(path, name, shape, [readings[name][0], space + "n"])
            return {name: _settled(path, name, shapes[name], ways_, grids, space) for name, ways_ in readings.items()}
    if known and options.axes is None:
        _ask_about_last(path, {n: i.shape for n, i in items.items() if not i.dims}, orders, known)
    return {n: _readings(path, n, i, options, space)[0] for n, i in items.items()}


def _readings(path: Path, name: str, i: Item, options: ReadOptions, space: str) -> list[str]:
    """The ways to read an array, channels first before channels last."""
    given = options.letters(name, len(i.shape))
    if given is not None:
        return [given]
    found = ["n" + space] if len(i.shape) == len(space) + 1 else []
    if i.dims:
        found = ways(i.dims, options.spatial)
    elif len(i.shape) == len(space) + 2:
        found = ["nc" + space, "n" + space + "c"]
    if not found:
        raise _other_axes(path, name, i, options.spatial)
    if len({"".join(sorted(way)) for way in found}) > 1:
        said = " or ".join(f"axes={{{name}: {way}}}" for way in found)
        raise ValueError(
            f"{path}: {name!r} has the dimensions {listed(i.dims)}; it is not clear which are samples and which are "
            f"channels; say so with {said} (n sample, t time, c channel, x y z space)"
        )
    return found if len(found) == 1 else _with_channels(found, options.channels)


def _other_axes(path: Path, name: str, i: Item, spatial: int) -> ValueError:
    has = f"{len(i.shape)} dimensions, {i.shape}; expected samples and {spatial} spatial axes, with or without channels"
    if i.dims:
        has = f"the dimensions {listed(i.dims)} of the sizes {i.shape}; expected {spatial} spatial axes among them"
    return ValueError(
        f"{path}: {name!r} has {has}. Say how many spatial axes there are (axes=1, axes=3; dim= of a reader), or name "
        f"the axes of the array, as in axes={{{name}: nxyt}} (n sample, t time, c channel, x y z space)"
    )


def _with_channels(each: list[str], channels: str) -> list[str]:
    """The ways with channels before space, or those with channels after it, if the caller says so."""
    if channels == "auto":
        return each
    chosen = [way for way in each if "c" in way and (way.index("c") < way.index("x")) == (channels == "first")]
    return chosen or each


def _ask_about_last(path: Path, shapes: Mapping[str, Shape], orders: Sequence[str], known: Shape) -> None:
    """Raise an error for an array that fits the coordinates only if its last axis is not space."""
    for name, shape in shapes.items():
        for order in orders:
            if len(shape) == len(known) + 1 and shape[:-1] == tuple(known[SPACE.index(a)] for a in order):
                raise _ask(path, name, shape, [order + "n", order + "c"])


def _grids(readings: Mapping[str, list[str]], shapes: Mapping[str, Shape], space: str) -> list[Shape]:
    """The grids on which every array can be read."""
    each = [{g for way in found if (g := _grid(way, shapes[name], space))} for name, found in readings.items()]
    each = [grids for grids in each if grids]
    return sorted(set.intersection(*each)) if each else []


def _grid(letters: str, shape: Shape, space: str) -> Shape | None:
    if len(letters) != len(shape) or not set(space) <= set(letters):
        return None
    return tuple(shape[letters.index(a)] for a in space)


def _settled(path: Path, name: str, shape: Shape, each: Sequence[str], grids: Sequence[Shape], space: str) -> str:
    """The only reading of an array on one of the grids; if there are two, channels first where that is natural."""
    fitting = [way for way in each if _grid(way, shape, space) in (*grids, None)]
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
