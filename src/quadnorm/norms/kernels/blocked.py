"""The kernel in torch operations, for every device: blocks in the cache instead of temporaries as large as x.

x, g and the outputs are contiguous (B, C, *spatial) in float32 or float64, w is (1 or B, N). Statistics are one tensor
(3, B, G) with the high and low part of the mean and the reciprocal standard deviation. No value is read back to the
host, except on a CPU, where reading is free.
"""

import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm.norms.kernels import native
from quadnorm.norms.kernels.blocks import channel_blocks, row_blocks
from quadnorm.norms.kernels.inputs import Inputs, ParameterGradients, weights_gradient


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Write y and the statistics."""
    field, faces = given.x, None
    given = given.flat()
    x, w, weight, bias, groups, eps, centre, _ = given
    y = y.view(x.shape)
    on_cpu = x.is_cpu and x.numel() > 0
    if on_cpu:
        faces = native.faces_of(w, field.shape[2:])
        if native.forward(given, y, stats, faces, field):
            return
    with full_precision(x):
        stats.copy_(statistics(x, w, groups, eps, centre, y))
        if on_cpu and native.is_moderate(stats, eps):
            native.output(x, weight, bias, y, stats)
            return
        R, D, N = x.shape[0] * groups, x.shape[1] // groups, x.shape[2]
        high, low, rstd = stats.view(3, R, 1, 1)
        scale, shift = _of_rows(rstd, weight, stats, D), None if bias is None else _of_rows(None, bias, stats, D)
        xr, yr = x.view(R, D, N), y.view(R, D, N)
        for r, c, i in row_blocks(xr):
            out = torch.sub(xr[r, c, i], high[r], out=yr[r, c, i]).sub_(low[r]).mul_(scale[r, c])
            if shift is not None:
                out.add_(shift[r, c])


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, wrt_w: bool) -> ParameterGradients:
    """Write the gradient for the input; return the parameters'."""
    field = given.x
    given = given.flat()
    sums = given.w.new_empty((2, *given.x.shape[:2]))  # Σ g and Σ g·ŷ over the samples
    x, w, weight, _, _, eps, centre, _ = given
    g, dx = g.view(x.shape), dx.view(x.shape)
    if x.is_cpu and x.numel() > 0 and native.is_moderate(stats, eps):
        faces = native.faces_of(w, field.shape[2:])
        native.gradient(g, x, w, weight, stats, centre, dx, sums, faces, field)
    else:
        with full_precision(x):
            _gradient(given, g, stats, dx, sums)
    dbeta, dgamma = sums.sum(1)
    return dbeta, dgamma, weights_gradient(given, stats, sums) if wrt_w else None


def _gradient(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, sums: Tensor) -> None:
    x, w, weight, _, groups, _, centre, _ = given
    R, D, N = x.shape[0] * groups, x.shape[1] // groups, x.shape[2]
    high, low, rstd = stats.view(3, R, 1, 1)
    scale = _of_rows(rstd, weight, stats, D)
    xr, gr, dr = (t.view(R, D, N) for t in (x, g, dx))
    s = sums.view(2, R, D).zero_()
    for r, c, i in row_blocks(xr):
        d = torch.sub(xr[r, c, i], high[r], out=dr[r, c, i])
        s[0, r, c] += gr[r, c, i].sum(2)
        s[1, r, c] += d.mul_(gr[r, c, i]).sum(2)
    s[1] = (s[1] - low[:, :, 0] * s[0]) * rstd[:, :, 0]
    h, hx = (s[..., None] * scale).mean(2, keepdim=True)  # (R, 1, 1)
    slope = -rstd * hx
    offset = (-h if centre else 0) - slope * low
    rows_of_w = w.view(1, 1, N) if w.shape[0] == 1 else w.repeat_interleave(groups, 0)[:, None]
    for r, c, i in row_blocks(xr):
        d = torch.sub(xr[r, c, i], high[r], out=dr[r, c, i])
        d.mul_(slope[r]).add_(offset[r]).mul_(rows_of_w[r if w.shape[0] > 1 else slice(None), :, i])
        d.addcmul_(gr[r, c, i], scale[r, c])


def statistics(x: Tensor, w: Tensor, groups: int, eps: float, centre: bool, space: Tensor) -> Tensor:
    """High and low part of the mean, and rstd, of each group of x (B, C, N): (3, B, G); ``space`` is written to."""
    if not centre:
        D = x.shape[1] // groups
        square = torch.matmul(torch.mul(x, x, out=space), w.unsqueeze(2)).view(x.shape[0], groups, D).mean(2)
        zero = torch.zeros_like(square)
        return torch.stack([zero, zero, torch.rsqrt(square + eps)])
    high = _sample(torch.unflatten(x, 1, (groups, -1)), w)  # (B, G)
    low, variance = _about(x, w, high, space)
    # Where that sample was untypical, the large difference cost digits: once more, from the mean. Elsewhere than on a
    # CPU asking costs more than doing.
    if x.device.type != "cpu" or bool((low * low > 4 * variance).any()):
        high = high + low
        low, variance = _about(x, w, high, space)
    mean = high + low  # and what the addition lost (Knuth's two-sum)
    part = mean - high
    rest = (high - (mean - part)) + (low - part)
    return torch.stack([mean, torch.where(torch.isfinite(rest), rest, 0.0), torch.rsqrt(variance + eps)])


def _sample(x: Tensor, w: Tensor) -> Tensor:
    """A typical sample of each group of x (B, G, D, N), (B, G): the median of nine.

    A sample, and one that is there, so that constant groups deviate by exactly 0.
    """
    N = x.shape[3]
    spread = torch.arange(1, 18, 2, device=x.device) * N // 18
    if x.device.type == "cpu" and bool((w[:, spread] > 0).all()):
        return x[:, :, 0, spread].median(2).values
    at = w.argmax(1).expand(x.shape[0])
    return x[:, :, 0].gather(2, at[:, None, None].expand(-1, x.shape[1], 1))[..., 0]


def _about(x: Tensor, w: Tensor, centre: Tensor, space: Tensor) -> tuple[Tensor, Tensor]:
    """Mean − centre and variance of each group, (B, G), from deviations about ``centre`` (B, G)."""
    B, C, N = x.shape
    D = C // centre.shape[1]
    xs = x.view(1, B * C, N) if w.shape[0] == 1 else x
    centres = centre.repeat_interleave(D, 1).view(xs.shape[:2])
    moments = torch.zeros(2, *xs.shape[:2], dtype=x.dtype, device=x.device)
    for b, c, i, d in channel_blocks(xs, space):
        torch.sub(xs[b, c, i], centres[b, c, None], out=d)
        moments[0, b, c].addmv_(d, w[b, i])
        moments[1, b, c].addmv_(d.mul_(d), w[b, i])
    mass = w.sum(1, keepdim=True).clamp_min_(torch.finfo(w.dtype).tiny)
    first, second = (moments / mass).view(2, B, centre.shape[1], D).mean(3)
    # Squares that overflow mean an infinite variance; ∞ − ∞ would make it NaN, and so does 0·∞ at an absent sample.
    overflow = (second == torch.inf) | (second.isnan() & first.isfinite())
    return first, torch.where(overflow, torch.inf, (second - first.square()).clamp_min(0))


def _of_rows(rstd: Tensor | None, parameter: Tensor | None, stats: Tensor, channels: int) -> Tensor:
    """rstd·γ, or β alone, for every channel of every row: (R, D, 1)."""
    B, G = stats.shape[1:]
    if parameter is None:
        assert rstd is not None
        return rstd.expand(-1, channels, 1)
    rows = parameter.detach().view(G, -1, 1).repeat(B, 1, 1)
    return rows if rstd is None else rstd * rows
