"""The result of every reader: named fields, each with its axes, on nodes whose placement is known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as field_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.measures.data.located import Located

MOST_NODES = 2**24  # of an axis: what is known of an axis is kept in memory, and a file may announce any number
SPACE = "xyz"
"""Letters of spatial axes in a string of axes."""
AXES = {"n": "sample", "t": "time", "c": "channel", "d": "component", "x": "x", "y": "y", "z": "z"}


@dataclass(frozen=True)
class Field:
    """One array of a file, not yet read: ``field.read([0, 5])`` takes two samples from the disk.

    ``axes`` names the dimensions of ``shape``: "nxy" is (sample, x, y), "ntxyc" a trajectory of vectors. ``units`` are
    those stated in the file, such as "m/s"; empty if it states none.
    """

    name: str
    axes: str
    shape: tuple[int, ...]
    load: Callable[[Any], np.ndarray]
    path: Path
    units: str = ""

    def read(self, samples: Iterable[int] | slice | None = None, *, allow_nan: bool = False) -> np.ndarray:
        """Samples as an array with this field's axes; a ValueError for NaN and infinity unless ``allow_nan``."""
        varies = self.axes.startswith("n")
        index = slice(None) if samples is None or not varies else self._index(samples)
        return self._checked(index, allow_nan)

    def steps(self, first: int, count: int, *, allow_nan: bool = False) -> np.ndarray:
        """Some time steps of a field whose first axis is time, and nothing else, from the disk."""
        return self._checked(slice(first, first + count), allow_nan)

    def _index(self, samples: Iterable[int] | slice) -> Any:
        if isinstance(samples, slice):
            return samples
        chosen, count = np.asarray(list(samples), dtype=np.int64), self.shape[0]
        if chosen.size and (chosen.min() < 0 or chosen.max() >= count):
            raise IndexError(
                f"{self.path}: {self.name!r} holds samples 0…{count - 1}, got indices {chosen.min()}…{chosen.max()}"
            )
        return chosen

    def _checked(self, index: Any, allow_nan: bool) -> np.ndarray:
        values = np.asarray(self.load(index))
        if allow_nan or values.dtype.kind not in "fc" or np.isfinite(values).all():
            return values
        bad = ~np.isfinite(values)
        if not self.axes.startswith("n"):
            raise ValueError(f"{self.path}: {self.name!r} holds {int(bad.sum())} values that are NaN or infinite")
        which = np.arange(self.shape[0])[index][bad.reshape(len(values), -1).any(axis=1)]
        listed = ", ".join(map(str, which[:8])) + (", …" if which.size > 8 else "")
        raise ValueError(
            f"{self.path}: {self.name!r} holds NaN or infinite values in {which.size} of {len(values)} samples read "
            f"({listed}); leave these samples out (a problem does so with skip_nan=true), or pass allow_nan=True"
        )


@dataclass(frozen=True)
class FieldFile:
    """Fields of one file with their node placement and coordinates, one entry per spatial axis.

    ``file["sol"]`` is a :class:`Field`; ``file.tensor("sol")`` a float32 tensor (N, C, *spatial).
    """

    path: Path
    layout: str
    fields: Mapping[str, Field]
    placement: tuple[str, ...]
    coordinates: tuple[np.ndarray, ...]
    domain: tuple[tuple[float, float], ...]
    times: np.ndarray | None = None
    attributes: Mapping[str, Any] = field_(default_factory=dict)
    evidence: str = "as declared"  # how it is known where the nodes lie
    words: tuple[str, ...] = ()  # names of the spatial axes, such as latitude; their letters where there are none
    locate: Callable[[], Located] | None = None  # finds out where the samples lie, by all that the file knows of it

    def __getitem__(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(f"{self.path}: " + unknown("field", name, self.fields))
        return self.fields[name]

    @property
    def resolution(self) -> tuple[int, ...]:
        """Number of nodes of each spatial axis."""
        return tuple(len(x) for x in self.coordinates)

    def __len__(self) -> int:
        """Number of samples."""
        return next((f.shape[0] for f in self.fields.values() if f.axes.startswith("n")), 1)

    def channels(self, name: str) -> int:
        """How many channels :meth:`tensor` gives a field: its components, 1 without an axis of them."""
        field = self[name]
        sizes = dict(zip(field.axes, field.shape, strict=True))
        return sizes.get("c", 1) * sizes.get("d", 1)

    def tensor(
        self,
        name: str,
        samples: Iterable[int] | slice | None = None,
        *,
        time: int | None = None,
        dtype: torch.dtype | None = torch.float32,
        allow_nan: bool = False,
    ) -> Tensor:
        """One field as (N, C, *spatial): a missing sample or channel axis has length 1, vectors become channels.

        A field with several time steps needs ``time``, the index of a step. ``dtype=None`` keeps the digits of the
        file: float32 if that holds its numbers exactly, else float64.
        """
        self.check_time(name, time)
        field = self[name]
        axes = field.axes
        if axes.startswith("t"):  # one sample: only the step that is wanted is read
            values, axes = field.steps(time or 0, 1, allow_nan=allow_nan)[0], axes[1:]
        else:
            values = field.read(samples, allow_nan=allow_nan)
        if "t" in axes:
            values, axes = np.take(values, time or 0, axis=axes.index("t")), axes.replace("t", "")
        grid = SPACE[: len(self.coordinates)]
        for letter in "nc" + grid:  # a field that does not vary along an axis may be stored without that axis
            if letter not in axes:
                values, axes = values[..., None], axes + letter
        values = values.transpose([axes.index(a) for a in ("ncd" if "d" in axes else "nc") + grid])
        values = np.broadcast_to(values, (*values.shape[: -len(grid)], *self.resolution))
        values = values.reshape(len(values), -1, *self.resolution) if "d" in axes else values
        if values.dtype.kind not in "fiub":
            raise ValueError(
                f"{self.path}: {name!r} holds {values.dtype}, expected real numbers; store real and imaginary parts "
                f"as two fields"
            )
        own = np.float32 if np.result_type(values.dtype, np.float32) == np.float32 else np.float64
        exact = torch.from_numpy(np.array(values, dtype=own))  # torch does not take every kind of number of a file
        return exact if dtype is None else exact.to(dtype)

    def check_time(self, name: str, time: int | None) -> None:
        """Raise a ValueError if a field does not have the time step, or if it has several and none is chosen."""
        field = self[name]
        if "t" not in field.axes:
            if time is None:
                return
            raise ValueError(
                f"{self.path}: {name!r} has no time axis to take step {time} of; leave the step out, or name the axes "
                f"of the array, as in axes={{{name}: ntxy}}"
            )
        steps = field.shape[field.axes.index("t")]
        if time is None and steps != 1:
            more = "" if "n" in field.axes else f"; if each time is a sample, say axes={field.axes.replace('t', 'n')}"
            raise ValueError(
                f"{self.path}: {name!r} holds {steps} time steps; say which with time=0…{steps - 1} (of a problem: "
                f"input_time=, output_time=){more}"
            )
        if not 0 <= (time or 0) < steps:
            raise ValueError(f"{self.path}: {name!r} holds time steps 0…{steps - 1}, got time step {time}")
