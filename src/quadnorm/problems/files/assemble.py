"""From fields to a :class:`FieldFile`: compare their counts and grids, find the placement or ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.problems.files.model import SPACE, Field, FieldFile
from quadnorm.problems.files.nodes import PLACEMENTS, Domain, checked, likely, nodes, readings, spacing, spans

_ANY_PLACEMENT = "placement= ('endpoint', 'cell', 'periodic', 'left', 'interior')"


@dataclass(frozen=True)
class Asked:
    """The caller's arguments about the nodes, for all axes or one entry per axis."""

    placement: str | Sequence[str] | None = None
    domain: Domain | Sequence[Domain] | None = None
    ignore_coordinates: bool = False

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


def assemble(
    path: Path,
    layout: str,
    fields: Mapping[str, Field],
    asked: Asked,
    coordinates: Mapping[str, np.ndarray] | None = None,
    known: str | Sequence[str | None] | None = None,
    times: np.ndarray | None = None,
    attributes: Mapping[str, Any] | None = None,
    known_from: str = "as the file states",
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
        known_from: where ``known`` comes from, for data cards.
    """
    _same_counts(path, fields)
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    given = {} if asked.ignore_coordinates or coordinates is None else coordinates
    law = _law(path, None if asked.placement is not None else known, len(letters))
    axes = [
        _Axis(path, letter, sizes[letter], given.get(letter), want, domain, by_layout).settled()
        for letter, (want, domain), by_layout in zip(letters, asked.per_axis(len(letters), path), law, strict=True)
    ]
    placement, nodes_, domain = (tuple(part) for part in zip(*axes, strict=True))
    evidence = known_from
    if given:
        evidence = "by the coordinates in the file"
    if asked.placement is not None:
        evidence = "as declared"
    return FieldFile(path, layout, dict(fields), placement, nodes_, domain, times, dict(attributes or {}), evidence)


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
        placement = self.want or self.known
        if self.coordinates is None:
            return self._by_placement(placement)
        x = self._checked(self.coordinates)
        if x.size > 1 and x[0] > x[-1]:  # as latitudes from north to south; the axis begins at its first node
            mirrored = replace(self, coordinates=-x, domain=self.domain and (-self.domain[1], -self.domain[0]))
            placement, _, (lo, hi) = mirrored.settled()
            return placement, x, (-hi, -lo)
        if placement == "coordinates" or (placement is None and spacing(x) is None):
            return "coordinates", x, self.domain or (float(x[0]), float(x[-1]))
        possible = readings(x, self.domain)
        if placement is None:
            return self._only(x, possible if self.domain else likely(x))
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
        if np.iscomplexobj(coordinates):
            raise ValueError(f"{self.path}: coordinates of axis {self.letter} must be real, got complex numbers")
        x = np.asarray(coordinates, dtype=np.float64)
        if x.shape != (self.count,):
            raise ValueError(
                f"{self.path}: axis {self.letter} has {self.count} nodes, its coordinates have shape {x.shape}; if "
                "they are no coordinates, pass ignore_coordinates=true and placement="
            )
        steps = np.diff(x)
        if not np.isfinite(x).all() or not ((steps > 0).all() or (steps < 0).all()):
            raise ValueError(
                f"{self.path}: coordinates of axis {self.letter} must be finite, and increasing or decreasing"
            )
        return x

    def _only(self, x: np.ndarray, possible: Mapping[str, Domain]) -> tuple[str, np.ndarray, Domain]:
        if len(possible) == 1:
            ((placement, ends),) = possible.items()
            return placement, x, ends
        listed = " or ".join(f"placement={p!r}" for p in possible)
        problem = (
            "do not say where the axis ends" if self.domain is None else f"are nodes of no placement on {self.domain}"
        )
        if possible:
            problem = "can be read in more than one way"
        raise ValueError(
            f"{self.path}: coordinates of axis {self.letter}, {self.count} from {x[0]:.6g} to {x[-1]:.6g}, {problem}; "
            f"pass {listed or _ANY_PLACEMENT}, or domain=(lo, hi), the ends of the axis"
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


def _law(path: Path, known: Any, dim: int) -> list[str | None]:
    """The placement that the file or its layout states, for each axis; an attribute of a file may be anything."""
    each = list(known) if isinstance(known, (list, tuple)) else [known] * dim
    if len(each) != dim or any(p is not None and p not in PLACEMENTS for p in each):
        raise ValueError(
            f"{path}: the file states the placement {known!r}; expected one of {', '.join(PLACEMENTS)}, or one for "
            f"each of {dim} axes"
        )
    return each


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
                raise ValueError(
                    f"{path}: fields lie on different grids: {shapes}; choose those that belong together (input= and "
                    "output=; fields= of a reader), or name their axes, as in axes={u: nxyc}"
                )
    if not sizes:
        raise ValueError(f"{path}: no field has a spatial axis; name the axes, as in axes=nxy")
    return sizes


def _listed(items: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in items.items())
