"""The samples of a file as points: the volume of each and its coordinates, whatever its grid is."""

from dataclasses import dataclass, replace

import numpy as np

from quadnorm.measures.axes import GivenAxis
from quadnorm.measures.composed import Weights
from quadnorm.measures.data.lines import line_axis
from quadnorm.measures.data.located import Located, of_lines
from quadnorm.measures.data.placements import LATITUDE, LONGITUDE
from quadnorm.measures.geometry.coordinates import FloatArray
from quadnorm.problems.files.model import SPACE, FieldFile


@dataclass(frozen=True)
class Places:
    """N points: ``volumes`` (N,) sum to 1; ``coordinates`` (d, N) are unit vectors on the sphere, else in [0, 1]."""

    volumes: FloatArray
    coordinates: FloatArray
    evidence: str


def places_of(file: FieldFile) -> Places:
    """The nodes of a file as points, in the order of :meth:`FieldFile.tensor` with its spatial axes made one."""
    return as_places(whereabouts(file), str(file.path))


def as_places(found: Located, label: str) -> Places:
    """The samples of a grid as points, its axes made one; ``label`` begins an error."""
    if found.find is None:
        raise ValueError(
            f"{label}: the weights of the samples are known ({found.evidence}), but not their places; add latitude "
            "and longitude to the file"
        )
    places = found.find()
    places = places.reshape(len(places), -1)
    if not found.sphere:
        low, high = places.min(1, keepdims=True), places.max(1, keepdims=True)
        places = (places - low) / np.where(high > low, high - low, 1.0)
    assert found.measure.shape is not None
    return Places(found.measure.weights(found.measure.shape).numpy().reshape(-1), places, found.evidence)


def whereabouts(file: FieldFile) -> Located:
    """Where the samples lie, axes in the order of :meth:`FieldFile.tensor`: by all that the file says, or its axes."""
    widest = max(file.fields.values(), key=lambda f: len(f.shape))
    stored = [a for a in widest.axes if a in SPACE]
    declared = file.evidence == "as declared" and not set(file.placement) <= {"coordinates", "points"}
    if file.locate is not None and not declared:
        found = file.locate()
        if len(found.dims) == len(stored) == len(file.resolution):
            order = [stored.index(a) for a in SPACE[: len(stored)]]
            return found if order == sorted(order) else _turned(found, order)
    return of_lines(file.words or SPACE[: len(stored)], [_axis(file, k) for k in range(len(file.resolution))])


def _axis(file: FieldFile, k: int) -> tuple[str, GivenAxis]:
    word = file.words[k] if file.words else SPACE[k]
    kind = word if word in (LATITUDE, LONGITUDE) else ""
    name, ends = file.placement[k], file.domain[k]
    placement, domain = (None, None) if name == "coordinates" else (name, ends)
    return kind, line_axis(file.coordinates[k], None, kind, f"{file.path}: {word!r}", placement, domain)


def _turned(found: Located, order: list[int]) -> Located:
    assert found.measure.shape is not None
    w = found.measure.weights(found.measure.shape).permute(order)
    find = found.find
    turned = None if find is None else lambda: find().transpose(0, *(1 + k for k in order))
    dims = tuple(found.dims[k] for k in order)
    return replace(found, dims=dims, measure=Weights(w, total=found.measure.total), find=turned)
