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
