"""Readers for users' data: fields with node placement and coordinates. Nothing is ever unpickled.

>>> import numpy as np, tempfile, pathlib
>>> from quadnorm.problems.files import read_fields
>>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.npz"
>>> np.savez(path, u=np.zeros((5, 8, 8)), x=(np.arange(8) + 0.5) / 8, y=(np.arange(8) + 0.5) / 8)
>>> data = read_fields(path)
>>> data.placement, data.resolution, tuple(data.tensor("u", [0, 3]).shape)
(('cell', 'cell'), (8, 8), (2, 1, 8, 8))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadnorm._files import open_file
from quadnorm._suggest import unknown
from quadnorm.measures.data.placements import PLACEMENTS
from quadnorm.problems.files.described import read_described
from quadnorm.problems.files.formats import arrays, mat, releases
from quadnorm.problems.files.formats.hdf5 import opened
from quadnorm.problems.files.formats.variables import MAGIC, of_dataset, of_hdf5, open_netcdf3, open_zarr
from quadnorm.problems.files.model import Field, FieldFile
from quadnorm.problems.files.options import ReadOptions

__all__ = [
    "PLACEMENTS",
    "Field",
    "FieldFile",
    "ReadOptions",
    "read_arrays",
    "read_dataset",
    "read_fields",
    "read_hdf5",
    "read_mat",
    "read_netcdf3",
    "read_npy",
    "read_npz",
    "read_pdebench",
    "read_pt",
    "read_well",
    "read_zarr",
]

_ALL = ("fields", "axes", "dim", "channels", "placement", "domain", "ignore_coordinates")
_STATED = ("fields", "placement", "domain", "ignore_coordinates")  # of layouts that name their axes themselves


@dataclass(frozen=True)
class Reader:
    """Reads files of one layout: ``reader(path, placement="cell")``; ``takes`` are those of :class:`ReadOptions`."""

    layout: str
    read: Callable[[Path, ReadOptions], FieldFile]
    takes: tuple[str, ...] = _ALL

    def __call__(self, path: str | Path, **options: Any) -> FieldFile:
        for name in options:
            if name not in self.takes:
                reason = f"files of the layout {self.layout} state that themselves, or have none; leave it out"
                raise ValueError(f"{path}: {name}={options[name]!r} cannot be used here: {reason}")
        return self.read(Path(path), ReadOptions(**options))


def read_dataset(dataset: Any, label: str = "Dataset", **options: Any) -> FieldFile:
    """The fields of an xarray Dataset, not yet read if it is lazy; ``options`` as of :class:`ReadOptions`."""
    return _described(Path(label), "xarray", dataset, ReadOptions(**options))


def read_arrays(arrays_: Mapping[str, Any], label: str = "arrays", **options: Any) -> FieldFile:
    """Named arrays or tensors in memory, as those of an .npz file; ``options`` as of :class:`ReadOptions`."""
    return arrays.read_members(Path(label), arrays_, ReadOptions(**options))


def _described(path: Path, layout: str, dataset: Any, options: ReadOptions) -> FieldFile:
    return read_described(path, layout, of_dataset(dataset, ignore=options.ignore_coordinates), options)


def _hdf5(path: Path, options: ReadOptions) -> FieldFile:
    return read_described(path, "hdf5", of_hdf5(path, ignore=options.ignore_coordinates), options)


read_hdf5 = Reader("hdf5", _hdf5)
read_netcdf3 = Reader("netcdf3", lambda path, options: _described(path, "netcdf-3", open_netcdf3(path), options))
read_zarr = Reader("zarr", lambda path, options: _described(path, "zarr", open_zarr(path), options))
read_mat = Reader("mat", mat.read_mat)
read_npy = Reader("npy", arrays.read_npy, ("axes", "dim", "channels", "placement", "domain"))
read_npz = Reader("npz", arrays.read_npz)
read_pt = Reader("pt", arrays.read_pt)
read_pdebench = Reader("pdebench", releases.read_pdebench, _STATED)
read_well = Reader("the_well", releases.read_well, _STATED)
_READERS = {
    r.layout: r
    for r in (read_hdf5, read_mat, read_netcdf3, read_npy, read_npz, read_pdebench, read_pt, read_well, read_zarr)
}
_SUFFIXES = {".mat": "mat", ".npy": "npy", ".npz": "npz", ".pt": "pt", ".pth": "pt", ".zarr": "zarr"}


def read_fields(path: str | Path, *, layout: str = "auto", **options: Any) -> FieldFile:
    """Read a file by its ending, HDF5 by its content; ``layout`` names one of the readers instead.

    ReadOptions are passed to the reader; see :class:`ReadOptions`.
    """
    path = Path(path)
    if layout == "auto":
        layout = _SUFFIXES.get(path.suffix.lower()) or _layout_inside(path)
    if layout not in _READERS:
        raise ValueError(unknown("layout", layout, _READERS))
    return _READERS[layout](path, **options)


def options_for(path: str | Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of :func:`read_fields` for one file; the number of axes only where the layout does not say it."""
    return {k: v for k, v in options.changed.items() if k != "dim" or (options.axes is None and takes(path, "dim"))}


def takes(path: str | Path, option: str) -> bool:
    """Whether the reader of a file has an option, such as ``dim``; the layouts of the others say it."""
    path = Path(path).expanduser()
    layout = _SUFFIXES.get(path.suffix.lower()) or (_layout_inside(path) if path.exists() else "")
    return layout in _READERS and option in _READERS[layout].takes


def _layout_inside(path: Path) -> str:
    """The layout of a file by its content: of HDF5, netCDF-4 and netCDF-3."""
    if path.is_dir() and any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zmetadata")):
        return "zarr"
    if path.is_dir():
        raise ValueError(f"{path}: a folder; expected a file, or for several resolutions a list of files")
    if path.suffix.lower() not in (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".cdf", ".netcdf"):
        known = ", ".join([*_SUFFIXES, ".h5", ".hdf5", ".nc"])
        raise ValueError(f"{path}: unknown ending {path.suffix!r}; known are {known}")
    if path.exists():
        with open_file(path) as raw:
            if raw.read(len(MAGIC)) == MAGIC:
                return "netcdf3"
    with opened(path) as file:
        names = set(file)
        grouped = any(n.isdigit() and "data" in file[n] for n in names)
    if {"dimensions", "t0_fields"} <= names:
        return "the_well"
    marks = {"tensor", "nu", "density", "velocity"}
    return (
        "pdebench"
        if grouped or ("x-coordinate" in names and names & marks) or {"velocity", "particles"} <= names
        else "hdf5"
    )
