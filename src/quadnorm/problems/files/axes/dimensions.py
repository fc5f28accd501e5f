"""Dimensions that a file names, such as netCDF's (time, lat, lon): which axis of an array is which, and its nodes.

Names and attributes say what an axis is (:mod:`quadnorm.measures.data.names`); an axis whose name says nothing is
read as in arrays without names: samples first, then channels, then space.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from quadnorm.measures.data.names import FLAT, UPRIGHT
from quadnorm.problems.files.model import SPACE

_EARTH = ("z", "vertical", "latitude", "longitude")  # as such files store them, so that (lat, lon) stays (lat, lon)
_PLAIN = ("x", "y", "z", "vertical")
_WORDS = {"n": "the samples", "t": "time", "c": "the channels", "d": "the channels"}


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
