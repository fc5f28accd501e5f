"""An input and an output field in a user's files, on a grid or as points with a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quadnorm._suggest import unknown
from quadnorm.problems.base import Array
from quadnorm.problems.files import FieldFile, ReadOptions, read_fields
from quadnorm.problems.files.joined import matching
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.files.places import Places, places_of

# Usual pairs of names: (input field, output field).
PAIRS = (
    ("x", "y"), ("a", "u"), ("coeff", "sol"), ("input", "output"), ("inputs", "targets"), ("nu", "tensor"),
    ("initial", "final"), ("a0", "uT"), ("u0", "uT"),
)  # fmt: skip
SOME = 64  # samples that are looked through at a time
_complete: dict[Any, npt.NDArray[np.bool_]] = {}  # which samples of which files are finite


@dataclass(frozen=True)
class Wanted:
    """What of the files is the input, what the output: names and time steps, None where they were not given."""

    names: tuple[str | None, str | None] = (None, None)
    times: tuple[int | None, int | None] = (None, None)
    allow_nan: bool = False
    mask: str | None = None

    def pair(self, inputs: Sequence[str], outputs: Sequence[str], joined: bool = False) -> tuple[str, str] | None:
        """Names of input and output among those that there are; ``joined``: in two files. None if it is not clear.

        >>> Wanted().pair(["a", "u", "v"], ["a", "u", "v"]), Wanted(("v", None)).pair(["a", "u", "v"], ["a", "u", "v"])
        (('a', 'u'), ('v', 'u'))
        """
        if joined and self.names == (None, None) and len(inputs) == len(outputs) == 1:
            return inputs[0], outputs[0]
        fits = set()
        for usual in PAIRS:
            a, b = (given or name for given, name in zip(self.names, usual, strict=True))
            distinct = a != b or joined or None not in self.names
            if a in inputs and b in outputs and distinct:
                fits.add((a, b))
        return fits.pop() if len(fits) == 1 else None

    def picked(self, reading: ReadOptions) -> ReadOptions:
        """The options of a reader, with the fields that it shall open."""
        if None in self.names:
            return replace(reading, fields=self)
        return replace(reading, fields=list(dict.fromkeys(name for name in (*self.names, self.mask) if name)))

    def __call__(self, present: Sequence[str]) -> Sequence[str]:
        """The fields to open, of all in a file: arrays that are neither input nor output may lie on other grids."""
        pair = self.pair(present, present)
        wanted = () if pair is None else (*pair, *(name for name in present if name == self.mask))
        return list(dict.fromkeys(wanted)) or present


@dataclass(frozen=True)
class Source:
    """An input and an output field, of one file or of two."""

    label: str
    files: tuple[FieldFile, ...]
    names: tuple[str, str]
    wanted: Wanted

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.files[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes per axis."""
        return self.files[0].resolution

    @property
    def placement(self) -> tuple[str, ...]:
        """Where the nodes of each axis lie."""
        return self.files[0].placement

    @property
    def orders(self) -> set[str]:
        """The orders in which the fields store the spatial axes, such as "xy"."""
        fields = (self.files[-side][self.names[side]].axes for side in (0, 1))
        return {"".join(a for a in axes if a in SPACE) for axes in fields}

    def channels(self, side: int) -> int:
        """Channels of the input (side 0) or the output (side 1)."""
        return self.files[-side].channels(self.names[side])

    def sample(self, side: int, samples: Sequence[int] | Array, *, allow_nan: bool | None = None) -> Array:
        """Input (side 0) or output (side 1) of some samples: (B, C, *shape), in float32 or, where the file has more
        digits, float64."""
        allowed = self.wanted.allow_nan if allow_nan is None else allow_nan
        values = self.files[-side].tensor(
            self.names[side], samples, time=self.wanted.times[side], dtype=None, allow_nan=allowed
        )
        rows = len(samples) if "n" not in self.files[-side][self.names[side]].axes else len(values)
        return values.expand(rows, *values.shape[1:]).numpy()  # what has no samples is the same for all of them

    def read(self, samples: Sequence[int] | Array) -> tuple[Array, Array]:
        """Input and output of some samples."""
        return self.sample(0, samples), self.sample(1, samples)

    def units(self, side: int) -> str:
        """The units of the input (side 0) or the output (side 1) as the file states them; empty if it states none."""
        return self.files[-side][self.names[side]].units

    def complete(self) -> npt.NDArray[np.bool_]:
        """Whether each sample, input and output, is finite everywhere; reads the whole file, once until it changes."""
        if not all(file.path.exists() for file in self.files):  # objects of Python
            return self._look_through()
        stamps = tuple(file.path.stat().st_mtime_ns for file in self.files)
        key = (tuple(str(file.path.resolve()) for file in self.files), stamps, self.names, self.wanted, self.shape)
        if key not in _complete:
            _complete[key] = self._look_through()
        return _complete[key]

    def _look_through(self) -> npt.NDArray[np.bool_]:
        parts = []
        for start in range(0, self.count, SOME):
            rows = range(start, min(start + SOME, self.count))
            x, y = (np.isfinite(self.sample(side, rows, allow_nan=True)).reshape(len(rows), -1) for side in (0, 1))
            parts.append(x.all(axis=1) & y.all(axis=1))
        return np.concatenate(parts)


def open_source(entry: str, reading: ReadOptions, wanted: Wanted) -> Source:
    """Open the file, or the pair of files joined by a plus sign, that an entry names."""
    parts = [entry] if Path(entry).expanduser().exists() else entry.split("+")
    if len(parts) > 2:
        raise ValueError(f"files: {entry!r} joins {len(parts)} files; expected inputs+outputs, or one file")
    places = [Path(part).expanduser() for part in parts]
    for place in places:
        if not place.exists() and not matching(place):
            where = "" if place.is_absolute() else f" in {Path.cwd()}, from where its name is read"
            raise FileNotFoundError(f"{place}: no such file{where}")
    stamps = tuple(file.stat().st_mtime_ns for place in places for file in matching(place) or [place])
    whole = wanted if len(parts) == 1 else None
    files = tuple(_opened(place, reading, whole, stamps) for place in places)
    if files[0].resolution != files[-1].resolution or len(files[0]) != len(files[-1]):
        raise ValueError(
            f"files: {entry}: inputs are {len(files[0])} samples at {files[0].resolution}, outputs "
            f"{len(files[-1])} at {files[-1].resolution}; they cannot be paired"
        )
    return source_of(entry, files, wanted)


def source_of(label: str, files: tuple[FieldFile, ...], wanted: Wanted) -> Source:
    """Input and output among the fields of opened files."""
    source = Source(label, files, _names(label, files, wanted), wanted)
    for side in (0, 1):
        files[-side].check_time(source.names[side], wanted.times[side])
    return source


def _names(entry: str, files: tuple[FieldFile, ...], wanted: Wanted) -> tuple[str, str]:
    names = [*files[0].fields], [*files[-1].fields]
    for given, there in zip(wanted.names, names, strict=True):
        if given is not None and given not in there:
            raise ValueError(f"{entry}: " + unknown("field", given, there))
    pair = wanted.pair(*names, joined=len(files) == 2)
    if pair is not None:
        return pair
    advice = "say so with input=NAME and output=NAME"
    if files[0].layout == "npy":
        advice = "an .npy file holds one array: give two, as in inputs.npy+outputs.npy"
    elif len(names[0]) == 1:
        advice += (
            "; for one field at two times name its axes and the steps: axes=ntxy input_time=0 output_time=1, with "
            f"input={names[0][0]} output={names[0][0]}"
        )
    listed = ", ".join(names[0])
    raise ValueError(f"{entry}: it is not clear which field is the input and which the output, got {listed}; {advice}")


@lru_cache(maxsize=16)
def _opened(place: Path, reading: ReadOptions, wanted: Wanted | None, _stamps: tuple[int, ...]) -> FieldFile:
    return read_fields(place, reading if wanted is None else wanted.picked(reading))


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
