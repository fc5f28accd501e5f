"""Record folders written by hand: what `quadnorm study run` leaves behind, without training anything."""

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from quadnorm._files import sealed, write_atomic
from quadnorm.lab.analysis.results import printed_variant
from quadnorm.lab.studies import paper_table
from quadnorm.lab.studies.pictures import audit_file, picture_file
from quadnorm.lab.studies.records import FORMAT, folder_of, task_of, write_evaluation, write_record
from quadnorm.lab.studies.study import Run, Study, Variant
from tests.lab.analysis.printed import std_from_interval

Error = Callable[[Run, str, int], float]  # (run, evaluation, grid) -> per cent

ENVIRONMENT = {"quadnorm": "0.1.0", "python": "3.11.7", "packages": {"torch": "2.13.0"}, "machine": "x86_64"}


def noise(*parts: object) -> float:
    """A number in (−1, 1) that depends on the words only."""
    return zlib.crc32(repr(parts).encode()) / 2**31 - 1


def like_the_paper(study: Study) -> Error:
    """Means and spreads near the printed ones, an O(h) law where nothing is printed; other ways remove most of it.

    Seeds shift all methods alike, so that runs pair as well as the paper's do.
    """
    z = np.linspace(-1, 1, len(study.seeds)) if len(study.seeds) > 1 else np.zeros(1)
    z = z / z.std(ddof=1) if len(z) > 1 else z
    order = np.random.default_rng(0).permutation(len(z))

    of_variant = {v.name: (full := printed_variant(study, v), full.printed()) for v in study.variants}

    def error(run: Run, evaluation: str, grid: int) -> float:
        v = run.variant
        full, printed = of_variant[v.name]
        there = full.test[v.test.index(grid)]
        native = full.test[0]
        label = run.method.label
        cell, base = printed.get((label, there)), printed.get((label, native))
        strength = 120 if "Quad" in label and "Blend" not in label else 330
        low = base.value if base else 3.0 + 0.1 * noise(label)
        high = cell.value if cell else math.hypot(low, strength * abs(1 / (native - 1) - 1 / (there - 1)))
        rise = {"as-trained": 1.0, "anchor-norms": 0.8, "anchor-kernels": 0.3}.get(evaluation, 0.05)
        mean = low + rise * (high - low)
        return mean + _sigma(study, v, cell, mean) * float(z[order[study.seeds.index(run.seed)]]) * (
            1 + 0.05 * noise(label, run.seed, grid)
        )

    return error


def _sigma(study: Study, variant: Variant, cell: Any, mean: float) -> float:
    """The spread over seeds that the paper prints, 2 % of the mean where it prints none."""
    if cell is None or cell.spread is None or len(study.seeds) < 2:
        return 0.02 * mean
    std = paper_table(variant.label).spread == "std"
    return cell.spread if std else std_from_interval(cell.spread, len(study.seeds))


def write_fields(study: Study, root: Path, methods: tuple[str, ...]) -> None:
    """What a run stores of one test instance, and an audit, for the first seed of these methods."""
    for run in study.runs():
        if run.seed == study.seeds[0] and run.method.label in methods:
            folder = folder_of(root, task_of(run, study.evaluations))
            (folder / "pictures").mkdir(exist_ok=True)
            for n in run.variant.test:
                t = np.linspace(0, 1, n)
                truth = np.sin(np.pi * t)[:, None] * np.sin(2 * np.pi * t)
                for k, e in enumerate(study.evaluations):
                    size = (0.1 if run.method.label == "LayerNorm" else 0.05) / (1 + k)
                    error = np.broadcast_to(size * np.cos(9 * t)[:, None], truth.shape)
                    np.savez(
                        picture_file(folder, e.name, n), x=np.exp(truth), truth=truth, error=error, weights="weights"
                    )
            leaks = [
                {"name": "blocks.0.norm", "kind": "LayerNorm", "introduced": 0.02, "order": 1.0},
                {"name": "blocks.0.spectral", "kind": "SpectralConv", "introduced": 0.01, "order": None},
            ]
            audit = {"weights": "weights", "grids": list(run.variant.test[:3]), "leaks": leaks}
            write_atomic(audit_file(folder), sealed(audit), "the audit")


@patch("os.fsync", lambda handle: None)  # thousands of files that need not outlive the machine
@patch("quadnorm._files.sync_folder", lambda folder: None)
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
    folders = []
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
                octaves = {"error": [(value / 100) ** 2, 0.0], "truth": [0.25, 0.75]}
                write_evaluation(
                    folder, e.name, grid, "weights", {"plain": plain, "weighted": plain, "octaves": octaves}
                )
        alpha = (
            {"alpha": {f"blocks.{k}.norm": 0.35 + 0.02 * k for k in range(2)}}
            if "learned α" in run.method.label
            else {}
        )
        whole = {
            "format": FORMAT, "weights": "weights", "key": task.key, "status": "done", "text": "",
            "config": dict(task.config),
            "numerics": 1, "data": f"data-of-{run.variant.problem}", "seconds": 12.5,
            "environment": ENVIRONMENT, **alpha, **record,
        }  # fmt: skip
        write_record(folder, whole)
        folders.append(folder)
    return folders
