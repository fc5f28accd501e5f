"""Several processes, each with a share of every batch and of space: the same losses as one process, up to rounding."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """The processes of a run: this one is ``rank`` of ``world``; only rank 0 writes files.

    ``space`` consecutive ranks hold parts of the same fields, cut along the first axis; other ranks hold other samples.
    """

    rank: int = 0
    world: int = 1
    space: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    @property
    def data(self) -> int:
        """How many shares a batch is split into."""
        return self.world // self.space

    def share(self, count: int) -> slice:
        """The rank's part of ``count`` samples; shares differ by at most one and may be empty.

        >>> [Group(r, 3).share(7) for r in range(3)]
        [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
        """
        size, more = divmod(count, self.data)
        index = self.rank // self.space
        start = index * size + min(index, more)
        return slice(start, start + size + (index < more))

    def part(self, field: Tensor, first: int = 2) -> Tensor:
        """The rank's part of space, along the first spatial dimension of a field."""
        if self.space == 1:
            return field
        from quadnorm.parallel.split import even

        start, stop = even(field.shape[first], self.space)[self.rank % self.space]
        return field.narrow(first, start, stop - start)

    def over_space(self, values: Tensor) -> Tensor:
        """Σ over the ranks that hold parts of the same fields, differentiable; the same bits on each of them."""
        if self.space == 1:
            return values
        from quadnorm.parallel import total

        return total(values, mesh(self.space)["space"].get_group())

    def total(self, values: Tensor) -> Tensor:
        """Σ of a float64 tensor over the shares of a batch; the ranks of one share must hold the same tensor."""
        if self.world > 1:
            dist.all_reduce(values)
        return values if self.space == 1 else values / self.space

    def sums(self, values: Sequence[float]) -> list[float]:
        """Σ over ranks of a few numbers."""
        return list(values) if self.world == 1 else self.total(torch.tensor(values, dtype=torch.float64)).tolist()

    def wait(self) -> None:
        """Wait until every rank has called this."""
        if self.world > 1:
            dist.barrier()

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as training calls it: its gradients are averaged over shares."""
        self.split(model)
        if self.data == 1:
            return model
        among = mesh(self.space)["data"].get_group() if self.space > 1 else None
        return nn.parallel.DistributedDataParallel(model, process_group=among)

    def split(self, model: nn.Module) -> None:
        """Make the model work on parts of fields, if fields are split."""
        if self.space > 1:
            from quadnorm.parallel import shard

            shard(model, mesh(self.space)["space"], axis=0)


@cache
def mesh(space: int) -> Any:
    """The ranks as a device mesh with the dimensions (data, space)."""
    from torch.distributed.device_mesh import init_device_mesh

    kind = "cuda" if "nccl" in dist.get_backend() and torch.cuda.is_available() else "cpu"
    return init_device_mesh(kind, (dist.get_world_size() // space, space), mesh_dim_names=("data", "space"))


def group(device: torch.device, space: int = 1) -> Group:
    """The processes that ``torchrun`` started, or this one alone. A process group that is already there is used."""
    everyone = _group(device)
    if everyone.world % space:
        raise ValueError(
            f"parallel.space={space} needs a multiple of {space} processes, there "
            f"{'is 1' if everyone.world == 1 else f'are {everyone.world}'}: torchrun --nproc-per-node {space} …"
        )
    return Group(everyone.rank, everyone.world, space)


def _group(device: torch.device) -> Group:
    if not dist.is_available():
        return Group()
    started = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    if started and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        # Once per process: torchrun's store keeps old keys, and a second rendezvous of the ranks would hang.
        atexit.register(_leave)
    return Group(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Group()


def reports() -> bool:
    """Whether this process prints for the user: the only one, or the first of those that ``torchrun`` started."""
    return int(os.environ.get("RANK", "0")) == 0


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
