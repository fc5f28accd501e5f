"""Readers for users' data: fields with node placement and coordinates. Nothing is ever unpickled.

>>> import numpy as np, tempfile, pathlib
>>> from quadnorm.problems.files import read_fields
>>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.npz"
>>> np.savez(path, u=np.zeros((5, 8, 8)), x=(np.arange(8) + 0.5) / 8, y=(np.arange(8) + 0.5) / 8)
>>> data = read_fields(path)
>>> data.placement, data.resolution, tuple(data.tensor("u", [0, 3]).shape)
(('cell', 'cell'), (8, 8), (2, 1, 8, 8))
"""

from inspect import signature
from pathlib import Path
from typing import Any

from quadnorm._files import open_file
from quadnorm._suggest import unknown
from quadnorm.measures.data.placements import PLACEMENTS
from quadnorm.problems.files.formats.arrays import read_npy, read_npz, read_pt
from quadnorm.problems.files.formats.datasets import read_hdf5
from quadnorm.problems.files.formats.hdf5 import opened
from quadnorm.problems.files.formats.mat import read_mat
from quadnorm.problems.files.formats.netcdf3 import MAGIC, read_netcdf3
from quadnorm.problems.files.formats.official import data_folder, official_file
from quadnorm.problems.files.formats.pdebench import read_pdebench
from quadnorm.problems.files.formats.well import read_well
from quadnorm.problems.files.model import Field, FieldFile

__all__ = [
    "PLACEMENTS",
    "Field",
    "FieldFile",
    "data_folder",
    "official_file",
    "read_fields",
    "read_hdf5",
    "read_mat",
    "read_netcdf3",
    "read_npy",
    "read_npz",
    "read_pdebench",
    "read_pt",
    "read_well",
]

_READERS = {
    "hdf5": read_hdf5,
    "mat": read_mat,
    "netcdf3": read_netcdf3,
    "npy": read_npy,
    "npz": read_npz,
    "pdebench": read_pdebench,
    "pt": read_pt,
    "the_well": read_well,
}
_SUFFIXES = {".mat": "mat", ".npy": "npy", ".npz": "npz", ".pt": "pt", ".pth": "pt"}


def read_fields(path: str | Path, *, layout: str = "auto", **options: Any) -> FieldFile:
    """Read a file by its ending, HDF5 by its content; ``layout`` names one of the readers instead.

    Options are passed to the reader: ``placement`` and ``domain`` (if the file does not say where its nodes lie),
    ``fields``, ``axes``, ``dim``, ``channels``, ``ignore_coordinates``; see :func:`read_hdf5`.
    """
    path = Path(path)
    if layout == "auto":
        layout = _SUFFIXES.get(path.suffix.lower()) or _layout_inside(path)
    if layout not in _READERS:
        raise ValueError(unknown("layout", layout, _READERS))
    reader: Any = _READERS[layout]
    known = signature(reader).parameters
    for name in options:
        if name not in known:
            reason = f"files of the layout {layout} state that themselves, or have none; leave it out"
            raise ValueError(f"{path}: {name}={options[name]!r} cannot be used here: {reason}")
    result: FieldFile = reader(path, **options)
    return result


def takes(path: str | Path, option: str) -> bool:
    """Whether the reader of a file has an option, such as ``dim``; the layouts of the others say it."""
    path = Path(path).expanduser()
    layout = _SUFFIXES.get(path.suffix.lower()) or (_layout_inside(path) if path.exists() else "")
    reader: Any = _READERS.get(layout)
    return reader is not None and option in signature(reader).parameters


def _layout_inside(path: Path) -> str:
    """The layout of a file by its content: of HDF5, netCDF-4 and netCDF-3."""
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
