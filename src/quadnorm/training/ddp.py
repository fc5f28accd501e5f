"""Several processes, each with a share of every batch: the same losses as one process, up to rounding."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """One process among ``world`` equal ones; only rank 0 writes."""

    rank: int = 0
    world: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The rank's part of ``count`` samples; shares differ by at most one and may be empty.

        >>> [Group(r, 3).share(7) for r in range(3)]
        [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
        """
        size, more = divmod(count, self.world)
        start = self.rank * size + min(self.rank, more)
        return slice(start, start + size + (self.rank < more))

    def total(self, values: Tensor) -> Tensor:
        """Σ over ranks of a float64 tensor; the same bits on every rank."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def sums(self, values: Sequence[float]) -> list[float]:
        """Σ over ranks of a few numbers."""
        return list(values) if self.world == 1 else self.total(torch.tensor(values, dtype=torch.float64)).tolist()

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world > 1:
            dist.barrier()

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as training calls it: its gradients are averaged over ranks."""
        return nn.parallel.DistributedDataParallel(model) if self.world > 1 else model


def group(device: torch.device) -> Group:
    """The processes that ``torchrun`` started, or this one alone. A process group that is already there is used."""
    if not dist.is_available():
        return Group()
    started = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    if started and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        # Once per process: torchrun's store does not forget, and a second meeting of the ranks would wait for ever.
        atexit.register(_leave)
    return Group(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Group()


def reports() -> bool:
    """Whether this process is the one that talks to the user: alone, or the first of those ``torchrun`` started."""
    return int(os.environ.get("RANK", "0")) == 0


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
