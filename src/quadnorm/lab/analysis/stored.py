"""Read what runs store for figures: fields of one test instance, and an audit.

The files are written when a run is evaluated (:mod:`quadnorm.lab.studies.pictures`), so that figures need no weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadnorm.lab.studies.pictures import audit_file, read_audit, read_picture

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FieldSample:
    """One test instance at one grid, (n, m) each: input, target, and predictions by name."""

    x: Array
    target: Array
    predictions: dict[str, Array]
    grid: int

    def error(self, name: str) -> float:
        """Relative L² error of a prediction in per cent."""
        return 100 * float(np.linalg.norm(self.predictions[name] - self.target) / np.linalg.norm(self.target))


def load_sample(named: dict[str, tuple[Path, str]], grid: int) -> FieldSample | None:
    """The stored instance at a grid with the predictions of several runs: name → (run folder, way).

    Runs that did not store it are left out; None if no run did. Raises a ValueError for a damaged file, and if two runs
    were evaluated on different instances.
    """
    sample: FieldSample | None = None
    for name, (folder, way) in named.items():
        picture = read_picture(folder, way, grid)
        if picture is None:
            continue
        if sample is None:
            sample = FieldSample(picture.x, picture.truth, {}, grid)
        elif sample.target.shape != picture.truth.shape or not np.allclose(sample.target, picture.truth, rtol=1e-3):
            raise ValueError(
                f"{folder} has another test instance than the run it is compared with; run the study again for both"
            )
        sample.predictions[name] = picture.prediction
    return sample


@dataclass(frozen=True)
class StoredLeak:
    """What one module adds to the difference between two grids, and its order in h."""

    name: str
    kind: str
    introduced: float
    order: float | None


@dataclass(frozen=True)
class StoredAudit:
    """The audit of a trained model between the grids ``grids``."""

    grids: tuple[int, ...]
    leaks: tuple[StoredLeak, ...]


def load_audit(folder: Path) -> StoredAudit | None:
    """A run's audit, or None if it stored none."""
    stored = read_audit(folder)
    if stored is None:
        return None
    try:
        return StoredAudit(tuple(int(n) for n in stored["grids"]), tuple(_leak(row) for row in stored["leaks"]))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{audit_file(folder)} lacks fields that are needed ({type(error).__name__}: {error}); run the study again"
        ) from None


def _leak(row: dict[str, Any]) -> StoredLeak:
    order = row.get("order")
    return StoredLeak(
        str(row["name"]), str(row["kind"]), float(row["introduced"] or 0.0), None if order is None else float(order)
    )
