"""The arrays of a file before their axes have names, and what the caller says about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.files.axes.dimensions import Dimensions, ways
from quadnorm.problems.files.model import SPACE

CHANNELS = ("auto", "first", "last")
AXES = {"n": "sample", "t": "time", "c": "channel", "d": "component", "x": "x", "y": "y", "z": "z"}
Load = Callable[[Any], np.ndarray]
Picker = Callable[[Sequence[str]], Sequence[str]]
Shape = tuple[int, ...]


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


@dataclass(frozen=True)
class Request:
    """The caller's arguments about fields and their axes; see :func:`quadnorm.problems.files.read_hdf5`."""

    fields: Sequence[str] | Picker | None = None
    axes: Mapping[str, str] | str | None = None
    spatial: int = 2  # axes, for arrays whose letters are not given
    channels: str = "auto"
    trusting: bool = True  # whether letters must not contradict the names in the file

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

    def is_field(self, name: str, i: Item) -> bool:
        """Whether an array may be a field: its axes are named, or it has samples and ``dim`` axes."""
        if self.letters(name, len(i.shape)) is not None:
            return True
        return bool(ways(i.dims, self.dim)) if i.dims else self.dim + 1 <= len(i.shape) <= self.dim + 2


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
