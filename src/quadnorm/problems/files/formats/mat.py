"""MATLAB files, as the Fourier neural operator's data come: version 5 (scipy) and 7.3 (HDF5, axes last to first).

| file | arrays | nodes |
|---|---|---|
| Darcy | ``coeff``, ``sol``, ``Kcoeff``, ``Kcoeff_x``, ``Kcoeff_y`` (N, X, Y) | cell centres |
| Navier–Stokes | ``a`` (N, X, Y), ``u`` (N, X, Y, T), ``t`` (1, T) | periodic |
"""

import math
import struct
import zlib
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import open_file, require_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.problems.files.axes import Item, Load, Shape
from quadnorm.problems.files.described import read_arrays
from quadnorm.problems.files.formats.hdf5 import datasets, loader, opened
from quadnorm.problems.files.model import FieldFile
from quadnorm.problems.files.options import ReadOptions

MAT_NODES = "as in the Fourier neural operator's files with these arrays; say placement= if yours differ"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_DAMAGED = "not a MATLAB file that can be read: damaged, cut short, or of another version"
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_STORED = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}  # types of numbers
_HEAD = 4096  # bytes that hold flags, dimensions and name of an array
_MOST_PER_BYTE = 1040  # numbers of one byte each, as zlib can compress them
_NUMERIC = {"double", "single", "logical", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))}


def read_mat(path: Path, options: ReadOptions) -> FieldFile:
    """One .mat file.

    Darcy and Navier–Stokes files of the Fourier neural operator are recognized by their keys; for other files give
    ``placement``, unless they hold coordinates. A version 5 array is read as a whole when its first sample is asked
    for, and kept in memory.
    """
    require_file(path)
    with open_file(path) as file:  # MATLAB puts its own header before the HDF5 signature, at byte 512
        new = _HDF5 in (file.read(8), file.seek(512) and file.read(8))
    if new:
        with opened(path) as file:
            present = {name: shape[::-1] for name, shape in datasets(file).items() if "/" not in name}
        items = {name: Item(shape, partial(loader, path, name, reverse=True)) for name, shape in present.items()}
    else:
        items = {name: Item(shape, partial(_loader_5, path, name)) for name, shape in _shapes_5(path).items()}
    if not items:
        held = "other data" if new else ", ".join(f"{name} ({kind})" for name, _, kind in _scipy(path, "whosmat"))
        raise ValueError(
            f"{path}: no arrays of numbers, got {held or 'nothing'}; store each field as a variable of its own, not "
            "in structs or cells"
        )
    usual, times = None, None
    if {"coeff", "sol"} <= set(items):
        usual = "cell"
    elif {"a", "u", "t"} <= set(items) and len(items["u"].shape) == 4 and not isinstance(options.axes, str):
        usual, options = "periodic", replace(options, axes={"a": "nxy", "u": "nxyt"} | dict(options.axes or {}))
        times = items["t"].whole().reshape(-1)
    layout = "mat-7.3" if new else "mat-5"
    return read_arrays(path, layout, items, {}, options, vectors=True, times=times, usual=usual, law_from=MAT_NODES)


def _shapes_5(path: Path) -> dict[str, Shape]:
    with parsing(path, _DAMAGED):
        _check_types_5(path)
    shapes = {name: tuple(shape) for name, shape, kind in _scipy(path, "whosmat") if kind in _NUMERIC}
    length = path.stat().st_size
    for name, shape in shapes.items():
        if min(shape, default=0) < 0 or math.prod(shape) > _MOST_PER_BYTE * length:
            raise ValueError(f"{path}: {name!r} announces {shape} numbers, the file has {length} bytes; it is damaged")
    return shapes


def _check_types_5(path: Path) -> None:
    """Refuse numbers of a type that MATLAB does not have: scipy looks it up unchecked, and the process would crash.

    An element of the file is a tag (type, length) and its data, or the same compressed; that of an array holds four
    more: flags, dimensions, name, numbers.
    """
    with open_file(path) as file:
        order = "<" if file.read(128)[126:] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, length = struct.unpack(f"{order}II", tag)
            following = file.tell() + length
            start = file.read(min(length, _HEAD))
            if kind == _COMPRESSED:
                start = zlib.decompressobj().decompress(start, _HEAD)
                kind, start = struct.unpack_from(f"{order}I", start)[0], start[8:]
            if kind == _MATRIX:
                _check_array_5(order, start)
            file.seek(following)


def _check_array_5(order: str, data: bytes) -> None:
    flags, at = struct.unpack_from(f"{order}I", data, 8)[0], 16
    if not 6 <= flags & 0xFF <= 15:  # text, a struct, a cell or an object, which are not read
        return
    if flags & 0x800:
        raise ValueError("complex numbers; expected real ones")
    for _ in ("dimensions", "name"):
        kind, length = struct.unpack_from(f"{order}II", data, at)
        at += 8 if kind >> 16 else 8 + -(-length // 8) * 8  # up to four bytes are kept in the tag itself
    kind = struct.unpack_from(f"{order}I", data, at)[0]
    if (kind & 0xFFFF if kind >> 16 else kind) not in _STORED:
        raise ValueError(f"numbers of an unknown type, {kind}")


def _loader_5(path: Path, name: str, axis: int = 0) -> Load:
    whole = cache(partial(_read_5, path, name))
    return lambda index: np.moveaxis(whole(), axis, 0)[index]


def _read_5(path: Path, name: str) -> np.ndarray:
    shape = _shapes_5(path).get(name, ())
    require(2 * 8 * math.prod(shape), f"{path}: reading {name!r}, {shape},")  # as stored, and as an array
    contents = _scipy(path, "loadmat", variable_names=[name])
    if name not in contents:
        raise ValueError(f"{path}: variable {name!r} is announced but cannot be read; the file is damaged or cut short")
    return np.asarray(contents[name])


def _scipy(path: Path, function: str, **options: Any) -> Any:
    try:
        import scipy.io
    except ImportError as error:
        raise ImportError("reading .mat files needs scipy: pip install 'quadnorm[data]'") from error
    with parsing(path, _DAMAGED):
        return getattr(scipy.io, function)(str(path), **options)
