"""Objects of Python as a problem: tensors, arrays and xarray Datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from quadnorm.problems.files import FieldFile, ReadOptions, read_arrays, read_dataset
from quadnorm.problems.files.model import SPACE
from quadnorm.problems.stored.checks import SETS
from quadnorm.problems.stored.files import Files
from quadnorm.problems.stored.source import Source, Wanted, source_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays(Files):
    """Your own data, from Python.

    ``train``, ``val`` and ``test`` are each one of these, or a list of them with the same instances at other
    resolutions:

    * (x, y): tensors or arrays (N, C, *spatial); ``placement`` says where their nodes lie
    * {"x": …, "y": …, "lat": …}: named arrays, as in an .npz file, with their coordinates
    * (x, y) as xarray DataArrays, or a Dataset with both fields: where the nodes lie is read from the coordinates. Data
      that are not in memory stay where they are, and are read sample by sample.

    All other parameters are those of ``files``. :meth:`save` writes the sets to files, which configs can name.

    >>> import torch
    >>> p = Arrays(train=(torch.rand(20, 1, 33, 33), torch.rand(20, 1, 33, 33)), placement="endpoint")
    >>> x, y = p.sample(range(4), resolution=17)
    >>> x.shape
    torch.Size([4, 1, 17, 17])
    """

    train: Any = ()
    val: Any = ()
    test: Any = ()

    name: ClassVar[str] = "arrays"
    _nothing: ClassVar[str] = "nothing to train on; give train=(x, y), tensors (N, C, *spatial), or an xarray Dataset"
    _opened: dict[Any, FieldFile] = field(default_factory=dict, init=False, repr=False, compare=False)

    def _entries(self, name: str, given: Any) -> tuple[Any, ...]:
        if isinstance(given, tuple) and len(given) == 0:
            return ()
        several = list(given) if isinstance(given, list) else [given]
        out = []
        for k, entry in enumerate(several):
            label = name if len(several) == 1 else f"{name}[{k}]"
            if isinstance(entry, tuple) and len(entry) == 2 and all(_is_labelled(part) for part in entry):
                entry = _joined(*entry)
            elif isinstance(entry, tuple) and len(entry) == 2 and all(_is_array(part) for part in entry):
                entry = {"x": entry[0], "y": entry[1]}
            elif not (isinstance(entry, Mapping) or hasattr(entry, "data_vars")):
                raise TypeError(
                    f"{self.name}: {label} must be a pair (x, y) of tensors or DataArrays, a mapping of named arrays, "
                    f"or an xarray Dataset, or a list of these; got {_kind(entry)}"
                )
            out.append(_Entry(label, entry))
        return tuple(out)

    def _open(self, name: str, entry: Any, reading: ReadOptions, wanted: Wanted) -> Source:
        key = entry.label, reading, wanted
        if key not in self._opened:
            self._opened[key] = _read(entry, reading, wanted)
        return source_of(entry.label, (self._opened[key],), wanted)

    def parameters(self) -> dict[str, Any]:
        """The parameters by name; the data as a text that names their shapes."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return plain | {name: [str(entry) for entry in plain[name]] for name in SETS}

    def save(self, folder: str | Path) -> dict[str, Any]:
        """Write the sets into a folder, as netCDF where they are Datasets and else as .npz; returns the parameters of
        the problem ``files`` that reads them.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written: dict[str, Any] = {}
        for name in SETS:
            for entry in getattr(self, name):
                written.setdefault(name, []).append(str(entry.write(place)))
        same = ("input", "output", "input_time", "output_time", "axes", "channels", "domain", "mask", "skip_nan")
        given = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name in same and getattr(self, f.name) != f.default
        }
        where = self._axes or self.placement
        letters = _letters(self.train[0], self._reading())
        return {**written, **given, **({"axes": letters} if letters else {}), "placement": where}


@dataclass(frozen=True, eq=False)
class _Entry:
    label: str
    content: Any  # a mapping of arrays, or a Dataset

    @property
    def is_dataset(self) -> bool:
        return hasattr(self.content, "data_vars")

    def __str__(self) -> str:
        arrays = self.content.data_vars if self.is_dataset else self.content
        return f"{self.label}: " + ", ".join(f"{name} {tuple(np.shape(v))}" for name, v in arrays.items())

    def write(self, folder: Path) -> Path:
        if self.is_dataset:
            path = folder / f"{self.label}.nc"
            self.content.to_netcdf(path, engine="h5netcdf")
            return path
        path = folder / f"{self.label}.npz"
        plain = {n: v.detach().cpu().numpy() if isinstance(v, Tensor) else v for n, v in self.content.items()}
        np.savez(path, allow_pickle=False, **plain)
        return path


def _read(entry: _Entry, reading: ReadOptions, wanted: Wanted) -> FieldFile:
    options = wanted.picked(replace(reading, axes=reading.axes or _letters(entry, reading)))
    return (read_dataset if entry.is_dataset else read_arrays)(entry.content, options, entry.label)


def _letters(entry: _Entry, reading: ReadOptions) -> dict[str, str] | None:
    """A pair of tensors is (N, C, *spatial), as everywhere here; the axes of other arrays are found out."""
    if entry.is_dataset or reading.axes is not None or set(entry.content) != {"x", "y"}:
        return None
    ranks = {name: np.ndim(v) for name, v in entry.content.items()}
    if reading.channels != "auto" or not all(3 <= rank <= 5 for rank in ranks.values()):
        return None
    return {name: "nc" + SPACE[: rank - 2] for name, rank in ranks.items()}


def _joined(x: Any, y: Any) -> Any:
    """Two DataArrays as a Dataset with the fields input and output; their coordinates must be the same."""
    try:
        return x.to_dataset(name="input").merge(y.to_dataset(name="output"), join="exact", compat="no_conflicts")
    except ValueError as error:
        raise ValueError(f"arrays: x and y lie on different coordinates: {error}") from None


def _is_labelled(part: Any) -> bool:
    return hasattr(part, "dims") and hasattr(part, "coords")


def _is_array(part: Any) -> bool:
    return hasattr(part, "shape") and hasattr(part, "dtype")


def _kind(entry: Any) -> str:
    if isinstance(entry, tuple):
        return f"a tuple of {', '.join(type(part).__name__ for part in entry)}"
    return type(entry).__name__
