"""Users' data as a problem: files of inputs and outputs, at one or several resolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from quadnorm._suggest import unknown
from quadnorm.carry.gridcheck import GridCheck, check_grid
from quadnorm.measures import PLACEMENTS
from quadnorm.problems.base import Array
from quadnorm.problems.files import FieldFile, read_fields, takes_dim
from quadnorm.problems.files.mat import MAT_NODES
from quadnorm.problems.stored.base import Store, StoredProblem

# Usual pairs of names: (input field, output field).
PAIRS = (("x", "y"), ("a", "u"), ("coeff", "sol"), ("input", "output"), ("inputs", "targets"), ("nu", "tensor"))


@dataclass(frozen=True, kw_only=True)
class Files(StoredProblem):
    """Your own data, read from files.

    Boundary: yours. Input → output: the fields whose names are given as ``input`` and ``output``; not needed for the
    usual pairs (x and y, a and u, coeff and sol, input and output, inputs and targets, nu and tensor).
    Files: ``train``, ``val`` and ``test``, each one file or several with the same instances at other resolutions:
    .npz, .pt, .mat, .npy (two files joined by a plus sign, inputs.npy+outputs.npy), HDF5, PDEBench, the Well. Arrays in
    .npy and HDF5 files stay on disk and are read sample by sample. Without ``val``, validation takes the last training
    samples; without ``test``, the test takes training samples that neither of the two uses.
    Law: yours.
    Nodes: ``placement`` says where they lie. Without it, the coordinates in the files decide, or else a comparison of
    two resolutions of the same instances; if neither is possible, ``placement`` must be given. It is never assumed.
    Solver: none. Cost: reading.
    Left open by the paper: everything.

    ``input_time`` and ``output_time`` choose a step of fields with a time axis; ``axes`` is the number of spatial axes;
    ``input_units`` and ``output_units`` are printed on the card if the files state no units.
    """

    train: str | Sequence[str] = ()
    val: str | Sequence[str] = ()
    test: str | Sequence[str] = ()
    placement: str = "auto"
    input: str | None = None
    output: str | None = None
    input_time: int | None = None
    output_time: int | None = None
    axes: int = 2
    input_units: str = ""
    output_units: str = ""

    views: ClassVar[tuple[str, ...]] = ("input_units", "output_units")
    name: ClassVar[str] = "files"
    placements: ClassVar[tuple[str, ...]] = ("auto", *PLACEMENTS)
    smallest: ClassVar[int] = 1
    _evidence: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("train", "val", "test"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        if not self.train:
            raise ValueError(f"{self.name}: no file to train on; give train=, such as train=data64.npz")
        placement, evidence = self.placement, "as declared"
        if placement == "auto":
            placement, evidence = self._find_placement()
        object.__setattr__(self, "placement", placement)
        object.__setattr__(self, "_evidence", evidence)
        self.sets()  # opens the files, so that their errors are raised now
        self._check_channels()
        if evidence == "as declared" and placement in PLACEMENTS:
            self._compare(placement)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Number of spatial axes."""
        return self.axes

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the input's channels."""
        return self._channels(0)

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the output's channels."""
        return self._channels(1)

    def _channels(self, side: int) -> tuple[str, ...]:
        source = self._sources("train")[0]
        name, shape = source.names[side], source.sample(side, [0]).shape
        return (name,) if shape[1] == 1 else tuple(f"{name}[{k}]" for k in range(shape[1]))

    def sets(self) -> Mapping[str, Sequence[Store]]:
        """The stores of each set that was given."""
        sets = {}
        for name in ("train", "val", "test"):
            sources = self._sources(name)
            counts = {source.label: source.count for source in sources}
            if len(set(counts.values())) > 1:
                listed = ", ".join(f"{label} {count}" for label, count in counts.items())
                raise ValueError(f"{self.name}: the {name} files hold different numbers of samples: {listed}")
            if sources:
                sets[name] = [Store(s.label, s.count, s.shape, s.read) for s in sources]
        return sets

    def _check_channels(self) -> None:
        first, *others = (s for name in ("train", "val", "test") for s in self._sources(name))
        for side, what in enumerate(("input", "output")):
            there = first.sample(side, [0]).shape[1]
            for other in others:
                here = other.sample(side, [0]).shape[1]
                if here != there:
                    raise ValueError(
                        f"{self.name}: {other.label} has {here} channels of {what} ({other.names[side]}), "
                        f"{first.label} has {there} ({first.names[side]}); a model has one number of them"
                    )

    def _sources(self, name: str) -> list[_Source]:
        return [self._source(entry) for entry in getattr(self, name)]

    def _source(self, entry: str, placement: str | None = None) -> _Source:
        declared = placement or (None if self.placement == "auto" else self.placement)
        parts = [str(entry)] if Path(entry).expanduser().exists() else str(entry).split("+")
        if len(parts) > 2:
            raise ValueError(f"{self.name}: {entry!r} joins {len(parts)} files; expected inputs+outputs, or one file")
        stamps = tuple(Path(part).stat().st_mtime_ns for part in parts if Path(part).exists())
        files = tuple(_opened(part, declared, self.axes, stamps) for part in parts)
        names = self._names(files, str(entry))
        source = _Source(str(entry), files, names, (self.input_time, self.output_time))
        if files[0].resolution != files[-1].resolution or len(files[0]) != len(files[-1]):
            raise ValueError(
                f"{self.name}: {entry}: inputs are {len(files[0])} samples at {files[0].resolution}, outputs "
                f"{len(files[-1])} at {files[-1].resolution}; they cannot be paired"
            )
        return source

    def _names(self, files: tuple[FieldFile, ...], entry: str) -> tuple[str, str]:
        names = [*files[0].fields], [*files[-1].fields]
        if len(files) == 2 and not (self.input or self.output) and all(len(n) == 1 for n in names):
            return names[0][0], names[1][0]
        for wanted, there in ((self.input, names[0]), (self.output, names[1])):
            if wanted is not None and wanted not in there:
                raise ValueError(f"{entry}: " + unknown("field", wanted, there))
        for usual in PAIRS:
            a, b = self.input or usual[0], self.output or usual[1]
            if a in names[0] and b in names[1] and (a != b or len(files) == 2):
                return a, b
        raise ValueError(
            f"{entry}: it is not clear which field is the input and which the output, got {', '.join(names[0])}; "
            "say so with input=NAME and output=NAME"
        )

    def _find_placement(self) -> tuple[str, str]:
        """The placement stated in the files, or found by comparing two resolutions of the same instances."""
        try:
            stated = {p for name in ("train", "val", "test") for s in self._sources(name) for p in s.placement}
        except ValueError as silent:
            return self._compared(silent)
        if len(stated) == 1 and next(iter(stated)) in PLACEMENTS:
            return stated.pop(), _evidence([s for name in ("train", "val", "test") for s in self._sources(name)])
        raise ValueError(
            f"{self.name}: the files state the placements {', '.join(sorted(stated))}; expected one of "
            f"{', '.join(PLACEMENTS)} for all axes and files; say placement= if you know better"
        )

    def _compared(self, silent: ValueError) -> tuple[str, str]:
        found = self._compare()
        if found is None:
            raise silent
        check, how = found
        if check.sure and len(set(check.placement)) == 1:
            return check.placement[0], how
        raise ValueError(f"{self.name}: {check}; say where the nodes lie with placement={'|'.join(PLACEMENTS)}")

    def _compare(self, declared: str | None = None) -> tuple[GridCheck, str] | None:
        """Two resolutions of the same instances compared, if there are two; warns if they contradict ``declared``."""
        for name in ("test", "val", "train"):
            sources = sorted((self._source(e, declared or "left") for e in getattr(self, name)), key=lambda s: s.shape)
            if len(sources) < 2 or sources[0].count != sources[-1].count:
                continue
            some = range(min(16, sources[0].count))
            coarse, fine = (torch.from_numpy(s.sample(1, some)) for s in (sources[0], sources[-1]))
            coarser = all(4 <= a < b for a, b in zip(sources[0].shape, sources[-1].shape, strict=True))
            if coarse.shape == fine.shape or (declared and not coarser):
                continue
            check = check_grid(coarse, fine, declared, dim=self.axes)
            return check, f"by comparing {sources[0].label} with {sources[-1].label}"
        return None

    def card(self) -> str:
        """The data card, with the files, their numbers of samples, grids and ranges of values."""
        lines = [super().card(), "", f"Placement: {self.placement}, {self._evidence}."]
        for name in ("train", "val", "test"):
            for s in self._sources(name):
                some = range(min(64, s.count))
                spans = []
                for side, declared in enumerate((self.input_units, self.output_units)):
                    v, units = s.sample(side, some), declared or s.units(side)
                    spans.append(f"{s.names[side]} {np.min(v):.4g} … {np.max(v):.4g} {units}".rstrip())
                grid = "×".join(map(str, s.shape))
                lines.append(f"{name}: {s.label}, {s.count} samples at {grid}; first {len(some)}: {', '.join(spans)}")
        return "\n".join(lines)


def _evidence(sources: Sequence[_Source]) -> str:
    """How the files state where their nodes lie."""
    if all(file.layout.startswith("mat") for s in sources for file in s.files):
        return MAT_NODES
    return "by the coordinates in the files"


@dataclass(frozen=True)
class _Source:
    """An input and an output field, of one file or of two."""

    label: str
    files: tuple[FieldFile, ...]
    names: tuple[str, str]
    times: tuple[int | None, int | None]

    @property
    def count(self) -> int:
        return len(self.files[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.files[0].resolution

    @property
    def placement(self) -> tuple[str, ...]:
        return self.files[0].placement

    def sample(self, side: int, samples: Sequence[int]) -> Array:
        """Input (side 0) or output (side 1) of some samples: (B, C, *shape) in float32."""
        file = self.files[-side]
        return file.tensor(self.names[side], samples, time=self.times[side]).numpy()

    def units(self, side: int) -> str:
        """The units of the input (side 0) or the output (side 1) as the file states them; empty if it states none."""
        return self.files[-side][self.names[side]].units

    def read(self, samples: Sequence[int]) -> tuple[Array, Array]:
        return self.sample(0, samples), self.sample(1, samples)


@lru_cache(maxsize=16)
def _opened(path: str, placement: str | None, dim: int, _stamps: tuple[int, ...]) -> FieldFile:
    options: dict[str, Any] = {} if placement is None else {"placement": placement}
    options |= {"dim": dim} if takes_dim(path) else {}
    return read_fields(Path(path).expanduser(), **options)
