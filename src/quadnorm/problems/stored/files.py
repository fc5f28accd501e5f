"""Users' data as a problem: files of inputs and outputs, at one or several resolutions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np

from quadnorm.measures import PLACEMENTS
from quadnorm.measures.base import whole_number, whole_numbers
from quadnorm.measures.placement import Placements, as_placements
from quadnorm.problems.base import Array, Coordinates, Resolution
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.files.options import ReadOptions
from quadnorm.problems.files.places import places_of, whereabouts
from quadnorm.problems.points import POINTS
from quadnorm.problems.stored.base import Store, StoredProblem
from quadnorm.problems.stored.checks import SETS, check_sets, compared, stated_placement
from quadnorm.problems.stored.source import SOME, Source, Wanted, as_points, open_source


@dataclass(frozen=True, kw_only=True)
class Files(StoredProblem):
    """Your own data, read from files.

    Boundary: yours. Input → output: the fields whose names are given as ``input`` and ``output``; not needed for the
    usual pairs (x and y, a and u, coeff and sol, input and output, inputs and targets, nu and tensor).
    Files: ``train``, ``val`` and ``test``, each one file or several with the same instances at other resolutions:
    .npz, .pt, .mat, .npy (two files joined by a plus sign, inputs.npy+outputs.npy), HDF5, netCDF, PDEBench, the Well.
    A pattern (era5_*.nc) means files that follow each other along samples.
    Arrays in .npy, HDF5 and netCDF files stay on disk and are read sample by sample. Without ``val``, validation takes
    the last training samples; without ``test``, the test takes training samples that neither of the two uses.
    Law: yours.
    Nodes: ``placement`` says where they lie. Without it, the coordinates in the files decide, or else a comparison of
    two resolutions of the same instances; if neither is possible, ``placement`` must be given. It is never assumed.
    Solver: none. Cost: reading.
    Left open by the paper: everything.

    ``input_time`` and ``output_time`` choose a step of fields with a time axis; ``input_units`` and ``output_units``
    are printed on the card if the files state no units. ``axes`` is the number of spatial axes, or the letters of an
    array's axes (nxyc: sample, x, y, channel), or letters for each field; ``channels`` is first or last. ``placement``
    and ``domain`` hold for all axes, or are lists with one entry for each; ``ignore_coordinates`` is for files whose
    coordinates are wrong. Samples with NaN or infinite values are an error; ``skip_nan`` leaves them out,
    ``allow_nan`` gives them as they are, ``mask: nan`` leaves out the nodes that are NaN.

    Points: samples on Gaussian latitudes, on uneven or curvilinear axes, in columns or on meshes are given as points,
    as those of the meshes here: x (B, 1 + d + C, N) has the volume of each node (they sum to 1), its coordinates (on
    the sphere the d = 3 of a unit vector) and the fields; operators that need a grid refuse them by name.
    ``placement: points`` does the same with equispaced axes, which on the sphere means weights by area. A ``mask`` has
    points too: ``nan``, or the name of a field with the part of each cell that is there, from 0 to 1 (``~lsm``: that is
    not there). Volumes are multiplied by it, so that a mask of another resolution is a fraction as well.
    """

    train: str | Sequence[str] = ()
    val: str | Sequence[str] = ()
    test: str | Sequence[str] = ()
    placement: Placements | list[str] = "auto"  # type: ignore[assignment]
    input: str | None = None
    output: str | None = None
    input_time: int | None = None
    output_time: int | None = None
    axes: int | str | Mapping[str, str] = 2
    input_units: str = ""
    output_units: str = ""
    channels: str = "auto"
    domain: Sequence[Any] | None = None
    ignore_coordinates: bool = False
    allow_nan: bool = False
    skip_nan: bool = False
    mask: str | None = None

    views: ClassVar[tuple[str, ...]] = ("input_units", "output_units")
    name: ClassVar[str] = "files"
    _nothing: ClassVar[str] = (
        "no file to train on; give train='data64.npz', on the command line problem.params.train=data64.npz"
    )
    placements: ClassVar[tuple[str, ...]] = ("auto", *PLACEMENTS, POINTS)
    smallest: ClassVar[int] = 1
    _axes: Any = field(default=None, init=False, repr=False, compare=False)  # placement of axes whose nodes are points
    _evidence: str = field(default="", init=False, repr=False, compare=False)
    _kept: dict[str, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in SETS:
            object.__setattr__(self, name, self._entries(name, getattr(self, name)))
        self._check_choices()
        if not self.train:
            raise ValueError(f"{self.name}: {self._nothing}")
        placement, evidence = self._reading().placement, "as declared"
        if placement is None:
            placement, evidence = stated_placement(self._sources)
        if POINTS in (placement, self.placement) or self.mask is not None:
            if placement not in ("coordinates", POINTS) and not evidence.startswith("by the coordinates"):
                object.__setattr__(self, "_axes", placement)  # the files do not say it
            object.__setattr__(self, "placement", POINTS)
            placement, evidence = POINTS, places_of(self._sources("train")[0].files[0]).evidence
        object.__setattr__(self, "placement", placement)
        sets = {name: self._sources(name) for name in SETS}  # opens the files, so that their errors are raised now
        if placement != POINTS:
            placement = as_placements(placement, len(sets["train"][0].shape))
        object.__setattr__(self, "placement", placement)
        object.__setattr__(self, "_evidence", evidence)
        check_sets(sets, self._reading().axes)
        if self.skip_nan:
            object.__setattr__(self, "_kept", {name: self._complete(name) for name in SETS if getattr(self, name)})
        if evidence == "as declared" and placement != POINTS:
            compared(self._sources, placement, self._kept)

    def _entries(self, name: str, given: Any) -> tuple[Any, ...]:
        """The files of a set, one for each resolution."""
        each = [given] if isinstance(given, (str, os.PathLike)) else given
        if not isinstance(each, (list, tuple)) or any(
            not isinstance(e, (str, os.PathLike)) or not str(e) for e in each
        ):
            expected = "must be a file, or a list of files, as in [a64.npz, a128.npz]"
            raise ValueError(f"files: {name} {expected}; got {given!r}")
        return tuple(map(str, each))

    def _check_placement(self) -> None:
        self._reading()  # checks all that concerns reading

    def _check_choices(self) -> None:
        for name in ("input", "output"):
            given = getattr(self, name)
            if isinstance(given, int) and not isinstance(given, bool):  # tensors of a tuple are called 0 and 1
                object.__setattr__(self, name, str(given))
            elif given is not None and not isinstance(given, str):
                raise ValueError(f"{self.name}: {name} must be the name of a field, got {given!r}")
        for name in ("input_time", "output_time"):
            step = getattr(self, name)
            if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
                raise ValueError(f"{self.name}: {name} must be the index of a time step, 0, 1, …; got {step!r}")
        if self.mask is not None and (not isinstance(self.mask, str) or not self.mask.removeprefix("~")):
            raise ValueError(f"{self.name}: mask must be nan, or the name of a field, got {self.mask!r}")
        if self.mask == "nan" and (self.allow_nan or self.skip_nan):
            raise ValueError(f"{self.name}: mask=nan is of nodes, allow_nan and skip_nan are of samples; choose one")
        if self.allow_nan and self.skip_nan:
            raise ValueError(f"{self.name}: allow_nan and skip_nan were both given; choose one")

    def _reading(self, placement: Placements | None = None) -> ReadOptions:
        try:
            where = placement or self._axes or self.placement
            return ReadOptions(None, self.axes, 2, self.channels, where, self.domain, self.ignore_coordinates)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Number of spatial axes, or of the coordinates of a point."""
        source = self._sources("train")[0]
        return len(places_of(source.files[0]).coordinates) if self.placement == POINTS else len(source.shape)

    def shape(self, resolution: Resolution) -> tuple[int, ...]:
        """The shape of a grid; for points (N,), of N points or of a stored grid that has as many."""
        if self.placement != POINTS:
            return super().shape(resolution)
        one = whole_number(resolution)
        given = (one,) if one is not None else tuple(whole_numbers(resolution) or ())
        grids = {s.shape for name in SETS for s in self._sources(name)}
        for grid in sorted(grids):
            if given in (grid, (prod(grid),)) or (one is not None and grid == (one,) * len(grid)):
                return (prod(grid),)
        held = ", ".join("×".join(map(str, grid)) for grid in sorted(grids))
        raise ValueError(f"{self.name}: points are stored at {held}; got the resolution {resolution!r}")

    def nodes(self, resolution: Resolution) -> tuple[Array, ...]:
        """The nodes of each axis; a ValueError for points, which have none."""
        if self.placement == POINTS:
            raise ValueError(f"{self.name}: the samples are points, not nodes of axes; their places are channels of x")
        return super().nodes(resolution)

    def coordinates(self, resolution: Resolution) -> Coordinates:
        """The files' own dimensions and coordinates; of points without axes latitude and longitude, or x, y, z."""
        shape = self.shape(resolution)
        stored = [s.files[0] for name in SETS for s in self._sources(name)]
        file = next((f for f in stored if f.resolution == shape or (prod(f.resolution),) == shape), None)
        if file is None:  # a part of the nodes of a finer grid
            words = tuple(stored[0].words or SPACE[: len(shape)])
            lines = [
                (lo + (hi - lo) * t)[:: 1 if x[0] <= x[-1] else -1]
                for t, x, (lo, hi) in zip(self.nodes(shape), stored[0].coordinates, stored[0].domain, strict=True)
            ]
            return words, shape, {d: ((d,), x) for d, x in zip(words, lines, strict=True)}
        dims, grid = tuple(file.words or SPACE[: len(file.resolution)]), file.resolution
        if POINTS not in file.placement:
            return dims, grid, {d: ((d,), x) for d, x in zip(dims, file.coordinates, strict=True)}
        places = whereabouts(file).places
        if places is None:
            return dims, grid, {}
        if len(places) == 3:
            lat, lon = np.degrees(np.arcsin(np.clip(places[2], -1, 1))), np.degrees(np.arctan2(places[1], places[0]))
            return dims, grid, {"latitude": (dims, lat), "longitude": (dims, lon)}
        return dims, grid, {f"{a}_of_node": (dims, x) for a, x in zip(SPACE, places, strict=False)}

    def _nodes_text(self) -> str:
        return "points, with volumes and coordinates" if self.placement == POINTS else super()._nodes_text()

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the input's channels; of points, with volume and coordinates before them."""
        carried = ("volume", *"xyz"[: self.dim]) if self.placement == POINTS else ()
        return (*carried, *self._channels(0))

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the output's channels."""
        return self._channels(1)

    def _channels(self, side: int) -> tuple[str, ...]:
        source = self._sources("train")[0]
        name, count = source.names[side], source.channels(side)
        return (name,) if count == 1 else tuple(f"{name}[{k}]" for k in range(count))

    def sets(self) -> Mapping[str, Sequence[Store]]:
        """The stores of each set that was given."""
        return {name: [self._store(name, s) for s in self._sources(name)] for name in SETS if getattr(self, name)}

    def _store(self, name: str, source: Source) -> Store:
        here = as_points(source, self.mask) if self.placement == POINTS else source
        kept = self._kept.get(name)
        if kept is None:
            return Store(here.label, here.count, here.shape, here.read)
        return Store(here.label, len(kept), here.shape, lambda samples: here.read(kept[samples]))

    def _complete(self, name: str) -> Array:
        """Indices of the samples of a set that are finite at all its resolutions."""
        kept = np.flatnonzero(np.logical_and.reduce([s.complete() for s in self._sources(name)]))
        if not kept.size:
            raise ValueError(f"{self.name}: every sample of the {name} files holds NaN or infinite values")
        return kept

    def check_tests(self) -> None:
        """Raise a ValueError if test samples hold NaN: training would not notice, and the run could not be tested."""
        if self.skip_nan or self.mask == "nan":
            return
        for source in self._sources("test"):
            bad = np.flatnonzero(~source.complete())
            if bad.size:
                listed = ", ".join(map(str, bad[:5])) + (", …" if bad.size > 5 else "")
                raise ValueError(
                    f"{source.label}: {bad.size} of {source.count} test samples hold NaN or infinite values "
                    f"({listed}); leave them out of the file, or have them left out: problem.params.skip_nan=true"
                )

    def _sources(self, name: str, placement: Placements | None = None) -> list[Source]:
        allowed = self.allow_nan or self.mask == "nan"
        wanted = Wanted((self.input, self.output), (self.input_time, self.output_time), allowed, self._mask_field)
        return [self._open(name, entry, self._reading(placement), wanted) for entry in getattr(self, name)]

    def _open(self, name: str, entry: Any, reading: ReadOptions, wanted: Wanted) -> Source:
        return open_source(entry, reading, wanted)

    @property
    def _mask_field(self) -> str | None:
        """The field that masks, if there is one."""
        return None if self.mask in (None, "nan") else str(self.mask).removeprefix("~")

    def card(self) -> str:
        """The data card, with the files, their numbers of samples, grids and ranges of values."""
        where = self.placement if isinstance(self.placement, str) else ", ".join(self.placement)
        lines = [super().card(), "", f"Placement: {where}, {self._evidence}."]
        for name in SETS:
            for s in self._sources(name):
                kept = self._kept.get(name, np.arange(s.count))
                some = kept[:SOME]
                units = [self.input_units or s.units(0), self.output_units or s.units(1)]
                spans = [f"{s.names[side]} {_span(s.sample(side, some))} {units[side]}".rstrip() for side in (0, 1)]
                left_out = f" ({s.count - len(kept)} with NaN left out)" if self.skip_nan else ""
                grid = "×".join(map(str, s.shape))
                count = f"{len(kept)} samples{left_out} at {grid}"
                lines.append(f"{name}: {s.label}, {count}; first {len(some)}: {', '.join(spans)}")
        return "\n".join(lines)


def _span(values: Array) -> str:
    finite = values[np.isfinite(values)]
    return f"{finite.min():.4g} … {finite.max():.4g}" if finite.size else "no finite value"
