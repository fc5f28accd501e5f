"""The samples of a user's files as points: volumes, coordinates and fields, with a mask if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.base import Array
from quadnorm.problems.files.places import Places, places_of
from quadnorm.problems.stored.source import Source


@dataclass(frozen=True)
class ScatteredSource:
    """An input and an output at the N points of a source: x (B, 1 + d + C, N), y (B, C', N); see ``Store``."""

    source: Source
    places: Places
    mask: str | None

    @property
    def label(self) -> str:
        """The source's label."""
        return self.source.label

    @property
    def count(self) -> int:
        """Number of samples."""
        return self.source.count

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points."""
        return (self.places.volumes.size,)

    def read(self, samples: Sequence[int] | Array) -> tuple[Array, Array]:
        """Input and output of some samples; where the mask leaves nothing, volume and fields are 0."""
        x, y = (part.reshape(*part.shape[:2], -1) for part in self.source.read(samples))
        volumes = np.broadcast_to(self.places.volumes, (len(x), *self.shape))
        there = self._there(samples, x, y)
        if there is not None:
            volumes = volumes * there
            x, y = (np.where(there[:, None] > 0, part, 0) for part in (x, y))
            total = volumes.sum(1, keepdims=True)
            if not total.all():
                bad = np.asarray(samples)[np.flatnonzero(total[:, 0] == 0)][:5].tolist()
                raise ValueError(f"{self.label}: the mask leaves nothing of the samples {bad}")
            volumes = volumes / total
        places = np.broadcast_to(self.places.coordinates, (len(x), *self.places.coordinates.shape))
        return np.concatenate([volumes[:, None], places, x], axis=1), y

    def _there(self, samples: Sequence[int] | Array, x: Array, y: Array) -> Array | None:
        """The part (B, N) of each cell that the mask leaves."""
        if self.mask is None:
            return None
        if self.mask == "nan":
            return np.asarray(np.isfinite(x).all(1) & np.isfinite(y).all(1)).astype(np.float64)
        name, file = self.mask.removeprefix("~"), self.source.files[0]
        if name not in file.fields:
            raise ValueError(f"{self.label}: " + unknown("field", name, file.fields))
        part = file.tensor(name, samples, dtype=None).numpy().reshape(-1, *self.shape)  # of a channel each
        if part.min() < -1e-6 or part.max() > 1 + 1e-6:
            raise ValueError(
                f"{self.label}: the mask {name!r} goes from {part.min():.4g} to {part.max():.4g}; expected the part of "
                "each cell that is there, from 0 to 1"
            )
        part = np.broadcast_to(part, (len(x), *self.shape)).astype(np.float64)
        return np.asarray(np.clip(1 - part if self.mask.startswith("~") else part, 0.0, 1.0))


def as_points(source: Source, mask: str | None) -> ScatteredSource:
    """The samples of a source as points."""
    return ScatteredSource(source, places_of(source.files[0]), mask)
