"""What a run stores beside its errors when it is evaluated: fields of one test instance, and an audit.

``fields.npz`` in the run's folder has one array (C, *spatial) each, for the first test instance:

===========================  ==================================================================
``input@GRID``               the input at a test grid
``target@GRID``              the solution there
``prediction@WAY@GRID``      the model's output in one way of using it (``as-trained``, …)
===========================  ==================================================================

``audit.json``, sealed as records are: ``resolutions``, and ``leaks`` with name, kind, introduced and order of each
module, largest first.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadnorm.lab.studies.records import read_json

Array = NDArray[np.float64]
FIELDS, AUDIT = "fields.npz", "audit.json"


@dataclass(frozen=True)
class FieldSample:
    """One test instance at one grid, (n, m) each: input, target, and predictions by name (the first channels)."""

    x: Array
    target: Array
    predictions: dict[str, Array]
    grid: int

    def error(self, name: str) -> float:
        """Relative L² error of a prediction in per cent."""
        return 100 * float(np.linalg.norm(self.predictions[name] - self.target) / np.linalg.norm(self.target))


def load_sample(named: dict[str, tuple[Path, str]], grid: int) -> FieldSample | None:
    """The stored instance at a grid with the predictions of several runs: name → (run folder, way).

    None where a run did not store it. Raises a ValueError that names a damaged file, and one where two runs were
    evaluated on different instances.
    """
    x: Array | None = None
    target: Array | None = None
    predictions: dict[str, Array] = {}
    for name, (folder, way) in named.items():
        arrays = _read(folder / FIELDS, (f"input@{grid}", f"target@{grid}", f"prediction@{way}@{grid}"))
        if arrays is None:
            return None
        if target is not None and not np.allclose(target, arrays[1], rtol=1e-4, atol=1e-6):
            raise ValueError(
                f"{folder / FIELDS} shows another test instance than the run beside it; evaluate both again"
            )
        x, target, predictions[name] = arrays
    return None if x is None or target is None else FieldSample(x, target, predictions, grid)


def _read(path: Path, names: tuple[str, ...]) -> list[Array] | None:
    """The first channel of each of these arrays; None if the file or one of them is not there."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not set(names) <= set(stored.files):
                return None
            arrays = [np.asarray(stored[name], dtype=np.float64) for name in names]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it and run the study again") from None
    if any(a.ndim != 3 for a in arrays):
        raise ValueError(f"{path}: expected arrays (channels, n, m), got {[a.shape for a in arrays]}")
    return [a[0] for a in arrays]


@dataclass(frozen=True)
class StoredLeak:
    """What one module adds to the difference between two grids, and its order in h."""

    name: str
    kind: str
    introduced: float
    order: float | None


@dataclass(frozen=True)
class StoredAudit:
    """The audit of a trained model between the grids ``resolutions``."""

    resolutions: tuple[int, ...]
    leaks: tuple[StoredLeak, ...]


def load_audit(folder: Path) -> StoredAudit | None:
    """A run's audit, or None if it stored none."""
    stored = read_json(folder / AUDIT)
    if stored is None:
        return None
    try:
        leaks = tuple(_leak(row) for row in stored["leaks"])
        return StoredAudit(tuple(int(n) for n in stored["resolutions"]), leaks)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / AUDIT} lacks what this version reads ({type(error).__name__}: {error}); run the study again"
        ) from None


def _leak(row: dict[str, Any]) -> StoredLeak:
    order = row.get("order")
    return StoredLeak(
        str(row["name"]), str(row["kind"]), float(row["introduced"] or 0.0), None if order is None else float(order)
    )
