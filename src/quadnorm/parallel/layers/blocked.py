"""The normalization of a split field and its derivative, block by block: x and the statistics are all that is kept."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.parallel.collectives import all_parts, all_sum
from quadnorm.parallel.layers.formula import Options

BLOCK = 2**20  # elements looked at together: temporaries stay small and in the cache


def statistics(x: Tensor, w: Tensor, o: Options) -> list[Tensor]:
    """High and low parts of μ, and rstd, each (B, C): groups spread out over their channels."""
    B, C = x.shape[:2]
    D, dtype = C // o.groups, sum_dtype(x)
    here = w.detach().double().sum(1)  # (1 or B,)
    mean, second = _channel_moments(x.detach().flatten(2), w.detach(), here, o.centre)
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
    W = o.masses.to(device=x.device).unsqueeze(-1)  # (P, 1 or B, 1)
    mu = (W * gathered[:, 0]).sum(0)
    v = (gathered[:, 1] + W * (gathered[:, 0] - mu).square()).sum(0)
    high = mu.to(dtype)
    stats = [high, (mu - high.double()).to(dtype), torch.rsqrt(v + o.eps).to(dtype)]
    return [s.repeat_interleave(D, 1) for s in stats]


def _channel_moments(x: Tensor, w: Tensor, here: Tensor, centre: bool) -> tuple[Tensor, Tensor]:
    """Mean of each channel of x (B, C, N) over this rank's mass, and Σ w (x − mean)²; uncentred zero and Σ w x²."""
    B, C, N = x.shape
    dtype = sum_dtype(x)
    mean, second = (torch.zeros(B, C, dtype=torch.float64, device=x.device) for _ in range(2))
    if N == 0:
        return mean, second
    pivots = w.argmax(1).expand(B).tolist()  # a sample that is there: a large common offset then cancels exactly
    w, here = w.expand(B, N), torch.where(here > 0, here, 1.0).expand(B)
    for b, c in _blocks(x):
        f = x[b, c].to(dtype)
        if not centre:
            second[b, c] = torch.mv(f.square(), w[b]).double()
            continue
        base = f[:, pivots[b]].clone()
        d = f - base[:, None]
        m = torch.mv(d, w[b]).double() / here[b]
        d -= m.to(dtype)[:, None]
        mean[b, c] = m + base.double()
        second[b, c] = torch.mv(d.square_(), w[b]).double()
    return mean, second


def applied(x: Tensor, stats: list[Tensor], weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """γ·(x − μ)·rstd + β with the statistics of the whole."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    flat, out = x.detach().flatten(2), y.detach().flatten(2)
    rstd = stats[2]
    for b, c in _blocks(flat):
        d = _centred(flat, stats, b, c)
        d *= rstd[b, c, None] if weight is None else rstd[b, c, None] * weight.detach()[c, None]
        if bias is not None:
            d += bias.detach()[c, None]
        out[b, c] = d
    return y


def gradient(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    weight: Tensor | None,
    has_bias: bool,
    stats: list[Tensor],
    o: Options,
    wrt_w: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients by this rank's x and w (if ``wrt_w``), and by γ and β, which are the same on every rank."""
    gs, xs = g.flatten(2), x.flatten(2)
    h, dweight, dbias = _summed(_channel_sums(gs, xs, stats), weight, has_bias, o)
    plain, along = (t.repeat_interleave(x.shape[1] // o.groups, 1) for t in h)  # (B, C) each
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    out = dx.flatten(2)
    B, N = len(x), w.shape[1]
    dw = torch.zeros(B, N, dtype=w.dtype, device=w.device) if wrt_w else None
    ws = w.expand(B, N)
    for b, c in _blocks(xs):
        xhat = _centred(xs, stats, b, c).mul_(stats[2][b, c, None])
        if dw is not None:
            dw[b] -= (plain[b, c, None] * xhat + along[b, c, None] * xhat.square() / 2).sum(0)
        xhat *= along[b, c, None]
        xhat += plain[b, c, None]
        xhat *= ws[b]
        gb = gs[b, c].to(xhat.dtype)
        torch.sub(gb if weight is None else gb * weight[c, None], xhat, out=xhat)
        out[b, c] = xhat.mul_(stats[2][b, c, None])
    if dw is not None and w.shape[0] == 1:
        dw = dw.sum(0, keepdim=True)
    return dx, dw, dweight, dbias


def _channel_sums(g: Tensor, x: Tensor, stats: list[Tensor]) -> Tensor:
    """Σ g and Σ g·ŷ of each channel over this rank's samples, (2, B, C)."""
    dtype = sum_dtype(x)
    sums = torch.zeros(2, *x.shape[:2], dtype=dtype, device=x.device)
    for b, c in _blocks(x):
        gb = g[b, c].to(dtype)
        sums[0, b, c] = gb.sum(1)
        sums[1, b, c] = (gb * _centred(x, stats, b, c).mul_(stats[2][b, c, None])).sum(1)
    return sums


def _summed(
    sums: Tensor, weight: Tensor | None, has_bias: bool, o: Options
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Over all ranks in one all-reduce: means of h and h·ŷ over each group (2, B, G), gradients of γ and β."""
    B, C = sums.shape[1:]
    h = (sums if weight is None else sums * weight).reshape(2, B, o.groups, C // o.groups).mean(3)  # (2, B, G)
    shares = [(h if o.centre else h[1:]).flatten()]
    shares += [sums[1].sum(0)] if weight is not None else []
    shares += [sums[0].sum(0)] if has_bias else []
    h_all, *rest = torch.split(all_sum(torch.cat(shares), o.group), [s.numel() for s in shares])
    h = h_all.reshape(2 if o.centre else 1, B, o.groups)
    h = h if o.centre else torch.cat([torch.zeros_like(h), h])
    dweight = rest.pop(0) if weight is not None else None
    dbias = rest.pop(0) if has_bias else None
    return h, dweight, dbias


def _centred(x: Tensor, stats: list[Tensor], b: int, c: slice) -> Tensor:
    """Block (b, c) of x − μ, a tensor of its own."""
    high, low, rstd = (s[b, c, None] for s in stats)
    d = x[b, c].to(rstd.dtype) - high
    d -= low
    return d


def _blocks(x: Tensor) -> list[tuple[int, slice]]:
    """(batch entry, channels) in blocks of about BLOCK elements."""
    B, C = x.shape[:2]
    N = x[0, 0].numel() if B and C else 0
    step = max(1, BLOCK // max(N, 1))
    return [(b, slice(c, min(c + step, C))) for b in range(B) for c in range(0, C, step)]
