"""Arrays with attributes and named dimensions as xarray's variables, not yet read: HDF5, netCDF, zarr, Datasets.

xarray unpacks values (``scale_factor``, ``add_offset``), reads fill values as NaN, and opens netCDF-3 and zarr. HDF5 is
opened here, because its dimensions may be scales, several scales or labels, or have no name at all, and because a
file must not lead to others.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import open_file, require_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.axes import Dimension, Dimensions, Load
from quadnorm.problems.files.coordinates import axis_of, line_of
from quadnorm.problems.files.formats.hdf5 import attributes, datasets, opened, read_some, text
from quadnorm.problems.files.model import MOST_NODES

MAGIC = b"CDF"  # of netCDF-3
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
_PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value")


@dataclass(frozen=True)
class Variables:
    """The arrays of numbers of a file or Dataset by name, their dimensions, and the attributes of the whole."""

    arrays: Mapping[str, Any]  # xarray.Variable, lazily read
    dims: Mapping[str, Dimensions]
    notes: Mapping[str, Any]

    def units(self, name: str) -> str:
        """The units that an array's attributes state; empty where they state none."""
        notes = self.arrays[name].attrs
        return str(notes.get("units") or notes.get("unit") or "")


def xarray_module() -> Any:
    """xarray, or an error that names the extra."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("reading HDF5, netCDF and zarr needs xarray: pip install 'quadnorm[data]'") from error
    return xarray


def loader_of(path: Path, name: str, v: Any, axis: int) -> Load:
    """A function that reads samples of a variable, which run along ``axis``, and puts that axis first."""

    def load(index: Any) -> np.ndarray:
        rows = np.arange(v.shape[axis])[index].size if v.ndim else 1
        row = v.size // max(v.shape[axis], 1) if v.ndim else 1
        require(rows * row * v.dtype.itemsize, f"{path}: reading {rows} samples of {name!r}, {v.shape},")
        with parsing(path, f"{name!r} cannot be read, the file is damaged"):
            values = np.asarray((v.isel({v.dims[axis]: index}) if v.ndim else v).values)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        return np.moveaxis(values, axis, 0) if v.ndim else values

    return load


def of_dataset(dataset: Any, *, ignore: bool = False) -> Variables:
    """The variables of an xarray Dataset; with ``ignore``, the nodes of its dimensions are not read."""
    dims: dict[str, Dimension] = {}
    for key in map(str, dataset.sizes):
        v = dataset.variables.get(key)
        own = v is not None and v.dims == (key,)
        values = np.asarray(v.values) if own and not ignore and v.dtype.kind in "fiu" else None
        dims[key] = Dimension(key, kind_of(key, v.attrs if own else None), key, values)
    arrays = {str(name): v for name, v in dataset.variables.items() if v.dtype.kind in "fiub"}
    # a dimension's own array is found by its name, as a dimension scale is
    named = {n: () if v.dims == (n,) else tuple(dims[str(d)] for d in v.dims) for n, v in arrays.items()}
    return Variables(arrays, named, {str(k): text(v) for k, v in dataset.attrs.items()})


@contextmanager
def quietly() -> Iterator[None]:
    """Without xarray's warnings: what is doubtful about a file is said by the errors here, or does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def open_netcdf3(path: Path) -> Any:
    """A netCDF-3 file as a Dataset."""
    with open_file(path) as raw:
        version = raw.read(4)[3:]
    if version not in (b"\x01", b"\x02"):
        raise ValueError(
            f"{path}: a netCDF file of a kind that cannot be read, number {version.hex()}; expected netCDF-4, or "
            "netCDF-3 of the kinds 1 and 2. Convert it: nccopy -k netCDF-4 old.nc new.nc"
        )
    return _opened(path, "scipy", "not a readable netCDF-3 file, damaged or cut short")


def open_zarr(path: Path) -> Any:
    """A zarr store as a Dataset."""
    return _opened(path, "zarr", "not a readable zarr store")


def _opened(path: Path, engine: str, kind: str) -> Any:
    open_dataset = xarray_module().open_dataset
    with parsing(path, kind), quietly():
        return open_dataset(path, engine=engine, decode_times=False, decode_timedelta=False, chunks=None, cache=False)


def of_hdf5(path: Path, *, ignore: bool = False) -> Variables:
    """The datasets of an HDF5 or netCDF-4 file, in all its groups."""
    require_file(path)
    with opened(path) as file:
        scales: dict[str, Dimension] = {}
        present = datasets(file)
        dims = {name: _dimensions(file, name, scales, ignore) for name in present}
        arrays = {
            name: _decoded(path, name, shape, file[name].dtype, dims[name], attributes(file[name]))
            for name, shape in present.items()
        }
        return Variables(arrays, dims, attributes(file))


def _decoded(path: Path, name: str, shape: tuple[int, ...], dtype: Any, dims: Dimensions, notes: dict[str, Any]) -> Any:
    """A dataset as a variable that is unpacked when it is read."""
    x = xarray_module()
    for key in _PACKING:
        each = notes[key] if isinstance(notes.get(key), list) else [notes[key]] if key in notes else []
        if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in each):
            raise ValueError(f"{path}: {name!r}: the attribute {key} of a dataset is {notes[key]!r}, expected a number")
        if key in notes:
            notes[key] = each[0] if len(each) == 1 else np.asarray(each)
    if dtype.kind in "iu":  # a fill value that an integer cannot be marks nothing
        notes = {k: v for k, v in notes.items() if k not in _PACKING[2:] or np.all(np.asarray(v) % 1 == 0)}
    fills = {k: np.asarray(notes[k]).astype(dtype) for k in _PACKING[2:] if k in notes and dtype.kind in "fiu"}
    names = unique_names(dims, len(shape))
    if not any(key in notes for key in _PACKING):
        return x.Variable(names, x.core.indexing.LazilyIndexedArray(stored(path, name, shape, dtype)), notes)
    lazy = x.Variable(names, x.core.indexing.LazilyIndexedArray(stored(path, name, shape, dtype)), {**notes, **fills})
    with parsing(path, f"the values of {name!r} cannot be unpacked"), quietly():
        return x.conventions.decode_cf_variable(name, lazy, decode_times=False, decode_timedelta=False)


def stored(path: Path, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """A dataset as an array of xarray's backends: each access opens the file, and closes it."""
    x = xarray_module()
    from xarray.core import indexing

    class Stored(x.backends.BackendArray):  # type: ignore[name-defined]
        """Read when indexed."""

        def __init__(self) -> None:
            self.shape, self.dtype = shape, np.dtype(dtype)

        def __getitem__(self, key: Any) -> Any:
            support = indexing.IndexingSupport.OUTER_1VECTOR
            return indexing.explicit_indexing_adapter(key, shape, support, self._read)

        def _read(self, key: Any) -> np.ndarray:
            return read_some(path, name, key)

    return Stored()


def unique_names(dims: Dimensions, rank: int) -> list[str]:
    """A name for each dimension of an array; those without one, or with that of another, get a number."""
    names: list[str] = []
    for k in range(rank):
        key = dims[k].key if k < len(dims) else ""
        names.append(key if key and key not in names else f"{key}#{k}")
    return names


def _dimensions(file: Any, name: str, cache: dict[str, Dimension], ignore: bool) -> Dimensions:
    """The dimensions of a dataset of an open file, by its scales or labels; nothing if the file names none of them."""
    dims = tuple(_dimension(file, name, k, cache, ignore) for k in range(file[name].ndim))
    return dims if any(d.name for d in dims) else ()


def _dimension(file: Any, name: str, axis: int, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    here = file[name].dims[axis]
    # a scale that was deleted from the file may still be found here, without a name
    attached = [_scale(file, scale, cache, ignore) for scale in here.values() if scale.name]
    if attached:  # some files attach more than one scale to an axis, as a number and a name that says something
        return max(attached, key=lambda d: (bool(d.kind), d.values is not None))
    label = str(here.label)
    if not label:
        return Dimension()
    for place in (file[name].parent, file):  # the 1-D dataset with the name of the label, in its group or at the top
        twin = place.get(label)
        if getattr(twin, "shape", None) == (file[name].shape[axis],):
            return _scale(file, twin, cache, ignore)
    return Dimension(label, kind_of(label), label)


def _scale(file: Any, scale: Any, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    key = str(scale.name).lstrip("/")
    if key not in cache:
        notes = attributes(scale)
        title = str(notes.get("NAME", ""))
        empty = title.startswith(_NO_VARIABLE) or scale.ndim not in (1, 2) or scale.dtype.kind not in "fiu"
        if not empty and scale.size > MOST_NODES:
            raise ValueError(
                f"{file.filename}: {key!r} has shape {scale.shape}; an axis has at most {MOST_NODES} nodes"
            )
        values = None
        if not empty and not ignore and scale.size:
            values = _decoded(Path(file.filename), key, scale.shape, scale.dtype, (), dict(notes)).values
        axis = 0 if values is None or values.ndim == 1 else axis_of(values)
        bent = (key,) if axis < 0 else ()
        values = None if values is None or bent else line_of(values, axis)
        # a scale of zeros is one that was made and never filled
        filled = values is not None and (values.size < 2 or bool(np.ptp(values)))
        last = key.rsplit("/", 1)[-1]
        plain_title = title if title and not title.startswith(_NO_VARIABLE) else ""
        kind = kind_of(last, notes) or kind_of(plain_title)
        cache[key] = Dimension(last, kind, key, values if filled else None, bent)
    return cache[key]
