"""From arrays to a :class:`FieldFile`: name the axes, compare counts, find the placement or ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.problems.files.model import SPACE, Field, FieldFile
from quadnorm.problems.files.nodes import Domain, checked, nodes, readings, spacing, spans

_ANY_PLACEMENT = "placement= ('endpoint', 'cell', 'periodic', 'left', 'interior')"


@dataclass(frozen=True)
class Asked:
    """The caller's arguments about the nodes, for all axes or one entry per axis."""

    placement: str | Sequence[str] | None = None
    domain: Domain | Sequence[Domain] | None = None
    ignore_coordinates: bool = False

    def per_axis(self, dim: int, path: Path) -> list[tuple[str | None, Domain | None]]:
        """Placement and domain of each axis, None if not given."""
        names = [self.placement] * dim if self.placement is None or isinstance(self.placement, str) else self.placement
        domains: Sequence[Domain | None] = [None] * dim
        if self.domain is not None:
            ends = np.asarray(self.domain, dtype=np.float64)
            if ends.shape not in ((2,), (dim, 2)) or not bool((ends[..., 0] < ends[..., 1]).all()):
                raise ValueError(f"{path}: domain must be (lo, hi) with lo < hi, or {dim} of them, got {self.domain!r}")
            domains = [(float(lo), float(hi)) for lo, hi in np.broadcast_to(ends, (dim, 2))]
        if len(names) != dim:
            raise ValueError(f"{path}: placement takes one word, or one for each of {dim} axes; got {self.placement!r}")
        return [(None if p is None else checked(p), d) for p, d in zip(names, domains, strict=True)]


def default_axes(name: str, ndim: int, dim: int, path: Path) -> str:
    """Axes of an array that does not name them: samples, then one optional channel axis, then space.

    >>> default_axes("x", 4, 2, Path("darcy.pt"))
    'ncxy'
    """
    if ndim == dim + 1:
        return "n" + SPACE[:dim]
    if ndim == dim + 2:
        return "nc" + SPACE[:dim]
    raise ValueError(
        f"{path}: {name!r} has {ndim} dimensions; expected samples and {dim} spatial axes, with or without channels. "
        f"Name its axes, e.g. axes={{{name!r}: 'nxyt'}} (n sample, t time, c channel, x y z space), or pass dim="
    )


def assemble(
    path: Path,
    layout: str,
    fields: Mapping[str, Field],
    asked: Asked,
    coordinates: Mapping[str, np.ndarray] | None = None,
    known: str | Sequence[str | None] | None = None,
    times: np.ndarray | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> FieldFile:
    """Check the fields against each other and find where the nodes lie.

    Args:
        path: the file, named in every error.
        layout: name of the file's layout, kept in the result.
        fields: name → field; all share one spatial grid.
        asked: the caller's arguments, which must not contradict the file.
        coordinates: letter of the axis → 1-D coordinates, if the file has them.
        known: placement that the layout itself prescribes, for all axes or one entry per axis.
        times: the times of the time axis, if the file has them.
        attributes: parameters stored in the file.
    """
    if not fields:
        raise ValueError(f"{path}: no fields found; name them with fields=")
    _same_counts(path, fields)
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    given = {} if asked.ignore_coordinates or coordinates is None else coordinates
    law = [known] * len(letters) if known is None or isinstance(known, str) else list(known)
    axes = [
        _Axis(path, letter, sizes[letter], given.get(letter), want, domain, by_layout).settled()
        for letter, (want, domain), by_layout in zip(letters, asked.per_axis(len(letters), path), law, strict=True)
    ]
    placement, nodes_, domain = (tuple(part) for part in zip(*axes, strict=True))
    return FieldFile(path, layout, dict(fields), placement, nodes_, domain, times, dict(attributes or {}))


@dataclass(frozen=True)
class _Axis:
    """One axis as described by the file, its layout and the caller; they must agree, and determine the placement."""

    path: Path
    letter: str
    count: int
    coordinates: np.ndarray | None
    want: str | None  # the caller's placement
    domain: Domain | None  # the caller's domain
    known: str | None  # the layout's placement

    def settled(self) -> tuple[str, np.ndarray, Domain]:
        """Placement, nodes and domain."""
        placement = self.want or (None if self.known is None else checked(self.known))
        if self.coordinates is None:
            return self._by_placement(placement)
        x = self._checked(self.coordinates)
        if placement == "coordinates" or (placement is None and spacing(x) is None):
            return "coordinates", x, self.domain or (float(x[0]), float(x[-1]))
        possible = readings(x, self.domain)
        if placement is None:
            return self._only(x, possible)
        if placement == "periodic" and "periodic" not in possible and "cell" in possible:
            return placement, x, possible["cell"]  # on a circle no node is the first: cell centres are periodic too
        if placement in possible:
            return placement, x, possible[placement]
        if possible or self.domain is not None or spacing(x) is None:
            raise self._contradiction(x, placement, possible)
        return placement, x, spans(x)[placement]  # no domain with round ends fits, so nothing contradicts the placement

    def _by_placement(self, placement: str | None) -> tuple[str, np.ndarray, Domain]:
        if placement is None or placement == "coordinates":
            raise ValueError(
                f"{self.path}: the file does not say where the {self.count} nodes of axis {self.letter} lie; pass "
                "placement='endpoint' (both ends stored), 'cell' (centres of cells), 'periodic' or 'left' (first end "
                "stored, last not), 'interior' (neither end stored)"
            )
        ends = self.domain or (0.0, 1.0)
        return placement, nodes(placement, self.count, ends), ends

    def _checked(self, coordinates: np.ndarray) -> np.ndarray:
        x = np.asarray(coordinates, dtype=np.float64)
        if x.shape != (self.count,):
            raise ValueError(
                f"{self.path}: axis {self.letter} has {self.count} nodes, its coordinates have shape {x.shape}"
            )
        if not np.isfinite(x).all() or not (np.diff(x) > 0).all():
            raise ValueError(f"{self.path}: coordinates of axis {self.letter} must be finite and increasing")
        return x

    def _only(self, x: np.ndarray, possible: Mapping[str, Domain]) -> tuple[str, np.ndarray, Domain]:
        if len(possible) == 1:
            ((placement, ends),) = possible.items()
            return placement, x, ends
        listed = " or ".join(f"placement={p!r}" for p in possible)
        raise ValueError(
            f"{self.path}: coordinates of axis {self.letter}, {x[0]:.6g} … {x[-1]:.6g} in {self.count} steps, can be "
            f"read in more than one way; pass {listed or _ANY_PLACEMENT}, or domain=(lo, hi)"
        )

    def _contradiction(self, x: np.ndarray, placement: str, possible: Mapping[str, Domain]) -> ValueError:
        source = "you said" if self.want else "the layout says"
        seen = " or ".join(possible) if possible else "no such nodes"
        return ValueError(
            f"{self.path}: {source} that axis {self.letter} is {placement!r}, but its {self.count} coordinates "
            f"{x[0]:.6g} … {x[-1]:.6g} are {seen}{'' if self.domain is None else f' of {self.domain}'}; if the "
            "coordinates are wrong, pass placement= and ignore_coordinates=True, if the domain is another one, pass "
            "domain=(lo, hi)"
        )


def _same_counts(path: Path, fields: Mapping[str, Field]) -> None:
    counts = {f.name: f.shape[0] for f in fields.values() if f.axes.startswith("n")}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{path}: fields hold different numbers of samples: {_listed(counts)}; they cannot be paired")


def _space(path: Path, fields: Mapping[str, Field]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for f in fields.values():
        if len(f.axes) != len(f.shape) or len(set(f.axes)) != len(f.axes) or set(f.axes) - set("ntcd" + SPACE):
            raise ValueError(
                f"{path}: {f.name!r} has shape {f.shape}, which axes {f.axes!r} do not name; one letter for each "
                "dimension: n sample, t time, c channel, x y z space"
            )
        for letter, size in zip(f.axes, f.shape, strict=True):
            if letter in SPACE and sizes.setdefault(letter, size) != size:
                shapes = _listed({g.name: g.shape for g in fields.values()})
                raise ValueError(f"{path}: fields lie on different grids: {shapes}; read them one by one with fields=")
    if not sizes:
        raise ValueError(f"{path}: no field has a spatial axis; name the axes, e.g. axes={{'u': 'nxy'}}")
    return sizes


def _listed(items: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in items.items())
