"""NumPy's .npy and .npz, and torch's .pt: arrays only. Arbitrary objects are refused, so no file can run code."""

import pickle
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quadnorm._files import require_file
from quadnorm._foreign import parsing, read_arrays, require_unpacked
from quadnorm.problems.files.assemble import read_items
from quadnorm.problems.files.axes import item
from quadnorm.problems.files.described import read_arrays as assembled
from quadnorm.problems.files.model import FieldFile
from quadnorm.problems.files.options import ReadOptions

_MOST_LEVELS = 16  # of containers in containers


def read_npy(path: Path, options: ReadOptions) -> FieldFile:
    """One array, memory-mapped: field "data". It never says where its nodes lie.

    ``axes`` are its letters; in a dictionary they may also stand under the file's own name, without its ending.
    """
    require_file(path)
    with parsing(path, "not a plain .npy array: damaged, cut short, or with objects in it"):
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    axes = options.axes
    letters = axes if axes is None or isinstance(axes, str) else axes.get("data") or axes.get(path.stem)
    return read_items(path, "npy", {"data": item(data)}, replace(options, fields=["data"], axes=letters))


def read_npz(path: Path, options: ReadOptions) -> FieldFile:
    """Named arrays.

    A member ``placement`` (text, one word or one for each axis) gives the placement.
    """
    require_file(path)
    members = read_arrays(path, "not a plain .npz of arrays: damaged, cut short, or with objects in it")
    stated = members.pop("placement", None)
    known = [] if stated is None or options.placement is not None else np.atleast_1d(stated).astype(str).tolist()
    return _assembled(path, "npz", members, options, known[0] if len(known) == 1 else known or None)


def read_pt(path: Path, options: ReadOptions) -> FieldFile:
    """A dictionary of tensors, such as neuraloperator's {x, y}.

    Tensors in dictionaries inside it are called "train/x"; those of a list or tuple "0", "1", …; a single tensor
    "data". Loaded with ``weights_only=True``: a file with anything but tensors and plain containers in it is refused.
    """
    require_file(path)
    with parsing(path, "not a readable .pt file, damaged or cut short"), warnings.catch_warnings():
        require_unpacked(path)
        warnings.simplefilter("ignore", UserWarning)  # torch warns of old pickle protocols before it refuses them
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise ValueError(
                f"{path}: refused, it holds Python objects besides tensors (they could run code)"
            ) from error
    try:
        members = {name: _plain(name, t) for name, t in _tensors(content).items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not members:
        raise ValueError(
            f"{path}: expected tensors, best a dictionary of them such as {{x, y}}, got {type(content).__name__}"
        )
    return _assembled(path, "pt", members, options)


def read_members(path: Path, members: Mapping[str, Any], options: ReadOptions) -> FieldFile:
    """Arrays and tensors in memory; ``path`` stands for them in errors."""
    plain = {name: _plain(name, v) if isinstance(v, torch.Tensor) else np.asarray(v) for name, v in members.items()}
    return _assembled(path, "arrays", plain, options)


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
    path: Path, layout: str, members: Mapping[str, np.ndarray], options: ReadOptions, known: Any = None
) -> FieldFile:
    numbers = {name: item(v) for name, v in members.items() if v.dtype.kind in "fiubc" or name in options.named}
    return assembled(path, layout, numbers, {}, options, law=known)
