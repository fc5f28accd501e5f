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
from quadnorm.problems.files.assemble import Asked, assemble
from quadnorm.problems.files.axes.coordinates import FileCoordinates, coordinates_in
from quadnorm.problems.files.axes.request import Picker, Request, item
from quadnorm.problems.files.fields import as_fields
from quadnorm.problems.files.model import FieldFile

_MOST_LEVELS = 16  # of containers in containers
# torch's reader raises any of these for a damaged file
_DAMAGE = (RuntimeError, EOFError, OSError, ValueError, LookupError, AssertionError, AttributeError, TypeError)


def read_npy(
    path: str | Path,
    *,
    axes: Mapping[str, str] | str | None = None,
    dim: int = 2,
    channels: str = "auto",
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
) -> FieldFile:
    """One array, memory-mapped: field "data". It never says where its nodes lie.

    ``axes`` are its letters; in a dictionary they may also stand under the file's own name, without its ending.
    """
    path = _existing(path)
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path}: not a plain .npy array: damaged, cut short, or with objects in it ({error})"
        ) from error
    letters = axes if axes is None or isinstance(axes, str) else axes.get("data") or axes.get(path.stem)
    field, _ = as_fields(path, {"data": item(data)}, Request(["data"], letters, dim, channels), FileCoordinates({}))
    return assemble(path, "npy", field, Asked(placement, domain))


def read_npz(
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
    """Named arrays; arguments as in :func:`quadnorm.problems.files.read_hdf5`.

    A member ``placement`` (text, one word or one for each axis) gives the placement.
    """
    path = _existing(path)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as archive:
            _check_sizes(path, archive)
            members = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error) as error:
        reason = error if zipfile.is_zipfile(path) else "it is no zip archive"
        raise ValueError(
            f"{path}: not a plain .npz of arrays: damaged, cut short, or with objects in it ({reason}); store arrays "
            "of numbers, all samples of the same shape"
        ) from error
    foreign = [name for name, value in members.items() if not isinstance(value, np.ndarray)]
    if foreign:
        raise ValueError(f"{path}: the member {foreign[0]!r} is not a .npy array; take it out of the archive")
    stated = members.pop("placement", None)
    known = None if stated is None or placement is not None else np.atleast_1d(stated).astype(str).tolist()
    request, asked = Request(fields, axes, dim, channels), Asked(placement, domain, ignore_coordinates)
    return _assembled(path, "npz", members, request, asked, known[0] if known and len(known) == 1 else known)


def read_pt(
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
    """A dictionary of tensors, such as neuraloperator's {x, y}; arguments as in ``read_hdf5``.

    Tensors in dictionaries inside it are called "train/x"; those of a list or tuple "0", "1", …; a single tensor
    "data". Loaded with ``weights_only=True``: a file with anything but tensors and plain containers in it is refused.
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
    try:
        members = {name: _plain(name, t) for name, t in _tensors(content).items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not members:
        raise ValueError(
            f"{path}: expected tensors, best a dictionary of them such as {{x, y}}, got {type(content).__name__}"
        )
    request, asked = Request(fields, axes, dim, channels), Asked(placement, domain, ignore_coordinates)
    return _assembled(path, "pt", members, request, asked)


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


def _tensors(content: Any, name: str = "", depth: int = 0) -> dict[str, torch.Tensor]:
    """The tensors in containers inside each other, by name.

    >>> list(_tensors({"train": (torch.zeros(1), torch.ones(1)), "note": "text"}))
    ['train/0', 'train/1']
    """
    if depth > _MOST_LEVELS:
        raise ValueError(f"containers are nested more than {_MOST_LEVELS} levels deep, or in a circle")
    if isinstance(content, torch.Tensor):
        return {name or "data": content}
    if isinstance(content, Mapping):
        parts = list(content.items())
    else:
        parts = list(enumerate(content)) if isinstance(content, (list, tuple)) else []
    return {n: t for k, v in parts for n, t in _tensors(v, f"{name}/{k}".lstrip("/"), depth + 1).items()}


def _plain(name: str, t: torch.Tensor) -> np.ndarray:
    """A tensor as an array, detached from any graph; a ValueError for sparse and other tensors that NumPy lacks."""
    if t.layout != torch.strided or t.is_quantized or t.device.type != "cpu":
        raise ValueError(f"{name!r} is a {t.layout} tensor on {t.device.type}; store it dense, with .to_dense()")
    t = t.detach().resolve_conj().resolve_neg()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy()


def _assembled(
    path: Path,
    layout: str,
    members: Mapping[str, np.ndarray],
    request: Request,
    asked: Asked,
    known: str | Sequence[str] | None = None,
) -> FieldFile:
    numbers = {name: v for name, v in members.items() if v.dtype.kind in "fiubc" or name in request.named}
    shapes = {name: v.shape for name, v in numbers.items()}
    lines = coordinates_in(
        path, shapes, numbers.__getitem__, request.dim, request.named, ignore=asked.ignore_coordinates
    )
    items = {name: item(v) for name, v in numbers.items() if name not in lines.names}
    fields, found = as_fields(path, items, request, lines)
    return assemble(path, layout, fields, asked, found, known)


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    return path
