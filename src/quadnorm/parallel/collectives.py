r"""Differentiable sums and exchanges over a process group.

Two kinds of tensors meet in a sharded network. A *replicated* one has the same value on every rank, and so has its
gradient. A *local* one is a rank's own share; its gradient is the derivative of the one loss by that share. Four maps
lead from one kind to the other, and each is the derivative of another, so that derivatives of any order exist:

============  ====================  ==========================================  =================
map           from → to             value                                       derivative
============  ====================  ==========================================  =================
:func:`total` local → replicated    Σ_r x_r, one all-reduce                     :func:`spread`
`spread`      replicated → local    x itself, nothing is sent                   :func:`total`
:func:`parts` local → replicated    all x_r stacked, one all-gather             :func:`own`
`own`         replicated → local    entry r of a stack, nothing is sent         :func:`parts`
============  ====================  ==========================================  =================

They are the functional collectives of ``torch.distributed``, which ``torch.compile`` can trace.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from quadnorm import _torch

_torch.named("torch.distributed._functional_collectives:all_reduce")  # registers the operators
_TRACED: Any = _torch.named("torch:ops._c10d_functional")


class RankLostError(RuntimeError):
    """A collective failed: another rank has died, left or fallen behind."""


def _named(error: Exception, group: dist.ProcessGroup, what: str) -> RankLostError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    return RankLostError(
        f"rank {rank} of {world} could not {what}: another rank has died, left or fallen behind; "
        f"look at the other ranks' errors first, then start all ranks again ({first})"
    )


def all_sum(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Σ over ranks, without derivatives; complex numbers as pairs of real ones."""
    if x.is_complex():
        return torch.view_as_complex(all_sum(torch.view_as_real(x).contiguous(), group))
    x = x.contiguous()
    op = _TRACED
    if torch.compiler.is_compiling():
        traced: Tensor = op.wait_tensor(op.all_reduce(x, "sum", group.group_name))
        return traced
    try:
        summed: Tensor = op.wait_tensor(op.all_reduce(x, "sum", group.group_name))
    except RuntimeError as error:
        raise _named(error, group, "add up its share with those of the others") from error
    return summed


def all_parts(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The tensors of all ranks, (P, *x.shape), without derivatives; all have one shape."""
    flat, op, world = x.contiguous().reshape(1, -1), _TRACED, dist.get_world_size(group)
    if torch.compiler.is_compiling():
        traced: Tensor = op.wait_tensor(op.all_gather_into_tensor(flat, world, group.group_name))
        return traced.reshape(world, *x.shape)
    try:
        gathered: Tensor = op.wait_tensor(op.all_gather_into_tensor(flat, world, group.group_name))
    except RuntimeError as error:
        raise _named(error, group, "exchange its share with the others") from error
    return gathered.reshape(world, *x.shape)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, x: Tensor) -> Tensor:
        ctx.group = group
        return all_sum(x, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, spread(g, group=ctx.group)[0]


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        ctx.like = [(t.shape, t.dtype, t.device) for t in tensors]
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        # Every rank must send the same number of numbers, also where an empty shard left some without a gradient.
        pieces = [
            torch.zeros(s, dtype=t, device=d) if g is None else g for g, (s, t, d) in zip(grads, ctx.like, strict=True)
        ]
        return None, *totals(pieces, ctx.group)


class _Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, x: Tensor) -> Tensor:
        ctx.group = group
        return all_parts(x, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, _Own.apply(ctx.group, g)


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, x: Tensor) -> Tensor:
        ctx.group = group
        return x[dist.get_rank(group)].clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, _Parts.apply(ctx.group, g)


def total(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Σ_r x_r on every rank; each rank's share receives the sum's gradient."""
    y: Tensor = _Total.apply(group, x)
    return y


def totals(tensors: list[Tensor], group: dist.ProcessGroup) -> list[Tensor]:
    """:func:`total` of several tensors, in one all-reduce for each real dtype among them (as a rule, one)."""
    real = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    summed: list[Tensor] = list(real)
    for dtype in dict.fromkeys(t.dtype for t in real):
        chosen = [i for i, t in enumerate(real) if t.dtype == dtype]
        flat = total(torch.cat([real[i].reshape(-1) for i in chosen]), group)
        for i, piece in zip(chosen, torch.split(flat, [real[i].numel() for i in chosen]), strict=True):
            summed[i] = piece.reshape(real[i].shape)
    # A piece may begin at an odd number of the whole, where no complex number may.
    return [torch.view_as_complex(s.clone()) if t.is_complex() else s for s, t in zip(summed, tensors, strict=True)]


def spread(*tensors: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, ...]:
    """Replicated tensors for use on local shares; their gradients are summed over ranks, all in one all-reduce."""
    copies: tuple[Tensor, ...] = _Spread.apply(group, *tensors)
    return copies


def parts(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The shares of all ranks, ``(P, *x.shape)``, on every rank; each share receives its own gradient."""
    y: Tensor = _Parts.apply(group, x)
    return y
