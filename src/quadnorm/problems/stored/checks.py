"""A user's files against each other, before anything is trained on them: do they fit, and where do their nodes lie?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from quadnorm._suggest import unknown
from quadnorm.carry.gridcheck import GridCheck, check_grid
from quadnorm.measures import PLACEMENTS
from quadnorm.measures.placement import Placements
from quadnorm.problems.base import Array
from quadnorm.problems.files.places import places_of
from quadnorm.problems.points import POINTS
from quadnorm.problems.stored.source import Source

SETS = ("train", "val", "test")
_FEW = 16  # samples that are compared


class Opener(Protocol):
    """Opens the files of a set, with a placement that is assumed for them if one is given."""

    def __call__(self, name: str, placement: Placements | None = None) -> list[Source]: ...


def check_sets(sets: Mapping[str, Sequence[Source]], letters: str | Mapping[str, str] | None) -> None:
    """Raise a ValueError for sets that share a file, or that one model cannot be trained and tested on.

    ``sets`` are the opened files of train, val and test; ``letters`` are those that were given for the axes.
    """
    sources = [source for several in sets.values() for source in several]
    _check_apart(sets)
    if isinstance(letters, Mapping):
        _check_letters(letters, sources)
    if letters is None:
        _check_order(sources)
    _check_sizes(sources)
    for name, several in sets.items():
        _check_counts(name, several)


def _check_apart(sets: Mapping[str, Sequence[Source]]) -> None:
    """No file in two sets: the errors would be those of samples that were trained on."""
    places = {name: {_resolved(source) for source in several} for name, several in sets.items()}
    for one, other in combinations(places, 2):
        shared = sorted(path[0].name for path in places[one] & places[other])
        if shared:
            raise ValueError(
                f"files: {shared[0]} is given for both {one} and {other}; leave {other}= out, then samples of the "
                "train files that nothing else uses are taken for it"
            )


def _resolved(source: Source) -> tuple[Path, ...]:
    return tuple(file.path.resolve() for file in source.files)


def _check_letters(letters: Iterable[str], sources: Sequence[Source]) -> None:
    """Letters of axes are for fields that there are; a name that is in no file is a typing error."""
    files = [file for source in sources for file in source.files]
    known = {name for file in files for name in (*file.fields, file.path.stem)}
    for name in letters:
        if name not in known:
            raise ValueError("files: axes: " + unknown("field", name, known))


def _check_order(sources: Sequence[Source]) -> None:
    orders = {order for source in sources for order in source.orders}
    if len(orders) > 1:
        raise ValueError(
            "files: by their coordinates, some of the fields are stored with axes in the order "
            f"{' and others in the order '.join(sorted(orders))}; name the axes, as in axes=nyx"
        )


def _check_sizes(sources: Sequence[Source]) -> None:
    first, *others = sources
    for other in others:
        if len(other.shape) != len(first.shape):
            raise ValueError(
                f"files: {other.label} has {len(other.shape)} spatial axes, {first.label} has {len(first.shape)}; a "
                "model has one number of them"
            )
    for side, what in enumerate(("input", "output")):
        there = first.channels(side)
        if not there or 0 in first.shape:
            raise ValueError(f"files: {first.label}: the {what} {first.names[side]!r} holds no values")
        for other in others:
            here = other.channels(side)
            if here != there:
                raise ValueError(
                    f"files: {other.label} has {here} channels of {what} ({other.names[side]}), {first.label} has "
                    f"{there} ({first.names[side]}); a model has one number of them"
                )


def _check_counts(name: str, sources: Sequence[Source]) -> None:
    counts = {source.label: source.count for source in sources}
    listed = ", ".join(f"{label} {count}" for label, count in counts.items())
    if len(set(counts.values())) > 1:
        raise ValueError(f"files: the {name} files hold different numbers of samples: {listed}")
    if 0 in counts.values():
        raise ValueError(f"files: the {name} files hold no samples: {listed}")


def stated_placement(sources_of: Opener) -> tuple[Placements, str]:
    """The placement that the files state or that a comparison shows, and how it is known."""
    try:
        sources = [source for name in SETS for source in sources_of(name)]
    except ValueError as silent:
        return _by_comparison(sources_of, silent)
    stated = {source.placement for source in sources}
    if any({POINTS, "coordinates"} & set(placement) for placement in stated):
        return POINTS, places_of(sources[0].files[0]).evidence
    if len(stated) == 1:
        return stated.pop(), sources[0].files[0].evidence
    listed = " and ".join(", ".join(names) for names in sorted(stated))
    raise ValueError(
        f"files: the files disagree on where their nodes lie: {listed}; if you know better, say placement= and "
        "ignore_coordinates=true"
    )


def _by_comparison(sources_of: Opener, silent: ValueError) -> tuple[Placements, str]:
    try:
        result = compared(sources_of)
    except ValueError:
        result = None  # the first error is about the files as they are, without an assumption
    if result is None:
        raise silent
    check, how = result
    if check.sure:
        return check.placement, how
    raise ValueError(f"files: {check}; say where the nodes lie with placement={'|'.join(PLACEMENTS)}")


def compared(
    sources_of: Opener, declared: Placements | None = None, kept: Mapping[str, Array] | None = None
) -> tuple[GridCheck, str] | None:
    """Two resolutions of the same instances compared, if there are two; warns if they contradict ``declared``.

    ``kept`` are the indices of the samples of each set that are used, if not all are.
    """
    for name in ("test", "val", "train"):
        sources = sorted(sources_of(name, declared or "left"), key=lambda s: s.shape)
        if len(sources) < 2 or sources[0].count != sources[-1].count:
            continue
        some = (kept or {}).get(name, np.arange(sources[0].count))[:_FEW]
        coarse, fine = (torch.from_numpy(s.sample(1, some)) for s in (sources[0], sources[-1]))
        coarser = all(4 <= a < b for a, b in zip(sources[0].shape, sources[-1].shape, strict=True))
        if coarse.shape == fine.shape or (declared and not coarser):
            continue
        if not bool(coarse.isfinite().all() & fine.isfinite().all()):
            continue
        check = check_grid(coarse, fine, declared, dim=len(sources[0].shape))
        return check, f"by comparing {sources[0].label} with {sources[-1].label}"
    return None
