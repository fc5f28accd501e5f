r"""The weighted normalization of a field that is split over ranks.

Rank r has the mass W_r = Σ w_i of its samples (ΣW_r = 1), their mean μ_r and M_r = (1/D) Σ w (x − μ_r)². One all-gather
of (μ_r, M_r), 2·B·G numbers from each rank, and Chan's rule give the moments of the whole on every rank, alike to the
last bit:

.. math:: \mu = \sum_r W_r\,\mu_r, \qquad v = \sum_r M_r + W_r\,(\mu_r - \mu)^2 .

Nothing is a difference of large squares, and means travel as float64: an offset of 10⁶ costs no digits. Without
centring v = Σ_r M_r is a plain all-reduce. The derivative needs Σh and Σhŷ of every group (h = γg) and the sums that
are γ's and β's gradients: 2·B·G + 2·C numbers in one all-reduce, see :mod:`quadnorm.norms.kernels.formula`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from quadnorm.parallel.collectives import all_parts, all_sum, parts, spread, total

BLOCK = 2**20  # elements looked at together: temporaries stay small and in the cache


@dataclass(frozen=True)
class Options:
    """What is constant: groups of channels, ε, whether to centre, every rank's mass (P, 1 or B), the ranks."""

    groups: int
    eps: float
    centre: bool
    masses: Tensor
    group: dist.ProcessGroup


def accumulator(x: Tensor) -> torch.dtype:
    """Float64 stays, everything else is accumulated in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def normalize(x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, options: Options) -> Tensor:
    """γ·(x − μ)/√(v + ε) + β for this rank's x (B, C, *local) and weights w (1 or B, N), which sum to its mass."""
    dtype = accumulator(x)
    weight, bias = (None if p is None else p.to(dtype) for p in (weight, bias))
    with torch.autocast(x.device.type, enabled=False):
        if torch.compiler.is_compiling():
            return formula(x, w, weight, bias, options)
        y: Tensor = _Norm.apply(x, w, weight, bias, options)  # type: ignore[no-untyped-call]
        return y


# --- as one formula, differentiable to any order ---------------------------------------------------------------------


def formula(x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, o: Options) -> Tensor:
    """The definition in plain operations: the same two collectives, more memory."""
    B, C = x.shape[:2]
    N, D = w.shape[-1], C // o.groups
    xs = x.reshape(B, o.groups, D, N).to(accumulator(x))
    ws = w.reshape(w.shape[0], 1, 1, N)
    mass = _constant(o.masses, x)  # (P, 1 or B)
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


def _constant(masses: Tensor, x: Tensor) -> Tensor:
    return masses.to(device=x.device)


# --- as one function that keeps x and the statistics only ------------------------------------------------------------


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, options: Options) -> Tensor:
        stats = _statistics(x, w, options)
        ctx.save_for_backward(x, w, weight, bias, *stats)
        ctx.options = options
        return _applied(x, stats, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w, weight, bias, *stats = ctx.saved_tensors
        options = ctx.options
        if torch.is_grad_enabled():  # somebody will differentiate again
            given = (x, w, weight, bias)
            wanted = [t for t, need in zip(given, ctx.needs_input_grad, strict=False) if need]
            grads = iter(torch.autograd.grad(formula(*given, options), wanted, g, create_graph=True))
            return *(next(grads) if need else None for need in ctx.needs_input_grad[:4]), None
        with torch.autocast(x.device.type, enabled=False):
            dx, dw, dweight, dbias = _gradient(
                g, x, w, weight, bias is not None, stats, options, ctx.needs_input_grad[1]
            )
        return dx, dw, dweight, dbias, None


def _blocks(x: Tensor) -> list[tuple[int, slice]]:
    """(batch entry, channels) in blocks of about BLOCK elements."""
    B, C = x.shape[:2]
    N = x[0, 0].numel() if B and C else 0
    step = max(1, BLOCK // max(N, 1))
    return [(b, slice(c, min(c + step, C))) for b in range(B) for c in range(0, C, step)]


def _statistics(x: Tensor, w: Tensor, o: Options) -> list[Tensor]:
    """High and low parts of μ, and rstd, each (B, C): groups spread out over their channels."""
    B, C = x.shape[:2]
    D, dtype = C // o.groups, accumulator(x)
    flat = x.detach().flatten(2)
    w = w.detach()
    mean, second = (torch.zeros(B, C, dtype=torch.float64, device=x.device) for _ in range(2))
    here = w.double().sum(1)  # (1 or B,)
    at = w.argmax(1).tolist() if w.shape[1] else []
    if w.shape[1]:
        for b, c in _blocks(flat):
            wb = w[b if w.shape[0] > 1 else 0]
            f = flat[b, c].to(dtype)
            if not o.centre:
                second[b, c] = torch.mv(f.square(), wb).double()
                continue
            mass = here[b if w.shape[0] > 1 else 0]
            base = f[:, at[b if w.shape[0] > 1 else 0]].clone()
            d = f - base[:, None]
            m = torch.mv(d, wb).double() / torch.where(mass > 0, mass, 1.0)
            d -= m.to(dtype)[:, None]
            mean[b, c] = m + base.double()
            second[b, c] = torch.mv(d.square_(), wb).double()
    grouped = second.reshape(B, o.groups, D).mean(2)
    if not o.centre:
        v = all_sum(grouped, o.group)
        rstd = torch.rsqrt(v + o.eps).to(dtype).repeat_interleave(D, 1)
        return [torch.zeros_like(rstd), torch.zeros_like(rstd), rstd]
    # Channels of one group, merged as ranks will be.
    local = mean.reshape(B, o.groups, D)
    middle = local.mean(2)
    grouped += here.reshape(-1, 1) * (local - middle.unsqueeze(2)).square().mean(2)
    gathered = all_parts(torch.stack([middle, grouped]), o.group)  # (P, 2, B, G)
    W = _constant(o.masses, x).unsqueeze(-1)  # (P, 1 or B, 1)
    mu = (W * gathered[:, 0]).sum(0)
    v = (gathered[:, 1] + W * (gathered[:, 0] - mu).square()).sum(0)
    high = mu.to(dtype)
    stats = [high, (mu - high.double()).to(dtype), torch.rsqrt(v + o.eps).to(dtype)]
    return [s.repeat_interleave(D, 1) for s in stats]


def _applied(x: Tensor, stats: list[Tensor], weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    flat, out = x.detach().flatten(2), y.detach().flatten(2)
    for b, c in _blocks(flat):
        high, low, rstd = (s[b, c, None] for s in stats)
        d = flat[b, c].to(rstd.dtype) - high
        d -= low
        d *= rstd if weight is None else rstd * weight.detach()[c, None]
        if bias is not None:
            d += bias.detach()[c, None]
        out[b, c] = d
    return y


def _gradient(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    weight: Tensor | None,
    has_bias: bool,
    stats: list[Tensor],
    o: Options,
    wrt_w: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    B, C = x.shape[:2]
    D, dtype = C // o.groups, accumulator(x)
    gs, xs = g.flatten(2), x.flatten(2)
    sums = torch.zeros(2, B, C, dtype=dtype, device=x.device)  # Σ g and Σ g·ŷ over this rank's samples

    def normal(b: int, c: slice) -> Tensor:
        high, low, rstd = (s[b, c, None] for s in stats)
        d = xs[b, c].to(dtype) - high
        d -= low
        return d.mul_(rstd)

    for b, c in _blocks(xs):
        gb = gs[b, c].to(dtype)
        sums[0, b, c] = gb.sum(1)
        sums[1, b, c] = (gb * normal(b, c)).sum(1)
    h = (sums if weight is None else sums * weight).reshape(2, B, o.groups, D).mean(3)  # (2, B, G)
    chosen = h if o.centre else h[1:]
    shares = [chosen.flatten()]
    shares += [sums[1].sum(0)] if weight is not None else []
    shares += [sums[0].sum(0)] if has_bias else []
    summed = all_sum(torch.cat(shares), o.group)
    h_all, *rest = torch.split(summed, [s.numel() for s in shares])
    h = h_all.reshape(-1, B, o.groups)
    h = h if o.centre else torch.cat([torch.zeros_like(h), h])
    dweight = rest.pop(0) if weight is not None else None
    dbias = rest.pop(0) if has_bias else None
    plain, along = (t.repeat_interleave(D, 1) for t in h)  # (B, C) each
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    out = dx.flatten(2)
    dw = torch.zeros(B, w.shape[1], dtype=w.dtype, device=w.device) if wrt_w else None
    for b, c in _blocks(xs):
        wb = w[b if w.shape[0] > 1 else 0]
        xhat = normal(b, c)
        if dw is not None:
            dw[b] -= (plain[b, c, None] * xhat + along[b, c, None] * xhat.square() / 2).sum(0)
        xhat *= along[b, c, None]
        xhat += plain[b, c, None]
        xhat *= wb
        gb = gs[b, c].to(dtype)
        torch.sub(gb if weight is None else gb * weight[c, None], xhat, out=xhat)
        out[b, c] = xhat.mul_(stats[2][b, c, None])
    if dw is not None and w.shape[0] == 1:
        dw = dw.sum(0, keepdim=True)
    return dx, dw, dweight, dbias
