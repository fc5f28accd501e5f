"""The order in which a run sees its samples and grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quadnorm.training.config import TrainConfig
from quadnorm.training.data.tensors import Grid


@dataclass(frozen=True)
class Batch:
    """Which samples a step takes, and the grid they are seen on."""

    grid: Grid
    index: Tensor  # (≤ batch,), positions in the training split


def batches(config: TrainConfig, epoch: int, start: int = 0) -> Iterator[Batch]:
    """The batches of an epoch from its step ``start`` on: a function of the seed and the epoch, with no state to lose.

    With several training grids the epoch's batches take turns among ``per_epoch`` of them, which shift from epoch to
    epoch; the order of the samples is the same as with one grid.
    """
    order = np.random.Generator(np.random.Philox(np.random.SeedSequence((config.seed, epoch))))
    index = torch.from_numpy(order.permutation(config.samples.train))
    grids = epoch_grids(config, epoch)
    for step in range(start, config.steps_per_epoch):
        yield Batch(grids[step % len(grids)], index[step * config.batch : (step + 1) * config.batch])


def epoch_grids(config: TrainConfig, epoch: int) -> tuple[Grid, ...]:
    """The training grids that an epoch visits.

    >>> config = TrainConfig(resolutions={"train": [17, 33, 65], "per_epoch": 2})
    >>> [epoch_grids(config, e) for e in range(3)]
    [(17, 33), (65, 17), (33, 65)]
    """
    grids = config.resolutions.train
    k = config.resolutions.per_epoch or len(grids)
    # Starting elsewhere each time also shares out the odd batch when the steps do not divide by the grids.
    first = epoch * k if k < len(grids) else epoch
    return tuple(grids[(first + j) % len(grids)] for j in range(k))
