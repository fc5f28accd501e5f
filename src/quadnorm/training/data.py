"""Samples of a config: which ones train, validate and test, their tensors, and the order in which a run sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from quadnorm._memory import require
from quadnorm._suggest import unknown
from quadnorm.problems import Problem, problem
from quadnorm.training.config import ResolutionsConfig, SamplesConfig, TrainConfig

KEPT_BACK = 10  # validation (or test) data without a file take one in this many of the training samples
Grid = int | tuple[int, ...]
Split = Literal["train", "val", "test"]
Pairs = dict[Grid, tuple[Tensor, Tensor]]
Progress = Callable[[int, int], None]
SOME = 64  # samples that are checked at a time


def problem_of(config: TrainConfig) -> Problem:
    """The problem of a config; a ValueError if its name or parameters are wrong."""
    try:
        return problem(config.problem.name, **config.problem.params)
    except TypeError as error:
        raise ValueError(f"problem.params: {error}") from error


def viewed(p: Problem, view: Mapping[str, Any]) -> Problem:
    """The same instances sampled in another way: the problem with some of its ``views`` parameters changed.

    >>> viewed(problem("poisson-mesh"), {"mesh": "boundary"}).mesh
    'boundary'
    """
    for name in view:
        if name not in p.views:
            raise ValueError(f"{p.name}: " + unknown("sampling parameter", name, p.views))
    return replace(p, **view)


def check_memory(config: TrainConfig, p: Problem) -> None:
    """Raise an error, before any data are made, if the training and validation data would not fit into memory.

    Data from files are never refused: samples that do not fit into memory are kept on disk.
    """
    if not p.kept:
        return
    numbers = config.samples.train * sum(map(p.numbers, config.resolutions.train))
    numbers += config.samples.val * sum(map(p.numbers, config.val_resolutions))
    grids = ", ".join(map(str, config.resolutions.train))
    require(
        numbers * getattr(torch, config.dtype).itemsize,
        f"{config.samples.train} samples of {p.name} for training and {config.samples.val} for validation at {grids}",
    )


def samples(
    config: TrainConfig, split: Split, grids: Sequence[Grid], p: Problem | None = None, progress: Progress | None = None
) -> Pairs:
    """Input (n, C_in, *grid) and output (n, C_out, *grid) of a split at each grid; the same instances at all."""
    p = problem_of(config) if p is None else p
    config = settled(config, p)
    indices, dtype = config.samples.indices(split), getattr(torch, config.dtype)
    if progress is not None:
        progress(0, len(indices))  # all checks are done; making the data may take long
    if config.problem.cache:
        pairs = p.dataset_many(indices, grids, config.problem.seed, dtype=dtype, progress=progress)
    else:
        pairs = p.sample_many(indices, grids, config.problem.seed, dtype=dtype)
        if progress is not None:
            progress(len(indices), len(indices))
    for grid, pair in zip(grids, pairs, strict=True):
        for side, values in zip("xy", pair, strict=True):
            finite = torch.empty(len(values), dtype=torch.bool)
            for start in range(0, len(values), SOME):
                finite[start : start + SOME] = torch.isfinite(values[start : start + SOME].flatten(1)).all(1)
            bad = (~finite).nonzero()[:, 0]
            if len(bad):
                raise ValueError(
                    f"{p.name}: {len(bad)} of {len(values)} {split} samples hold NaN or infinite values in {side} at "
                    f"{grid}, the first is sample {indices[int(bad[0])]}{_advice(p)}"
                )
    return dict(zip(grids, pairs, strict=True))


def _advice(p: Problem) -> str:
    """What to do about samples with missing values, if the problem can leave them out."""
    return "; leave such samples out with problem.params.skip_nan=true" if hasattr(p, "skip_nan") else ""


def settled(config: TrainConfig, p: Problem) -> TrainConfig:
    """The config with counts and grids of stored data filled in; a config that is complete is returned unchanged.

    Training takes the first samples of the train set; validation those of the val set, or else the last training
    samples; the test those of the test set, or else training samples that neither of the two uses. Counts that were not
    given are what the sets hold, grids that were not given are those of the files.
    """
    sets: Mapping[str, range] | None = getattr(p, "splits", None) if _open(config, p) else None
    if sets is None:
        return config
    update: dict[str, Any] = {"samples": _samples(config.samples, sets, p.name)}
    stores = getattr(p, "sets", None)
    if stores is not None:
        update["resolutions"] = _grids(config.resolutions, stores())
    return config.model_copy(update=update)


def _open(config: TrainConfig, p: Problem) -> bool:
    """Whether the config leaves the beginning of a split to the data."""
    s = config.samples
    return hasattr(type(p), "splits") and s.train_from is None and s.val_from is None and s.test_from is None


def _samples(given: SamplesConfig, sets: Mapping[str, range], name: str) -> SamplesConfig:
    counts = {split: getattr(given, split) for split in given.model_fields_set if split in ("train", "val", "test")}
    for split in ("val", "test"):
        held = len(sets["train"]) // KEPT_BACK or 1 if split not in sets else len(sets[split])
        wanted = counts.setdefault(split, held)
        if split in sets and wanted > held:
            raise ValueError(f"{name}: samples.{split} is {wanted}, but the {split} files hold {held} samples")
    train = sets["train"]
    kept = sum(counts[split] for split in ("val", "test") if split not in sets)
    left = len(train) - kept
    if counts.get("train", 1) > left:
        lacking = " and ".join(f"{counts[s]} for the {s} set" for s in ("val", "test") if s not in sets)
        share = f", of which {lacking} are taken (there is no file for it)" if kept else ""
        # Without a number that was asked for, one training sample is the least.
        wanted = (
            f"samples.train is {counts['train']}, but" if "train" in counts else "at least 1 sample must train, and"
        )
        raise ValueError(
            f"{name}: {wanted} the train files hold {len(train)} samples{share}; "
            f"at most {max(left, 0)} are left: "
            + ("give files for them (problem.params.val, problem.params.test), or " if kept else "")
            + "ask for fewer samples (samples.train, samples.val, samples.test)"
        )
    counts.setdefault("train", left)
    val = sets["val"] if "val" in sets else train[len(train) - counts["val"] :]
    end = len(train) - (0 if "val" in sets else counts["val"])
    test = sets["test"] if "test" in sets else train[end - counts["test"] : end]
    return SamplesConfig(**counts, train_from=train.start, val_from=val.start, test_from=test.start)


def _grids(given: ResolutionsConfig, stores: Mapping[str, Any]) -> ResolutionsConfig:
    values = given.model_dump(exclude_unset=True)
    if "train" not in values:
        values["train"] = [_grid(stores["train"][0].shape)]
    if values.get("val") is None and "val" in stores:
        there = [_grid(s.shape) for s in stores["val"]]
        if not set(values["train"]) <= set(there):  # else the default, the training grids
            values["val"] = there
    if values.get("test") is None:
        values["test"] = [_grid(s.shape) for s in stores["test"]] if "test" in stores else values["train"]
    return ResolutionsConfig(**values)


def _grid(shape: tuple[int, ...]) -> int | tuple[int, ...]:
    return shape[0] if len(set(shape)) == 1 else shape


@dataclass(frozen=True)
class Batch:
    """The samples of one step and the grid on which they are given."""

    grid: Grid
    index: Tensor  # (≤ batch,), positions in the training split


def batches(config: TrainConfig, epoch: int, start: int = 0) -> Iterator[Batch]:
    """The batches of an epoch from step ``start`` on. They depend on seed and epoch only, so resuming needs no state.

    With several training grids the batches alternate between the grids of :func:`epoch_grids`; the order of the samples
    is the same as with one grid.
    """
    order = np.random.Generator(np.random.Philox(np.random.SeedSequence((config.seed, epoch))))
    index = torch.from_numpy(order.permutation(config.samples.train))
    grids = epoch_grids(config, epoch)
    for step in range(start, config.steps_per_epoch):
        yield Batch(grids[step % len(grids)], index[step * config.batch : (step + 1) * config.batch])


def epoch_grids(config: TrainConfig, epoch: int) -> tuple[Grid, ...]:
    """The training grids that an epoch uses.

    >>> config = TrainConfig(resolutions={"train": [17, 33, 65], "per_epoch": 2})
    >>> [epoch_grids(config, e) for e in range(3)]
    [(17, 33), (65, 17), (33, 65)]
    """
    grids = config.resolutions.train
    k = config.resolutions.per_epoch or len(grids)
    # The first grid changes from epoch to epoch, so that a remaining batch (steps not divisible by grids) goes to each.
    first = epoch * k if k < len(grids) else epoch
    return tuple(grids[(first + j) % len(grids)] for j in range(k))
