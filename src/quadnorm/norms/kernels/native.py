"""The torch kernel's short way on a CPU, where the mean is of the size of the standard deviation.

It is, inside most networks. Then a·x + b loses nothing against (x − μ)·rstd, and the raw moments Σ w x and Σ w x² lose
nothing against moments about a pivot. PyTorch's batch-norm kernels, given the statistics, write the output in one sweep
and make both sums of the backward in another.

x, g and the outputs are contiguous (B, C, N), in float32 or float64, w is (1 or B, N), statistics are (3, B, G).
"""

import torch
from torch import Tensor

from quadnorm.norms.kernels.blocks import channel_blocks, row_blocks

# |mean| over standard deviation up to which raw moments serve, whose error grows by its square, and a·x + b, where it
# grows by the factor itself.
RAW, AFFINE = 4, 16


def statistics(x: Tensor, w: Tensor, groups: int, eps: float, centre: bool, space: Tensor) -> Tensor | None:
    """High and low part of the mean, and rstd, (3, B, G); None if the mean is too far from 0 for raw moments.

    ``space``, as large as x, is written to.
    """
    first, second = raw_moments(x, w, groups, centre, space)
    squared = first.square()
    variance = second - squared
    if centre:
        moderate = (squared <= RAW**2 * variance).logical_and_(variance >= 2e-3 * eps)
        if not bool(moderate.all()) and not bool(moderate.logical_or_(second == 0).all()):
            return None
    return torch.stack([first, torch.zeros_like(first), torch.rsqrt(variance + eps)])


def is_moderate(stats: Tensor, eps: float) -> bool:
    """Whether :func:`output` and :func:`gradient` serve for these statistics."""
    mean, rstd = stats[0], stats[2]
    variance = rstd.square().reciprocal() - eps
    # A constant field must give exactly β, and its variance, recovered from rstd, is only nearly 0.
    return bool(((mean == 0) | ((mean.square() <= AFFINE**2 * variance) & (variance >= 1e-3 * eps))).all())


def raw_moments(x: Tensor, w: Tensor, groups: int, centre: bool, space: Tensor) -> tuple[Tensor, Tensor]:
    """Σ w·x (zero without ``centre``) and Σ w·x² of each group, (B, G) each. Matrix products run at memory speed."""
    B, C, N = x.shape
    xs = x.view(1, B * C, N) if w.shape[0] == 1 else x
    moments = torch.zeros(2, *xs.shape[:2], dtype=x.dtype, device=x.device)
    for b, c, i, square in channel_blocks(xs, space):
        part, ws = xs[b, c, i], w[b, i]
        if centre:
            moments[0, b, c].addmv_(part, ws)
        moments[1, b, c].addmv_(torch.mul(part, part, out=square), ws)
    return means_of_groups(moments, w, (B, groups, C // groups))


def means_of_groups(moments: Tensor, w: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Two sums over the samples of all channels, ``shape`` = (B, G, D), as averages over the groups, (B, G) each."""
    mass = w.sum(1, keepdim=True).clamp_min_(torch.finfo(w.dtype).tiny)
    first, second = (moments / mass).view(2, *shape).mean(3)
    return first, second


def output(x: Tensor, weight: Tensor | None, bias: Tensor | None, y: Tensor, stats: Tensor) -> None:
    """Write γ·(x − μ)·rstd + β into y."""
    B, C, N = x.shape
    mean, variance = _per_channel(stats, C)
    unused = x.new_empty(0)
    if weight is not None and B > 1:
        weight = weight.repeat(B)
    if bias is not None and B > 1:
        bias = bias.repeat(B)
    torch.ops.aten.native_batch_norm.out(
        x.view(1, B * C, N),
        weight,
        bias,
        mean,
        variance,
        False,
        0.0,
        0.0,
        out=y.view(1, B * C, N),
        save_mean=unused,
        save_invstd=unused.clone(),
    )


def gradient(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, centre: bool, dx: Tensor, sums: Tensor
) -> None:
    """Write dx and the sums Σ g and Σ g·ŷ (2, B, C).

    dx = rstd·γ·g + w·(offset + slope·x), where slope and offset, one each per group, follow from the sums.
    """
    B, C, N = x.shape
    G = stats.shape[2]
    D = C // G
    mean, variance = _per_channel(stats, C)
    _, sums[1].view(-1)[:], sums[0].view(-1)[:] = torch.ops.aten.native_batch_norm_backward(
        g.view(1, B * C, N), x.view(1, B * C, N), None, mean, variance, None, None, False, 0.0, [False, True, True]
    )
    h = (sums if weight is None else sums * weight).view(2, B * G, D).mean(2)  # (2, B·G)
    rstd = stats[2].reshape(-1)
    slope = -rstd.square() * h[1]
    offset = (-rstd * h[0] if centre else 0) - slope * mean.view(B * G, D)[:, 0]
    scale = stats[2, :, :, None].expand(B, G, D).reshape(B, C)
    scale = (scale if weight is None else scale * weight).view(B * G, D, 1)
    slope, offset = slope[:, None, None], offset[:, None, None]
    rows_of_w = w.expand(B, N).unsqueeze(1).expand(B, G, N).reshape(B * G, 1, N) if w.shape[0] > 1 else None
    xr, gr, dr = (t.view(B * G, D, N) for t in (x, g, dx))
    for r, c, i in row_blocks(xr):
        ws = w[:, None, i] if rows_of_w is None else rows_of_w[r, :, i]
        out = dr[r, c, i]
        if D > 1:  # w·slope and w·offset are small beside the block: made once for all its channels
            torch.addcmul(ws * offset[r], xr[r, c, i], ws * slope[r], out=out)
        else:
            torch.addcmul(offset[r], xr[r, c, i], slope[r], out=out).mul_(ws)
        out.addcmul_(gr[r, c, i], scale[r, c])


def _per_channel(stats: Tensor, C: int) -> tuple[Tensor, Tensor]:
    """Mean and variance, ε included, of each of the B·C channels, as the batch-norm kernels want them."""
    _, B, G = stats.shape
    mean, variance = stats[0] + stats[1], stats[2].square().reciprocal()
    mean, variance = (v[:, :, None].expand(B, G, C // G).reshape(-1) for v in (mean, variance))
    return mean, variance
