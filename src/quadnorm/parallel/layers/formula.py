"""The normalization of a split field in plain operations, differentiable to any order; and what is constant in it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.parallel.collectives import parts, spread, total


@dataclass(frozen=True)
class Options:
    """What is constant: groups of channels, ε, whether to centre, every rank's mass (P, 1 or B), the ranks."""

    groups: int
    eps: float
    centre: bool
    masses: Tensor
    group: dist.ProcessGroup


def formula(x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, o: Options) -> Tensor:
    """The definition in plain operations: the same two collectives, more memory."""
    B, C = x.shape[:2]
    N, D = w.shape[-1], C // o.groups
    xs = x.reshape(B, o.groups, D, N).to(sum_dtype(x))
    ws = w.reshape(w.shape[0], 1, 1, N)
    mass = o.masses.to(device=x.device)  # (P, 1 or B)
    if o.centre:
        base = _pivot(xs, w).detach()
        d = xs - base  # (B, G, D, N)
        here = ws.sum(3, keepdim=True).double()  # differentiable: learned weights move a rank's mass
        m = (d * ws).sum((2, 3), keepdim=True) / torch.where(here > 0, here, 1.0) / D
        second = ((d - m.to(d.dtype)).square() * ws).sum((2, 3), keepdim=True).double() / D
        packet = [(m + base.double()).reshape(B, -1), second.reshape(B, -1)]
        if w.requires_grad:
            packet.append(here.reshape(w.shape[0], 1).expand(B, 1))
        gathered = parts(torch.cat(packet, 1), o.group)  # (P, B, 2G or 2G + 1)
        means, seconds = gathered[..., : o.groups], gathered[..., o.groups : 2 * o.groups]
        W = gathered[..., 2 * o.groups :] if w.requires_grad else mass.unsqueeze(-1)
        mean = (W * means).sum(0)
        v = (seconds + W * (means - mean).square()).sum(0)  # (B, G)
        rstd = torch.rsqrt(v + o.eps).to(xs.dtype)
    else:
        square = (xs.square() * ws).sum((2, 3)).double() / D
        rstd = torch.rsqrt(total(square, o.group) + o.eps).to(xs.dtype)
        mean = None
    used = [t for t in (rstd, mean, weight, bias) if t is not None]
    copies = iter(spread(*used, group=o.group))
    rstd = next(copies).reshape(B, -1, 1, 1)
    if mean is not None:
        xs = d - (next(copies).reshape(B, -1, 1, 1) - base.double()).to(d.dtype)
    y = xs * rstd
    if weight is not None:
        y = y * next(copies).reshape(1, o.groups, D, 1)
    if bias is not None:
        y = y + next(copies).reshape(1, o.groups, D, 1)
    return y.reshape(x.shape).to(x.dtype)


def _pivot(xs: Tensor, w: Tensor) -> Tensor:
    """A sample of each group that is there, (B, G, 1, 1): a large common offset then cancels exactly."""
    if xs.shape[3] == 0:
        return xs.new_zeros(*xs.shape[:2], 1, 1)
    where = w.argmax(-1).reshape(-1, 1, 1, 1).expand(xs.shape[0], xs.shape[1], 1, 1)
    return xs[:, :, :1].gather(3, where)
