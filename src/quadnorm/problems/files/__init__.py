"""Readers for users' data: fields with node placement and coordinates. Nothing is ever unpickled.

>>> import numpy as np, tempfile, pathlib
>>> from quadnorm.problems.files import read_fields
>>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.npz"
>>> np.savez(path, u=np.zeros((5, 8, 8)), x=(np.arange(8) + 0.5) / 8, y=(np.arange(8) + 0.5) / 8)
>>> data = read_fields(path)
>>> data.placement, data.resolution, tuple(data.tensor("u", [0, 3]).shape)
(('cell', 'cell'), (8, 8), (2, 1, 8, 8))
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from quadnorm._files import open_file
from quadnorm._suggest import unknown
from quadnorm.problems.files.described import read_arrays as _read_arrays
from quadnorm.problems.files.formats import arrays, mat, releases
from quadnorm.problems.files.formats.hdf5 import described_items, opened
from quadnorm.problems.files.formats.labelled import MAGIC, dataset_items, open_netcdf3, open_zarr
from quadnorm.problems.files.joined import join, matching
from quadnorm.problems.files.model import Field, FieldFile
from quadnorm.problems.files.options import ReadOptions

__all__ = ["Field", "FieldFile", "ReadOptions", "read_arrays", "read_dataset", "read_fields"]


def read_dataset(dataset: Any, options: ReadOptions | None = None, label: str = "Dataset") -> FieldFile:
    """The fields of an xarray Dataset, not yet read if it is lazy."""
    return _described(Path(label), options or ReadOptions(), "xarray", dataset)


def read_arrays(named: Mapping[str, Any], options: ReadOptions | None = None, label: str = "arrays") -> FieldFile:
    """Named arrays or tensors in memory, as those of an .npz file."""
    return arrays.read_members(Path(label), named, options or ReadOptions())


def _described(path: Path, options: ReadOptions, layout: str, dataset: Any) -> FieldFile:
    return _read_arrays(path, layout, *dataset_items(path, dataset, ignore=options.ignore_coordinates), options)


def _hdf5(path: Path, options: ReadOptions) -> FieldFile:
    return _read_arrays(path, "hdf5", *described_items(path, ignore=options.ignore_coordinates), options)


_STATED = ("axes", "channels")  # options that layouts which name their axes have no use for
_READERS = {
    "hdf5": (_hdf5, ()),
    "mat": (mat.read_mat, ()),
    "netcdf3": (lambda path, options: _described(path, options, "netcdf-3", open_netcdf3(path)), ()),
    "npy": (arrays.read_npy, ("ignore_coordinates",)),
    "npz": (arrays.read_npz, ()),
    "pdebench": (releases.read_pdebench, _STATED),
    "pt": (arrays.read_pt, ()),
    "the_well": (releases.read_well, _STATED),
    "zarr": (lambda path, options: _described(path, options, "zarr", open_zarr(path)), ()),
}
_SUFFIXES = {".mat": "mat", ".npy": "npy", ".npz": "npz", ".pt": "pt", ".pth": "pt", ".zarr": "zarr"}


def read_fields(
    path: str | Path, options: ReadOptions | None = None, *, layout: str = "auto", **given: Any
) -> FieldFile:
    """Read a file by its ending, HDF5 by its content; ``layout`` names one of the readers instead.

    A pattern (era5_*.nc) means files that follow each other along samples or times.
    ``options``, or their parts by name: see :class:`ReadOptions`. How many spatial axes there are is left to layouts
    that say it.
    """
    path, options = Path(path), options or ReadOptions(**given)
    if several := matching(path):
        return join(path, [read_fields(one, options, layout=layout) for one in several])
    if layout == "auto":
        layout = _SUFFIXES.get(path.suffix.lower()) or _layout_inside(path)
    if layout not in _READERS:
        raise ValueError(unknown("layout", layout, _READERS))
    read, useless = _READERS[layout]
    for name in set(useless) & set(options.changed):
        reason = f"files of the layout {layout} state that themselves, or have none; leave it out"
        raise ValueError(f"{path}: {name}={options.changed[name]!r} cannot be used here: {reason}")
    return read(path, options)


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
    marked = "x-coordinate" in names and names & {"tensor", "nu", "density", "velocity"}
    return "pdebench" if grouped or marked or {"velocity", "particles"} <= names else "hdf5"


read_hdf5, read_mat, read_npy, read_pt, read_pdebench, read_well = (
    partial(read_fields, layout=layout) for layout in ("hdf5", "mat", "npy", "pt", "pdebench", "the_well")
)
