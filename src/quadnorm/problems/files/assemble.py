"""From fields to a :class:`FieldFile`: compare their counts and grids, find the placement or ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.measures.data.names import POINTS
from quadnorm.measures.data.placements import PLACEMENTS, Domain, checked
from quadnorm.problems.files.axes.coordinates import FileCoordinates
from quadnorm.problems.files.axes.request import Picker, Request
from quadnorm.problems.files.model import MOST_NODES, SPACE, Field, FieldFile
from quadnorm.problems.files.nodes.settle import StoredAxis


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
            ``placement``, or coordinates (:mod:`quadnorm.problems.files.axes.coordinates`, or those of its dimensions)
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

    def request(self, *, trusting: bool = True) -> Request:
        """What concerns fields and their axes."""
        return Request(self.fields, self.axes, self.dim, self.channels, trusting)

    @property
    def asked(self) -> Asked:
        """What concerns the nodes."""
        return Asked(self.placement, self.domain, self.ignore_coordinates)


def assemble(
    path: Path,
    layout: str,
    fields: Mapping[str, Field],
    asked: Asked,
    lines: FileCoordinates | None = None,
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
        lines: the coordinates of the axes, if the file has them.
        known: placement that the layout itself prescribes, for all axes or one entry per axis.
        times: the times of the time axis, if the file has them.
        attributes: parameters stored in the file.
        known_from: where ``known`` comes from, for data cards.
    """
    _same_counts(path, fields)
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    lines = lines or FileCoordinates({})
    given = {} if asked.ignore_coordinates else lines.values
    words = tuple(lines.words.get(letter, letter) for letter in letters)
    if lines.located and not asked.ignore_coordinates:
        if asked.placement not in (None, "coordinates"):
            raise ValueError(
                f"{path}: you said that the nodes are {asked.placement!r}, but each has two coordinates in the file; "
                "if these are wrong, pass ignore_coordinates=true as well"
            )
        index = tuple(np.arange(float(sizes[a])) for a in letters)
        ends = tuple((0.0, float(sizes[a] - 1)) for a in letters)
        scattered, notes = (POINTS,) * len(letters), dict(attributes or {})
        how = "by the coordinates in the file"
        return FieldFile(path, layout, dict(fields), scattered, index, ends, lines.times, notes, how, words)
    law = _law(path, None if asked.placement is not None else known, len(letters))
    axes = [
        StoredAxis(path, letter, sizes[letter], given.get(letter), want, domain, by_layout, word).settled()
        for letter, word, (want, domain), by_layout in zip(
            letters, words, asked.per_axis(len(letters), path), law, strict=True
        )
    ]
    placement, nodes_, domain = (tuple(part) for part in zip(*axes, strict=True))
    if lines.unsure and given and len(set(placement)) > 1:
        raise _exchangeable(path, words, sizes[letters[0]])
    evidence = known_from
    if given:
        evidence = "by the coordinates in the file"
    if asked.placement is not None:
        evidence = "as declared"
    stated = times if times is not None else lines.times
    notes = dict(attributes or {})
    return FieldFile(path, layout, dict(fields), placement, nodes_, domain, stated, notes, evidence, words)


def _exchangeable(path: Path, words: Sequence[str], count: int) -> ValueError:
    return ValueError(
        f"{path}: {' and '.join(words)} have {count} nodes each, so that nothing says which axis of the fields is "
        "which, and their nodes lie differently; leave axes= out if the fields are stored as (sample, latitude, "
        "longitude), or pass ignore_coordinates=true and placement= with one entry for each axis"
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
            if letter in SPACE and size > MOST_NODES:
                raise ValueError(
                    f"{path}: {f.name!r} announces {size} nodes along {letter}; at most {MOST_NODES} are read. Is the "
                    "file damaged, or are its axes in another order? Name them, as in axes=nxy"
                )
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
