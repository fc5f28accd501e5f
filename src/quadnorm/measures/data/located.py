"""Where the samples of a field lie, with their measure: what reading coordinates gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from quadnorm.measures.axes import GivenAxis
from quadnorm.measures.base import Measure
from quadnorm.measures.composed import Weights
from quadnorm.measures.data.placements import LATITUDE, LONGITUDE
from quadnorm.measures.geometry.coordinates import FloatArray
from quadnorm.measures.geometry.spherical import unit_vectors
from quadnorm.measures.grid import Grid
from quadnorm.measures.sphere import LatLon

EARTH = (LATITUDE, LONGITUDE)


@dataclass(frozen=True)
class Located:
    """Where the samples of a field lie: the dimensions of space in the field's order, their measure, how that is known
    in words, and the places (d, *shape): unit vectors on the sphere, else coordinates; None where they are not known.
    """

    dims: tuple[str, ...]
    measure: Measure
    evidence: str
    find: Callable[[], FloatArray] | None = None  # makes the places: grids may have many more samples than coordinates
    sphere: bool = False

    @property
    def places(self) -> FloatArray | None:
        """(d, *shape)."""
        return None if self.find is None else self.find()


def of_lines(dims: Sequence[str], axes: Sequence[tuple[str, GivenAxis]]) -> Located:
    """A product of axes, each with its kind; one of latitudes and one of longitudes are a sphere."""
    kinds = [kind for kind, _ in axes]
    lines = [axis for _, axis in axes]
    words = ", ".join(f"{d}: {axis.words}" for d, axis in zip(dims, lines, strict=True))
    flat = [a for k, a in axes if k in EARTH]
    if sorted(k for k in kinds if k in EARTH) != sorted(EARTH):
        return Located(tuple(dims), Grid.of_axes(*lines), words, partial(_on_axes, lines, kinds))
    sphere = LatLon.of_axes(*flat)
    places = partial(_on_axes, lines, kinds)
    if len(lines) == 2:
        return Located(tuple(dims), sphere, words, places, True)
    total = sphere.total * float(np.prod([a.hi - a.lo for k, a in axes if k not in EARTH]))
    measure = Weights(Grid.of_axes(*lines).weights([len(a.x) for a in lines]), total=total)
    return Located(tuple(dims), measure, words, places)


def _on_axes(lines: Sequence[GivenAxis], kinds: Sequence[str]) -> FloatArray:
    """The places of a product of axes: unit vectors for latitude and longitude, then the other coordinates."""
    grid = np.meshgrid(*(np.array(a.x) for a in lines), indexing="ij")
    if not set(EARTH) <= set(kinds):
        return np.stack(grid)
    earth = places_of(grid[kinds.index(LATITUDE)], grid[kinds.index(LONGITUDE)], True)
    return np.stack([*earth, *(x for x, kind in zip(grid, kinds, strict=True) if kind not in EARTH)])


def places_of(first: np.ndarray, second: np.ndarray, sphere: bool) -> FloatArray:
    """(d, …): unit vectors of latitude and longitude, or the two coordinates."""
    return np.moveaxis(unit_vectors(first, second), -1, 0) if sphere else np.stack((second, first))
