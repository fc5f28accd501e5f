"""Data for figures of a trained model, stored when the run is evaluated, so that drawing needs no weights.

    <run>/pictures/<way>@<grid>.npz   ``x``, ``truth``, ``error``: the first channel of the first test sample, (n, m)
    <run>/pictures/audit.json         ``grids``, and ``leaks``: the modules that depend on the grid, the worst first,
                                      each with ``name``, ``kind``, ``introduced`` (share of its output) and ``order``

Both store the hash of the ``weights`` they belong to, as the record does.


``x`` and ``error`` = prediction − truth are float16, ``truth`` is float32: so the rounding is a two-thousandth of the
error, not of the field. They are stored for the training grid and the finest grid, for the first seed of the methods
that a study names in ``pictured``; the audit only for the first of these methods.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quadnorm._files import DamagedError, read_sealed, sealed, write_atomic
from quadnorm._foreign import parsing, read_arrays
from quadnorm.lab.studies.study import Way

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from quadnorm.training import TrainConfig

MOST_BYTES = 2**28  # of a picture; one of 4096² has 134 million
LEAKS = 12  # number of modules that are stored of an audit


@dataclass(frozen=True)
class Picture:
    """One test sample at one grid, (n, m) each: input, truth and the model's prediction."""

    x: NDArray[np.float64]
    truth: NDArray[np.float64]
    prediction: NDArray[np.float64]
    weights: str


def picture_file(folder: Path, way: str, grid: int) -> Path:
    """Where a run's picture is kept."""
    return folder / "pictures" / f"{way}@{grid}.npz"


def audit_file(folder: Path) -> Path:
    """Where a run's audit is kept."""
    return folder / "pictures" / "audit.json"


def read_picture(folder: Path, way: str, grid: int) -> Picture | None:
    """A run's picture, or None if it has none; a DamagedError names a damaged file."""
    import numpy as np

    path = picture_file(folder, way, grid)
    try:
        stored = read_arrays(path, "not a picture of a run", DamagedError, MOST_BYTES)
    except FileNotFoundError:
        return None
    with parsing(path, "not a picture of a run", DamagedError):
        x, truth, error = (stored[name].astype(np.float64) for name in ("x", "truth", "error"))
        return Picture(x, truth, truth + error, str(stored["weights"]))


def sound_picture(folder: Path, way: str, grid: int, weights: str) -> bool:
    """Whether a run has the picture, undamaged and made from these weights."""
    try:
        picture = read_picture(folder, way, grid)
    except DamagedError:
        return False
    return picture is not None and picture.weights == weights


def read_audit(folder: Path) -> dict[str, Any] | None:
    """A run's audit, or None if it has none; a DamagedError names a damaged file."""
    try:
        return dict(read_sealed(audit_file(folder)))
    except FileNotFoundError:
        return None


def sound_audit(folder: Path, weights: str) -> bool:
    """Whether a run has the audit, undamaged and made from these weights."""
    try:
        audit = read_audit(folder)
    except DamagedError:
        return False
    return audit is not None and audit.get("weights") == weights


def keep_picture(model: nn.Module, config: TrainConfig, way: Way, grid: int, folder: Path, weights: str) -> None:
    """Write the picture of one way at one grid."""
    import numpy as np
    import torch

    from quadnorm.lab.studies.evaluate import predictor
    from quadnorm.training.data import problem_of, viewed

    p = viewed(problem_of(config), dict(way.view))
    x, y = _first(config, p, grid)
    with torch.no_grad():
        guess = predictor(model, config, way, p, p.shape(grid))(x)
    truth = y[0, 0].double().numpy()
    target = io.BytesIO()
    np.savez_compressed(
        target,
        x=x[0, 0].numpy().astype(np.float16),
        truth=truth.astype(np.float32),
        error=(guess[0, 0].double().numpy() - truth).astype(np.float16),
        weights=np.array(weights),
    )
    path = picture_file(folder, way.name, grid)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, target.getvalue(), "the picture")


def keep_audit(model: nn.Module, config: TrainConfig, grids: tuple[int, ...], folder: Path, weights: str) -> None:
    """Write which modules depend on the grid. Three grids are enough to see the orders; more would only take time."""
    from quadnorm.adapt import audit
    from quadnorm.training.data import problem_of

    p = problem_of(config)
    few = list(grids[:3])
    report = audit(
        model, lambda n: _first(config, p, n)[0], few, placement=p.placement, restrict="nearest", interventions=False
    )
    leaks = [
        {"name": row.name, "kind": row.kind, "introduced": row.introduced, "order": row.order}
        for row in report.leaks[:LEAKS]
    ]
    audit_file(folder).parent.mkdir(exist_ok=True)
    write_atomic(audit_file(folder), sealed({"weights": weights, "grids": few, "leaks": leaks}), "the audit")


def _first(config: TrainConfig, p: Any, grid: Any) -> tuple[Tensor, Tensor]:
    """Input and truth of the first test sample at a grid."""
    import torch

    first = config.samples.indices("test")[:1]
    make = p.dataset_many if config.problem.cache else p.sample_many
    pair: tuple[Tensor, Tensor] = make(first, [grid], config.problem.seed, dtype=getattr(torch, config.dtype))[0]
    return pair


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
