"""Record folders written by hand: what `quadnorm study run` leaves behind, without training anything."""

import math
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadnorm.lab.analysis.results import printed_variant
from quadnorm.lab.studies.records import FORMAT, folder_of, task_of, write_evaluation, write_record
from quadnorm.lab.studies.study import Run, Study

Error = Callable[[Run, str, int], float]  # (run, evaluation, grid) -> per cent

ENVIRONMENT = {"quadnorm": "0.1.0", "python": "3.11.7", "packages": {"torch": "2.13.0"}, "machine": "x86_64"}


def noise(*words: object) -> float:
    """A number in (−1, 1) that depends on the words only."""
    return zlib.crc32(repr(words).encode()) / 2**31 - 1


def like_the_paper(study: Study) -> Error:
    """Means near the printed ones, an O(h) law where nothing is printed; anchoring removes nine tenths of it."""

    def error(run: Run, evaluation: str, grid: int) -> float:
        v = run.variant
        full = printed_variant(study, v)
        there = full.test[v.test.index(grid)]
        native = full.test[0]
        printed = full.printed()
        label = run.method.label
        cell, base = printed.get((label, there)), printed.get((label, native))
        strength = 120 if "Quad" in label and "Blend" not in label else 330
        low = base.value if base else 3.0 + 0.1 * noise(label)
        high = cell.value if cell else math.hypot(low, strength * abs(1 / (native - 1) - 1 / (there - 1)))
        rise = {"as-trained": 1.0, "anchor-norms": 0.8, "anchor-kernels": 0.3}.get(evaluation, 0.05)
        mean = low + rise * (high - low)
        return mean * (1 + 0.02 * noise(run.seed, v.name) + 0.006 * noise(label, run.seed, grid))

    return error


def write_weights(study: Study, root: Path, methods: tuple[str, ...], shared: Path) -> None:
    """Weights for the first seed of these methods: of one small model, which will do for any picture of fields."""
    for run in study.runs():
        if run.seed == study.seeds[0] and run.method.label in methods:
            shutil.copy(shared, folder_of(root, task_of(run, study.evaluations)) / "best.safetensors")


def write_records(
    study: Study,
    root: Path,
    error: Error | None = None,
    test: int = 4,
    keep: Callable[[Run], bool] | None = None,
    **record: Any,
) -> list[Path]:
    """A whole record for each run of the study; ``record`` overrides fields of record.json. Returns the folders."""
    error = error or like_the_paper(study)
    made = []
    for run in study.runs():
        if keep is not None and not keep(run):
            continue
        task = task_of(run, study.evaluations)
        folder = folder_of(root, task)
        (folder / "evaluations").mkdir(parents=True, exist_ok=True)
        for e in study.evaluations:
            for grid in run.variant.test:
                value = error(run, e.name, grid)
                # Between a fifth and nine fifths of the mean, whatever the number of samples.
                samples = [value / 100 * (1 + 0.8 * ((2 * k + 1) / test - 1)) for k in range(test)]
                plain = [s if math.isfinite(s) else None for s in samples]
                write_evaluation(folder, e.name, grid, "weights", {"plain": plain, "weighted": plain})
        whole = {
            "format": FORMAT, "weights": "weights", "key": task.key, "status": "done", "text": "",
            "config": dict(task.config),
            "numerics": 1, "data": f"data-of-{run.variant.problem}", "seconds": 12.5,
            "environment": ENVIRONMENT, **record,
        }  # fmt: skip
        write_record(folder, whole)
        made.append(folder)
    return made
