"""NumPy's .npy and .npz, and torch's .pt: arrays only. Arbitrary objects are refused, so no file can run code."""

import math
import pickle
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quadnorm._memory import require
from quadnorm.problems.files.assemble import Asked, assemble, default_axes
from quadnorm.problems.files.hdf5 import choose
from quadnorm.problems.files.model import SPACE, Field, FieldFile

# torch's reader raises any of these for a damaged file
_DAMAGE = (RuntimeError, EOFError, OSError, ValueError, LookupError, AssertionError, AttributeError, TypeError)


def read_npy(
    path: str | Path,
    *,
    axes: str | None = None,
    dim: int = 2,
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
) -> FieldFile:
    """One array, memory-mapped: field "data". It never says where its nodes lie."""
    path = _existing(path)
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path}: not a plain .npy array: damaged, cut short, or with objects in it ({error})"
        ) from error
    letters = axes or default_axes("data", data.ndim, dim, path)
    field = Field("data", letters, data.shape, data.__getitem__, path)
    return assemble(path, "npy", {"data": field}, Asked(placement, domain))


def read_npz(
    path: str | Path,
    *,
    fields: Sequence[str] | None = None,
    axes: Mapping[str, str] | None = None,
    dim: int = 2,
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
    ignore_coordinates: bool = False,
) -> FieldFile:
    """Named arrays; arguments as in :func:`quadnorm.problems.files.read_hdf5`.

    1-D members x, y, z are coordinates; a member ``placement`` (text, one word or one for each axis) gives the
    placement.
    """
    path = _existing(path)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as archive:
            _check_sizes(path, archive)
            members = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: not a plain .npz of arrays: damaged, cut short, or with objects in it ({error})"
        ) from error
    foreign = [name for name, value in members.items() if not isinstance(value, np.ndarray)]
    if foreign:
        raise ValueError(f"{path}: the member {foreign[0]!r} is not a .npy array; take it out of the archive")
    stated = members.pop("placement", None)
    known = None if stated is None or placement is not None else np.atleast_1d(stated).astype(str).tolist()
    coordinates = {a: members.pop(a) for a in SPACE if a in members and members[a].ndim == 1}
    chosen = _fields(path, members, fields, axes, dim)
    asked = Asked(placement, domain, ignore_coordinates)
    return assemble(path, "npz", chosen, asked, coordinates, known[0] if known and len(known) == 1 else known)


def read_pt(
    path: str | Path,
    *,
    fields: Sequence[str] | None = None,
    axes: Mapping[str, str] | None = None,
    dim: int = 2,
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
) -> FieldFile:
    """A dictionary of tensors, such as neuraloperator's {x, y}; arguments as in ``read_hdf5``.

    Loaded with ``weights_only=True``: a file with anything but tensors and plain containers in it is refused.
    """
    path = _existing(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns of old pickle protocols before it refuses them
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path}: refused, it holds Python objects besides tensors (they could run code)") from error
    except _DAMAGE as error:
        raise ValueError(f"{path}: not a readable .pt file, damaged or cut short ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a dictionary of tensors such as {{x, y}}, got {type(content).__name__}")
    members = {str(k): _plain(path, str(k), v) for k, v in content.items() if isinstance(v, torch.Tensor)}
    return assemble(path, "pt", _fields(path, members, fields, axes, dim), Asked(placement, domain))


def _check_sizes(path: Path, archive: Any) -> None:
    """Compare the sizes in the arrays' headers with the archive's, before any memory is allocated."""
    total = 0
    for member in archive.zip.infolist():
        if not member.filename.endswith(".npy"):
            continue
        with archive.zip.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
        size = math.prod(shape) * dtype.itemsize
        if size > member.file_size:
            raise ValueError(f"{member.filename} announces {size} bytes, the archive has {member.file_size} of it")
        total += member.file_size
    require(total, f"{path}: reading its arrays")


def _plain(path: Path, name: str, t: torch.Tensor) -> np.ndarray:
    """A tensor as an array, detached from any graph; a ValueError for sparse and other tensors that NumPy lacks."""
    if t.layout != torch.strided or t.is_quantized or t.device.type != "cpu":
        raise ValueError(
            f"{path}: {name!r} is a {t.layout} tensor on {t.device.type}; store it dense, with .to_dense()"
        )
    t = t.detach().resolve_conj().resolve_neg()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy()


def _fields(
    path: Path,
    members: Mapping[str, np.ndarray],
    wanted: Sequence[str] | None,
    axes: Mapping[str, str] | None,
    dim: int,
) -> dict[str, Field]:
    named = axes or {}
    present = [n for n, v in members.items() if wanted or n in named or dim + 1 <= v.ndim <= dim + 2]
    return {
        name: Field(
            name,
            named.get(name) or default_axes(name, members[name].ndim, dim, path),
            members[name].shape,
            members[name].__getitem__,
            path,
        )
        for name in choose(path, wanted, present)
    }


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    return path
