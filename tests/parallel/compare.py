"""Serial = sharded: one model, one field; values and all gradients, whole and in parts."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from quadnorm.parallel import Split, shard

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}


def cut(n: int, world: int, how: str) -> Any:
    """Sizes for :func:`shard`: evenly as Shard does, or a list with odd numbers and perhaps an empty rank."""
    if how == "even":
        return n
    sizes = [1] * world if how == "uneven" else [0] + [1] * (world - 1)
    sizes[-1] += n - sum(sizes)
    return sizes


def close(a: Tensor, b: Tensor, what: str, scale: float | None = None) -> None:
    """Equal up to rounding of the largest number."""
    assert a.shape == b.shape, f"{what}: {tuple(a.shape)} against {tuple(b.shape)}"
    if b.numel() == 0:
        return
    tolerance = TOLERANCE[torch.float64 if b.dtype in (torch.float64, torch.complex128) else torch.float32]
    top = max(b.abs().max().item() if scale is None else scale, 1e-8)
    error = (a - b).abs().max().item() / top
    assert error < tolerance, f"{what}: differ by {error:.2e} of the largest"


def compare(
    model: nn.Module,
    x: Tensor,
    group: Any,
    axis: int | tuple[int, ...] = 0,
    size: Any = None,
    first: int = 2,
    whole: dict[str, Tensor] | None = None,
    spatial: dict[str, int] | None = None,
) -> nn.Module:
    """Values, input gradients and parameter gradients of ``model(x, **whole)`` against those of its shards.

    ``spatial`` says at which dimension the spatial axes of each keyword argument begin.
    """
    whole, spatial = whole or {}, spatial or {}
    model.zero_grad()
    parted = shard(copy.deepcopy(model), group, axis=axis, size=size)
    split: Split = parted._split  # type: ignore[assignment]
    last = x.ndim if first == 2 else x.ndim - 1
    part = split.part_of(tuple(x.shape[first:last]))

    def take(t: Tensor, start: int) -> Tensor:
        return t[(*[slice(None)] * start, *part.slices)]

    full, mine = x.clone().requires_grad_(), take(x, first).clone().requires_grad_()
    here = {k: take(v, spatial[k]) if k in spatial else v for k, v in whole.items()}
    y, z = model(full, **whole), parted(mine, **here)
    close(z, take(y, first), "values", y.abs().max().item())
    g = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(3))
    y.backward(g)
    z.backward(take(g, first))
    assert full.grad is not None
    close(mine.grad, take(full.grad, first), "input gradient", full.grad.abs().max().item())
    names = dict(model.named_parameters())
    assert names.keys() == dict(parted.named_parameters()).keys()
    top = max(p.grad.abs().max().item() for p in names.values() if p.grad is not None) if names else 1.0
    for name, p in parted.named_parameters():
        expected = names[name].grad
        assert (p.grad is None) == (expected is None), name
        if p.grad is not None and expected is not None:
            # A bias before a norm has the gradient 0, and rounding of the others' size.
            close(p.grad, expected, f"gradient of {name}", max(expected.abs().max().item(), 0.1 * top))
    return parted


def world_group() -> Any:
    """The group of all ranks."""
    return dist.group.WORLD
