"""The problem of a config, and its samples as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from quadnorm._memory import require
from quadnorm._suggest import unknown
from quadnorm.problems import Problem, problem
from quadnorm.training.config import TrainConfig
from quadnorm.training.data.splits import settled

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
