"""Arrays with attributes and named dimensions: what packed values mean, and xarray's own objects, netCDF-3 and zarr."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import open_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.axes import Dimension, Item, Load
from quadnorm.problems.files.described import xarray_module

MAGIC = b"CDF"  # of netCDF-3
_PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value")


@contextmanager
def quietly() -> Iterator[None]:
    """Without xarray's warnings: what is doubtful about a file is said by the errors here, or does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decoded(path: Path, name: str, i: Item, dtype: Any) -> Item:
    """An array whose values are unpacked when they are read: scale, offset, and NaN where nothing was measured."""
    notes: dict[str, Any] = {}
    for key in set(_PACKING) & set(i.attrs):
        given = i.attrs[key]
        each = given if isinstance(given, list) else [given]
        if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in each):
            raise ValueError(f"{path}: {name!r}: the attribute {key} of a dataset is {given!r}, expected a number")
        fill = key in _PACKING[2:]
        if fill and dtype.kind in "iu" and any(n % 1 for n in each):
            continue  # a fill value that an integer cannot be marks nothing
        values = np.asarray(each, dtype=dtype if fill and dtype.kind in "fiu" else None)
        notes[key] = values[0] if len(each) == 1 else values
    if not notes:
        return i
    decode = xarray_module().conventions.decode_cf_variable
    notes |= {k: v for k, v in i.attrs.items() if k == "_Unsigned"}

    def along(axis: int) -> Load:
        read = i.along(axis)

        def load(index: Any) -> np.ndarray:
            packed = read(index)
            names = [f"#{k}" for k in range(packed.ndim)]
            with parsing(path, f"the values of {name!r} cannot be unpacked"), quietly():
                v = xarray_module().Variable(names, packed, dict(notes))
                return np.asarray(decode(name, v, decode_times=False, decode_timedelta=False).values)

        return load

    return replace(i, along=along)


def dataset_items(
    path: Path, dataset: Any, *, ignore: bool = False, group: str = ""
) -> tuple[dict[str, Item], dict[str, Any]]:
    """The variables of an xarray Dataset or of all groups of a DataTree, and its attributes; with ``ignore``, the nodes
    of its dimensions are not read.
    """
    if hasattr(dataset, "subtree"):
        every: dict[str, Item] = {}
        for node in dataset.subtree:
            place = f"{node.path}/".lstrip("/")
            every |= dataset_items(path, node.to_dataset(), ignore=ignore, group=place)[0]
        return every, {str(k): v for k, v in dataset.attrs.items()}
    dims: dict[str, Dimension] = {}
    for key in map(str, dataset.sizes):
        v = dataset.variables.get(key)
        own = v is not None and v.dims == (key,)
        values = np.asarray(v.values) if own and not ignore and v.dtype.kind in "fiu" else None
        dims[key] = Dimension(key, kind_of(key, v.attrs if own else None), group + key, values)
    items = {}
    for name, v in ((str(name), v) for name, v in dataset.variables.items()):
        if v.dtype.kind in "fiub":
            # a dimension's own array is found by its name, as a dimension scale is
            own_dims = () if v.dims == (name,) else tuple(dims[str(d)] for d in v.dims)
            items[group + name] = Item(v.shape, partial(_loader, path, group + name, v), own_dims, v.attrs, v.encoding)
    return items, {str(k): v for k, v in dataset.attrs.items()}


def _loader(path: Path, name: str, v: Any, axis: int) -> Load:
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
    """A zarr store as a DataTree of its groups."""
    return _opened(path, "zarr", "not a readable zarr store")


def _opened(path: Path, engine: str, kind: str) -> Any:
    xarray = xarray_module()
    read = xarray.open_datatree if engine == "zarr" else xarray.open_dataset
    with parsing(path, kind), quietly():
        return read(path, engine=engine, decode_times=False, decode_timedelta=False, chunks=None, cache=False)
