"""The nodes of the axes of several fields, from the dimensions that these fields share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quadnorm.measures.data.names import SPATIAL
from quadnorm.problems.files.axes.coordinates import not_straight
from quadnorm.problems.files.axes.dimensions import Dimension, Dimensions
from quadnorm.problems.files.model import SPACE


@dataclass(frozen=True)
class SharedNodes:
    """What the dimensions of the fields say about their axes, by letter: coordinates and names; times if there are."""

    values: Mapping[str, np.ndarray]
    words: Mapping[str, str]
    kinds: Mapping[str, str]
    times: np.ndarray | None = None
    located: bool = False  # the places of the samples are known, not as axes


def nodes_of(path: Path, axes: Mapping[str, str], dims: Mapping[str, Dimensions]) -> SharedNodes:
    """The nodes of fields whose axes have letters; a ValueError if a letter means two dimensions."""
    seen: dict[str, tuple[str, Dimension]] = {}
    for name, letters in axes.items():
        for letter, d in zip(letters, dims.get(name, ()), strict=False):
            if letter not in (*SPACE, "t") or not d.key:
                continue
            if d.bent and letter in SPACE:
                raise not_straight(path, d.bent)
            other, first = seen.setdefault(letter, (name, d))
            if letter in SPACE and first.key != d.key and not _same_nodes(first, d):
                raise ValueError(
                    f"{path}: fields lie on different grids: axis {letter} is {first.name!r} in {other!r} and "
                    f"{d.name!r} in {name!r}; choose fields that belong together (input= and output=; fields= of a "
                    "reader), or name their axes, as in axes={u: nxyc}"
                )
    values = {letter: d.values for letter, (_, d) in seen.items() if d.values is not None}
    spatial = {letter: d for letter, (_, d) in seen.items() if letter in SPACE}
    return SharedNodes(
        {letter: x for letter, x in values.items() if letter in SPACE},
        {letter: d.word for letter, d in spatial.items()},
        {letter: d.kind for letter, d in spatial.items() if d.kind in SPATIAL},
        values.get("t"),
        any(d.located for d in spatial.values()),
    )


def _same_nodes(one: Dimension, other: Dimension) -> bool:
    """Whether two dimensions have the same nodes: input and output may each have their own copies of an axis."""
    if one.values is None or other.values is None:
        return one.values is other.values and one.kind == other.kind
    a, b = one.values, other.values
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= 1e-6 * np.abs(a).max(initial=0))
