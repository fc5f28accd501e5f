"""What the caller of a reader says about a file: which fields, the letters of their axes, where their nodes lie."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.data.placements import PLACEMENTS, Domain
from quadnorm.problems.files.model import AXES, SPACE
from quadnorm.problems.points import POINTS

CHANNELS = ("auto", "first", "last")
Picker = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True, eq=False)
class ReadOptions:
    """The arguments of all readers, checked; they may come from a config.

    Args:
        fields: names of the arrays, "group/u" inside groups, or a function that picks them; default every array with
            samples and ``dim`` axes.
        axes: name → letters of its dimensions, n sample, t time, c channel, x y z space; or letters for all arrays
            with that many dimensions; or the number of spatial axes. Default: what the names of the dimensions say,
            else "nxy" or "ncxy".
        dim: number of spatial axes, if ``axes`` does not say it.
        channels: ``first``, ``last``, or ``auto``: first, unless the file shows that they are last.
        placement: where the nodes lie, one word or one for each axis. Not needed if the file has an attribute
            ``placement``, or coordinates (:mod:`quadnorm.problems.files.coordinates`, or those of its dimensions)
            that fit one placement only.
        domain: (lo, hi), or one pair for each axis.
        ignore_coordinates: True if the file's coordinates are wrong; they are then built from placement and domain.

    >>> ReadOptions(placement=["endpoint", "periodic"], axes={"u": "nxyc"}).changed
    {'axes': {'u': 'nxyc'}, 'placement': ('endpoint', 'periodic')}
    """

    fields: Sequence[str] | Picker | None = None
    axes: Any = None
    dim: int = 2
    channels: str = "auto"
    placement: Any = None
    domain: Any = None
    ignore_coordinates: bool = False

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise ValueError(unknown("place of the channels", self.channels, CHANNELS))
        if not isinstance(self.ignore_coordinates, bool):
            raise ValueError(f"ignore_coordinates must be true or false, got {self.ignore_coordinates!r}")
        letters, dim = (None, self.dim) if self.axes is None else _axes(self.axes)
        checked = {"axes": letters, "dim": dim, "placement": _placement(self.placement), "domain": _domain(self.domain)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def changed(self) -> dict[str, Any]:
        """What differs from the defaults, as arguments."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @property
    def spatial(self) -> int:
        """Number of spatial axes.

        >>> ReadOptions(axes={"a": "nx", "u": "nxt"}).spatial
        1
        """
        each = [self.axes] if isinstance(self.axes, str) else list((self.axes or {}).values())
        return max((sum(a in SPACE for a in letters) for letters in each), default=self.dim)

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

    def choose(self, path: Path, present: Sequence[str]) -> list[str]:
        """The wanted names, each of which must be present; all present names if none are wanted."""
        names = list(self.fields(present)) if callable(self.fields) else list(self.fields or present)
        for name in names:
            if name not in present:
                raise ValueError(f"{path}: " + unknown("field", name, present))
        return names

    def per_axis(self, dim: int, path: Path) -> list[tuple[str | None, Domain | None]]:
        """Placement and domain of each axis, None if not given."""
        names = list(self.placement) if isinstance(self.placement, tuple) else [self.placement] * dim
        if len(names) != dim:
            raise ValueError(f"{path}: placement takes one word, or one for each of {dim} axes; got {self.placement!r}")
        if self.domain is None:
            return [(name, None) for name in names]
        if np.shape(self.domain) not in ((2,), (dim, 2)):
            raise ValueError(f"{path}: {_DOMAIN}; got {self.domain!r} for {dim} axes")
        ends = np.broadcast_to(self.domain, (dim, 2)).tolist()
        return [(name, (lo, hi)) for name, (lo, hi) in zip(names, ends, strict=True)]


_DOMAIN = "domain must be [lo, hi] with lo < hi, or one such pair for each axis, as in [[0, 1], [0, 2]]"


def _placement(given: Any) -> str | tuple[str, ...] | None:
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


def _axes(given: Any) -> tuple[str | dict[str, str] | None, int]:
    """Letters of the axes, if they are given, and the number of spatial axes."""
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 3:
        return None, given
    each = [given] if isinstance(given, str) else list(given.values()) if isinstance(given, Mapping) else []
    if not each or any(not isinstance(v, str) or not v or set(v) - set(AXES) for v in each):
        raise ValueError(
            "axes must be the number of spatial axes (1, 2 or 3), or letters that say which axes an array has, as in "
            "axes=nxyc, or letters for each field, as in axes={a: nxyc, u: nxy} (n sample, t time, c channel, x y z "
            f"space); got {given!r}"
        )
    letters = given if isinstance(given, str) else {str(name): each for name, each in sorted(given.items())}
    return letters, 2


def _domain(given: Any) -> tuple[Any, ...] | None:
    """The ends of the domain as numbers in tuples; their number is checked when the file is opened."""
    if given is None:
        return None
    try:
        ends = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)
    right = ends.shape == (2,) or (ends.ndim == 2 and ends.shape[1] == 2)
    if not right or not np.isfinite(ends).all() or not (ends[..., 0] < ends[..., 1]).all():
        raise ValueError(f"{_DOMAIN}; got {given!r}")
    return tuple(ends.tolist()) if ends.ndim == 1 else tuple(map(tuple, ends.tolist()))
