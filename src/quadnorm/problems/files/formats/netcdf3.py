"""netCDF-3 files, the older binary form of netCDF (classic, and with 64-bit offsets); netCDF-4 is HDF5."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import open_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.assemble import Asked
from quadnorm.problems.files.axes.dimensions import Dimension
from quadnorm.problems.files.axes.request import Picker, Request
from quadnorm.problems.files.described import Variable, read_described
from quadnorm.problems.files.formats.hdf5 import text
from quadnorm.problems.files.model import FieldFile
from quadnorm.problems.files.packing import unpacked

MAGIC = b"CDF"


def read_netcdf3(
    path: str | Path,
    *,
    fields: Sequence[str] | Picker | None = None,
    axes: Mapping[str, str] | str | None = None,
    dim: int = 2,
    channels: str = "auto",
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
    ignore_coordinates: bool = False,
) -> FieldFile:
    """One netCDF-3 file; arguments as in :func:`quadnorm.problems.files.read_hdf5`."""
    path = Path(path)
    request = Request(fields, axes, dim, channels, trusting=not ignore_coordinates)
    with _opened(path) as file:
        notes = _attributes(file)
        dims = {name: _dimension(file, name, ignore_coordinates) for name in file.dimensions}
        variables = {
            name: Variable(
                tuple(v.shape),
                _attributes(v),
                # a dimension's own array is found by its name, as a dimension scale is
                () if v.dimensions == (name,) else tuple(dims[d] for d in v.dimensions),
                partial(_loader, path, name),
            )
            for name, v in file.variables.items()
            if v.data.dtype.kind in "fiu"
        }
    return read_described(path, "netcdf-3", variables, request, Asked(placement, domain, ignore_coordinates), notes)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from scipy.io import netcdf_file
    except ImportError as error:
        raise ImportError("reading netCDF-3 files needs scipy: pip install 'quadnorm[bench]'") from error
    with open_file(path) as raw:
        version = raw.read(4)[3:]
    if version not in (b"\x01", b"\x02"):
        raise ValueError(
            f"{path}: a netCDF file of a kind that cannot be read, number {version.hex()}; expected netCDF-4, or "
            "netCDF-3 of the kinds 1 and 2. Convert it: nccopy -k netCDF-4 old.nc new.nc"
        )
    with parsing(path, "not a readable netCDF-3 file, damaged or cut short"):
        file = netcdf_file(str(path), "r", mmap=True)
    try:
        yield file
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the map is closed when its last array is
            file.close()


def _attributes(item: Any) -> dict[str, Any]:
    return {name: text(value) for name, value in item._attributes.items()}


def _dimension(file: Any, name: str, ignore: bool) -> Dimension:
    v = file.variables.get(name)
    if v is None or v.dimensions != (name,):
        return Dimension(name, kind_of(name), name)
    notes = _attributes(v)
    values = None
    if not ignore and v.data.dtype.kind in "fiu":
        values = unpacked(lambda index: np.array(v.data[index]), notes)(())
    return Dimension(name, kind_of(name, notes), name, values)


def _loader(path: Path, name: str, axis: int) -> Callable[[Any], np.ndarray]:
    return partial(_load, path, name, axis)


def _load(path: Path, name: str, axis: int, index: Any) -> np.ndarray:
    with _opened(path) as file:
        data = file.variables[name].data
        if not data.ndim:
            return np.array(data, dtype=data.dtype.newbyteorder("="))
        some = np.moveaxis(data, axis, 0)
        rows = np.arange(len(some))[index].size
        require(rows * some[:1].nbytes, f"{path}: reading {rows} samples of {name!r}, {data.shape},")
        return np.array(some[index], dtype=data.dtype.newbyteorder("="))
