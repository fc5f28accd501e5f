"""Gradients of parameters that act on every sample: each rank has a share, and one all-reduce adds them up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from quadnorm.parallel.collectives import spread

Owned = list[tuple[nn.Module, str]]


def shared_parameters(unit: nn.Module) -> Owned:
    """Parameters below ``unit`` whose gradients are shares, as (module, name); those of inner FSDP units left out.

    A module says in ``complete`` which of its parameters get whole gradients by themselves: kernels of modes and the
    norms' γ and β, whose sums over space are exchanged anyway.
    """
    parameters: Owned = []

    def visit(module: nn.Module, done: frozenset[str]) -> None:
        own = {*getattr(module, "complete", ()), *done} if hasattr(module, "_split") else set(done)
        parameters.extend((module, name) for name in module._parameters if name not in own)
        for name, child in module.named_children():
            if isinstance(child, FSDPModule) and hasattr(child, "_split"):
                continue  # a unit of its own, whose parameters are not here yet
            visit(child, frozenset(p.removeprefix(f"{name}.") for p in own if p.startswith(f"{name}.")))

    visit(unit, frozenset())
    return parameters


@contextmanager
def summed_gradients(unit: nn.Module, group: dist.ProcessGroup) -> Iterator[None]:
    """Inside, the unit's shared parameters are copies whose gradients arrive added up over ranks, in one all-reduce."""
    owned = shared_parameters(unit) if torch.is_grad_enabled() else []
    given: dict[int, Tensor] = {}
    for module, name in owned:
        p = module._parameters[name]
        if p is None or not p.requires_grad:
            continue
        if isinstance(p, DTensor):
            raise TypeError(
                f"the parameter {name!r} of {type(module).__name__} is spread out by fully_shard on that module; wrap "
                f"the whole model or its blocks, so that its gradient can be summed over the ranks of space"
            )
        given[id(p)] = p
    if not given:
        yield
        return
    copies = dict(zip(given, spread(*given.values(), group=group), strict=True))
    before = [(module._parameters, name, module._parameters[name]) for module, name in owned]
    try:
        for values, name, p in before:
            if p is not None and id(p) in copies:
                values[name] = copies[id(p)]  # type: ignore[assignment]
        yield
    finally:
        for values, name, p in before:
            values[name] = p
