"""Find out where the nodes of a user's files lie: what the files state, or two resolutions of the same instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch

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
