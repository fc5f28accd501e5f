"""How a user's files are to be read: the parameters that ``problem("files")`` and ``quadnorm data show`` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.placement import PLACEMENTS, Placements
from quadnorm.problems.files import takes
from quadnorm.problems.files.axes import AXES
from quadnorm.problems.files.options import CHANNELS, spatial_axes
from quadnorm.problems.points import POINTS

Axes = int | str | Mapping[str, str]


@dataclass(frozen=True)
class FileReading:
    """Arguments of the readers, checked, in a form that can be compared and hashed.

    >>> FileReading.of(axes={"u": "nxyc"}, placement=["endpoint", "periodic"]).options("mine.npz")
    {'placement': ('endpoint', 'periodic'), 'axes': {'u': 'nxyc'}}
    """

    placement: Placements | None = None
    domain: tuple[Any, ...] | None = None
    axes: int | str | tuple[tuple[str, str], ...] = 2
    channels: str = "auto"
    ignore_coordinates: bool = False

    @classmethod
    def of(
        cls,
        placement: Any = "auto",
        domain: Any = None,
        axes: Any = 2,
        channels: Any = "auto",
        ignore_coordinates: Any = False,
    ) -> FileReading:
        """The reading that parameters describe; a ValueError names the one that is wrong."""
        if channels not in CHANNELS:
            raise ValueError(unknown("place of the channels", channels, CHANNELS))
        if not isinstance(ignore_coordinates, bool):
            raise ValueError(f"ignore_coordinates must be true or false, got {ignore_coordinates!r}")
        return cls(_placement(placement), _domain(domain), _axes(axes), channels, ignore_coordinates)

    @property
    def letters(self) -> str | dict[str, str] | None:
        """The letters of axes, if they are given."""
        return None if isinstance(self.axes, int) else self.axes if isinstance(self.axes, str) else dict(self.axes)

    @property
    def dim(self) -> int:
        """The number of spatial axes, for files whose layout does not say it."""
        return self.axes if isinstance(self.axes, int) else spatial_axes(self.letters)

    def options(self, path: str | Path) -> dict[str, Any]:
        """The arguments of :func:`~quadnorm.problems.files.read_fields` for one file; only what differs from its
        defaults, as the readers of public layouts have no others."""
        options: dict[str, Any] = {}
        if self.placement is not None:
            options["placement"] = self.placement
        if self.domain is not None:
            options["domain"] = self.domain
        if self.letters is not None:
            options["axes"] = self.letters
        elif self.axes != 2 and takes(path, "dim"):
            options["dim"] = self.axes
        if self.channels != "auto":
            options["channels"] = self.channels
        if self.ignore_coordinates:
            options["ignore_coordinates"] = True
        return options


def _placement(given: Any) -> Placements | None:
    if given is None or given == "auto":
        return None
    if given == POINTS:  # what the files say of each node is enough
        return "coordinates"
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not names:
        raise ValueError(
            f"placement must be one of {', '.join(PLACEMENTS)}, or a list with one of them for each axis; got {given!r}"
        )
    for name in names:
        if name not in PLACEMENTS:
            hint = "; for one placement per axis write [endpoint, periodic]" if "," in str(name) else ""
            raise ValueError(unknown("placement", name, ("auto", *PLACEMENTS, POINTS)) + hint)
    return given if isinstance(given, str) else tuple(names)


def _axes(given: Any) -> int | str | tuple[tuple[str, str], ...]:
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 3:
        return given
    each = [given] if isinstance(given, str) else list(given.values()) if isinstance(given, Mapping) else []
    if not each or any(not isinstance(v, str) or not v or set(v) - set(AXES) for v in each):
        raise ValueError(
            "axes must be the number of spatial axes (1, 2 or 3), or the letters of an array's axes, as in axes=nxyc, "
            "or letters for each field, as in axes={a: nxyc, u: nxy} (n sample, t time, c channel, x y z space); "
            f"got {given!r}"
        )
    if isinstance(given, str):
        return given
    return tuple(sorted((str(name), letters) for name, letters in given.items()))


def _domain(given: Any) -> tuple[Any, ...] | None:
    """The ends of the domain as numbers in tuples; their number and order are checked when the file is opened."""
    if given is None:
        return None
    try:
        ends = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if ends.shape != (2,) and (ends.ndim != 2 or ends.shape[1] != 2):
        raise ValueError(f"domain must be [lo, hi], or one such pair for each axis, [[0, 1], [0, 2]]; got {given!r}")
    return tuple(ends.tolist()) if ends.ndim == 1 else tuple(map(tuple, ends.tolist()))
