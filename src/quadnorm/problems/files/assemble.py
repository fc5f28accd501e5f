"""From arrays to a :class:`FieldFile`: axes named, counts compared, the placement settled or asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.problems.files.model import SPACE, Field, FieldFile
from quadnorm.problems.files.nodes import Domain, checked, nodes, readings, spacing, spans


@dataclass(frozen=True)
class Asked:
    """What the caller said about the nodes, for all axes or one entry per axis."""

    placement: str | Sequence[str] | None = None
    domain: Domain | Sequence[Domain] | None = None
    ignore_coordinates: bool = False

    def per_axis(self, dim: int, path: Path) -> list[tuple[str | None, Domain | None]]:
        """Placement and domain of each axis, None where nothing was said."""
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
    """Check the fields against each other and settle where the nodes are.

    Args:
        path: the file, named in every error.
        layout: how the file is arranged, for the record.
        fields: name → field; all share one spatial grid.
        asked: the caller's words, which must not contradict the file's.
        coordinates: letter of the axis → 1-D coordinates, where the file has them.
        known: placement that the layout itself prescribes, for all axes or each.
        times: the moments of the time axis, where the file has them.
        attributes: parameters that the file tells.
    """
    if not fields:
        raise ValueError(f"{path}: no fields found; name them with fields=")
    _same_counts(path, fields)
    sizes = _space(path, fields)
    letters = [a for a in SPACE if a in sizes]
    given = {} if asked.ignore_coordinates or coordinates is None else coordinates
    law = [known] * len(letters) if known is None or isinstance(known, str) else list(known)
    axes = [
        _settle(path, letter, sizes[letter], given.get(letter), want, domain, by_layout)
        for letter, (want, domain), by_layout in zip(letters, asked.per_axis(len(letters), path), law, strict=True)
    ]
    placement, nodes_, domain = (tuple(part) for part in zip(*axes, strict=True))
    return FieldFile(path, layout, dict(fields), placement, nodes_, domain, times, dict(attributes or {}))


def _settle(
    path: Path,
    letter: str,
    n: int,
    x: np.ndarray | None,
    want: str | None,
    domain: Domain | None,
    known: str | None,
) -> tuple[str, np.ndarray, Domain]:
    """One axis: the caller's word, the layout's and the coordinates' must agree, and together be enough."""
    word = want or (None if known is None else checked(known))
    source = "you said" if want else "the layout says"
    if x is None:
        if word is None or word == "coordinates":
            raise ValueError(
                f"{path}: the file does not say where the {n} nodes of axis {letter} lie; pass placement='endpoint' "
                "(both ends stored), 'cell' (centres of cells), 'periodic' or 'left' (first end stored, last not)"
            )
        ends = domain or (0.0, 1.0)
        return word, nodes(word, n, ends), ends
    x = np.asarray(x, dtype=np.float64)
    if x.shape != (n,):
        raise ValueError(f"{path}: axis {letter} has {n} nodes, its coordinates have shape {x.shape}")
    if not np.isfinite(x).all() or not (np.diff(x) > 0).all():
        raise ValueError(f"{path}: coordinates of axis {letter} must be finite and increasing")
    ends = (float(x[0]), float(x[-1]))
    if word == "coordinates" or (word is None and spacing(x) is None):
        return "coordinates", x, domain or ends
    found = readings(x, domain)
    if word in found:
        return word, x, found[word]
    if word == "periodic" and "cell" in found:  # equal steps round a circle have no first node
        return word, x, found["cell"]
    if word is not None and (found or domain is not None or spacing(x) is None):
        says = " or ".join(found) if found else "no such nodes"
        raise ValueError(
            f"{path}: {source} that axis {letter} is {word!r}, but its {n} coordinates {x[0]:.6g} … {x[-1]:.6g} are "
            f"{says}{'' if domain is None else f' of {domain}'}; if the coordinates are wrong, pass placement= and "
            "ignore_coordinates=True, if the domain is another one, pass domain=(lo, hi)"
        )
    if word is not None:  # the ends are no round numbers: nothing contradicts the word, and it fixes the domain
        return word, x, spans(x)[word]
    if len(found) == 1:
        ((placement, ends),) = found.items()
        return placement, x, ends
    options = " or ".join(f"placement={p!r}" for p in found) or "placement= ('endpoint', 'cell', 'periodic', 'left')"
    raise ValueError(
        f"{path}: coordinates of axis {letter}, {x[0]:.6g} … {x[-1]:.6g} in {n} steps, can be read in more than one "
        f"way; pass {options}, or domain=(lo, hi)"
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
