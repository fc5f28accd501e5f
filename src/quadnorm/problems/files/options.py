"""What the caller of a reader says about a file: which fields, the letters of their axes, where their nodes lie."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.data.placements import Domain, checked
from quadnorm.measures.placement import PLACEMENTS, Placements
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.points import POINTS

AXES = {"n": "sample", "t": "time", "c": "channel", "d": "component", "x": "x", "y": "y", "z": "z"}
CHANNELS = ("auto", "first", "last")
Picker = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class ReadOptions:
    """The arguments of all readers.

    Args:
        fields: names of the arrays, "group/u" inside groups; default every array with samples and ``dim`` axes.
        axes: name → letters of its dimensions, n sample, t time, c channel, x y z space; or letters for all arrays
            with that many dimensions. Default: what the names of the dimensions say, else "nxy" or "ncxy".
        dim: number of spatial axes, if ``axes`` does not say it.
        channels: ``first``, ``last``, or ``auto``: first, unless the file shows that they are last.
        placement: where the nodes lie, one word or one for each axis. Not needed if the file has an attribute
            ``placement``, or coordinates (:mod:`quadnorm.problems.files.coordinates`, or those of its dimensions)
            that fit one placement only.
        domain: (lo, hi), or one pair for each axis.
        ignore_coordinates: True if the file's coordinates are wrong; they are then built from placement and domain.
    """

    fields: Sequence[str] | Picker | None = None
    axes: Mapping[str, str] | str | None = None
    dim: int = 2
    channels: str = "auto"
    placement: str | Sequence[str] | None = None
    domain: Any = None
    ignore_coordinates: bool = False

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise ValueError(unknown("place of the channels", self.channels, CHANNELS))

    def __hash__(self) -> int:
        return hash(repr(self))

    @classmethod
    def of(
        cls,
        placement: Any = "auto",
        domain: Any = None,
        axes: Any = 2,
        channels: str = "auto",
        ignore_coordinates: Any = False,
    ) -> "ReadOptions":
        """The options that the parameters of ``problem("files")`` and ``quadnorm data show`` describe, which may come
        from a config; a ValueError names the one that is wrong.

        >>> ReadOptions.of(placement=["endpoint", "periodic"], axes={"u": "nxyc"}).changed
        {'axes': {'u': 'nxyc'}, 'placement': ('endpoint', 'periodic')}
        """
        if not isinstance(ignore_coordinates, bool):
            raise ValueError(f"ignore_coordinates must be true or false, got {ignore_coordinates!r}")
        letters, dim = _axes(axes)
        return cls(None, letters, dim, channels, _placement(placement), _domain(domain), ignore_coordinates)

    @property
    def changed(self) -> dict[str, Any]:
        """What differs from the defaults, as arguments: readers of published layouts take few of them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @property
    def spatial(self) -> int:
        """Number of spatial axes.

        >>> ReadOptions(axes={"a": "nx", "u": "nxt"}).spatial
        1
        """
        return spatial_axes(self.axes, self.dim)

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

    def per_axis(self, dim: int, path: Path) -> list[tuple[str | None, Domain | None]]:
        """Placement and domain of each axis, None if not given."""
        names = list(self.placement) if isinstance(self.placement, (list, tuple)) else [self.placement] * dim
        domains: Sequence[Domain | None] = [None] * dim
        if self.domain is not None:
            try:
                ends = np.asarray(self.domain, dtype=np.float64)
            except (TypeError, ValueError):
                ends = np.empty(0)
            fits = ends.shape in ((2,), (dim, 2)) and bool(np.isfinite(ends).all())
            if not fits or not bool((ends[..., 0] < ends[..., 1]).all()):
                raise ValueError(
                    f"{path}: domain must be [lo, hi] with lo < hi, or {dim} of them, one for each axis, as in "
                    f"[[0, 1], [0, 2]]; got {self.domain!r}"
                )
            domains = [(float(lo), float(hi)) for lo, hi in np.broadcast_to(ends, (dim, 2))]
        if len(names) != dim:
            raise ValueError(f"{path}: placement takes one word, or one for each of {dim} axes; got {self.placement!r}")
        return [(None if p is None else checked(str(p)), d) for p, d in zip(names, domains, strict=True)]


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


def _axes(given: Any) -> tuple[str | dict[str, str] | None, int]:
    """Letters of the axes, if they are given, and the number of spatial axes."""
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 3:
        return None, given
    each = [given] if isinstance(given, str) else list(given.values()) if isinstance(given, Mapping) else []
    if not each or any(not isinstance(v, str) or not v or set(v) - set(AXES) for v in each):
        raise ValueError(
            "axes must be the number of spatial axes (1, 2 or 3), or the letters of an array's axes, as in axes=nxyc, "
            "or letters for each field, as in axes={a: nxyc, u: nxy} (n sample, t time, c channel, x y z space); "
            f"got {given!r}"
        )
    letters = given if isinstance(given, str) else {str(name): each for name, each in sorted(given.items())}
    return letters, spatial_axes(letters)


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
