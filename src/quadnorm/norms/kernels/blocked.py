"""The kernel in torch operations, for every device: blocks in the cache instead of temporaries as large as x.

A CPU block holds :data:`BLOCK` numbers per thread; other devices take everything at once. Shapes as in
:mod:`quadnorm.norms.kernels.formula`, with x and g contiguous (B, C, N) in float32 or float64. Statistics are one
tensor (3, B, G) with the high and low part of the mean and the reciprocal standard deviation.

Where the mean is of the size of the standard deviation, as it is inside most networks, a·x + b loses nothing against
(x − μ)·rstd, and PyTorch's own batch-norm kernels, told these statistics, write output and gradient in one sweep each.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from quadnorm.norms.kernels.memory import empty_like

BLOCK = 2**17  # numbers per thread, half a MiB of float32: a block and its buffer fit a common L2 cache
MODERATE = 16  # |mean| over standard deviation up to which a·x + b is as good: the error grows by this factor


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """Output (B, C, N) and statistics (3, B, G)."""
    B, C, N = x.shape
    D = C // groups
    stats = _statistics(x, w, groups, eps, centre)
    if _moderate(x, stats, eps):
        return _native_output(x, stats, weight, bias, groups), stats.reshape(3, B, groups)
    y = empty_like(x)
    xr, yr = x.reshape(B * groups, D, N), y.reshape(B * groups, D, N)
    buffers = _Buffers(xr, 1)
    for rows in _rows(xr):
        high, low, rstd = stats[:, rows, None, None]
        scale, shift = _affine(rstd, weight, bias, rows, groups, D)
        for part in _parts(xr[rows]):
            d = buffers.deviations(xr[rows][part], high, 0)
            d.sub_(low).mul_(scale[:, part[1]])
            yr[rows][part] = d if shift is None else d.add_(shift[:, part[1]])
    return y, stats.reshape(3, B, groups)


def backward(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """Gradient (B, C, N) for the input, and Σ g and Σ g·ŷ over the samples, (2, B, C)."""
    if _moderate(x, stats, eps):
        return _native_gradient(g, x, w, weight, stats, centre)
    B, C, N = x.shape
    groups = stats.shape[2]
    D = C // groups
    dx = empty_like(x)
    sums = torch.empty(2, B * groups, D, dtype=x.dtype, device=x.device)
    xr, gr, dr = (t.reshape(B * groups, D, N) for t in (x, g, dx))
    flat = stats.reshape(3, B * groups)
    buffers = _Buffers(xr, 2)
    for rows in _rows(xr):
        high, low, rstd = flat[:, rows, None, None]
        ws = _row_weights(w, rows, groups)
        sums[:, rows] = 0
        for part in _parts(xr[rows]):
            d = buffers.deviations(xr[rows][part], high, 0)
            gs = gr[rows][part]
            sums[0, rows][part[:2]] += gs.sum(2)
            sums[1, rows][part[:2]] += torch.mul(d, gs, out=buffers[1, d.shape]).sum(2)
        sums[1, rows] = (sums[1, rows] - low[:, 0] * sums[0, rows]) * rstd[:, 0]
        scale, _ = _affine(rstd, weight, None, rows, groups, D)
        h, hx = (sums[:, rows, :, None] * scale).sum(2, keepdim=True) / D
        slope = -rstd * hx
        offset = (-h if centre else 0) - slope * low
        for part in _parts(xr[rows]):
            d = buffers.deviations(xr[rows][part], high, 0)
            d.mul_(slope).add_(offset).mul_(ws[..., part[2]])
            torch.mul(gr[rows][part], scale[:, part[1]], out=dr[rows][part]).add_(d)
    return dx, sums.reshape(2, B, C)


def _moderate(x: Tensor, stats: Tensor, eps: float) -> bool:
    """Whether the native kernels serve: on a CPU, without a large or constant offset."""
    if x.device.type != "cpu" or x.numel() == 0:
        return False
    mean, rstd = stats[0], stats[2]
    variance = rstd.square().reciprocal() - eps
    # A constant field must give exactly β, and its variance, recovered from rstd, is only nearly 0.
    return bool(((mean == 0) | ((mean.square() <= MODERATE**2 * variance) & (variance >= 1e-3 * eps))).all())


def _native_output(x: Tensor, stats: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
    B, C, N = x.shape
    mean, variance = (v.reshape(B, groups, 1).expand(B, groups, C // groups).reshape(-1) for v in _native(stats))
    gamma, beta = (None if p is None else p.repeat(B) for p in (weight, bias))
    y, unused = empty_like(x), x.new_empty(0)
    torch.ops.aten.native_batch_norm.out(
        x.reshape(1, B * C, N),
        gamma,
        beta,
        mean,
        variance,
        False,
        0.0,
        0.0,
        out=y.view(1, B * C, N),
        save_mean=unused,
        save_invstd=unused.clone(),
    )
    return y


def _native_gradient(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, centre: bool
) -> tuple[Tensor, Tensor]:
    """Both sums by the native kernel, then the gradient block by block."""
    B, C, N = x.shape
    groups = stats.shape[2]
    D = C // groups
    mean, variance = (v.reshape(B, groups, 1).expand(B, groups, D).reshape(-1) for v in _native(stats))
    gamma = None if weight is None else weight.repeat(B)
    gs, xs = g.reshape(1, B * C, N), x.reshape(1, B * C, N)
    _, sum_gx, sum_g = torch.ops.aten.native_batch_norm_backward(
        gs, xs, gamma, mean, variance, None, None, False, 0.0, [False, True, True]
    )
    sums = torch.stack([sum_g, sum_gx]).reshape(2, B * groups, D)
    rstd = stats[2].reshape(-1, 1, 1)
    h = (sums if weight is None else sums * weight.reshape(groups, D).repeat(B, 1)).sum(2)[..., None, None] / D
    slope = -rstd.square() * h[1]
    offset = (-rstd * h[0] if centre else 0) - slope * mean.reshape(B * groups, D)[:, :1, None]
    dx = empty_like(x)
    xr, gr, dr = (t.view(B * groups, D, N) for t in (x, g, dx))
    # dx = rstd·γ·g + w·(offset + slope·x), with w·slope and w·offset made once for all channels of a group
    for rows in _rows(xr):
        ws = _row_weights(w, rows, groups)
        scale, _ = _affine(rstd[rows], weight, None, rows, groups, D)
        for part in _parts(xr[rows]):
            wp = ws[..., part[2]]
            torch.mul(gr[rows][part], scale[:, part[1]], out=dr[rows][part])
            if D > 1:
                dr[rows][part].addcmul_(xr[rows][part], wp * slope[rows]).add_(wp * offset[rows])
            else:
                dr[rows][part].addcmul_((xr[rows][part] * slope[rows]).add_(offset[rows]), wp)
    return dx.reshape(B, C, N), sums.reshape(2, B, C)


def _native(stats: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and the variance, ε included, as the batch-norm kernels want them."""
    return stats[0] + stats[1], stats[2].square().reciprocal()


class _Buffers:
    """Scratch space for one block, made once."""

    def __init__(self, x: Tensor, number: int) -> None:
        largest = next(_rows(x), slice(0))  # the first of everything is the largest
        size = x[largest][_parts(x[largest])[0]].numel()
        self.space = [torch.empty(size, dtype=x.dtype, device=x.device) for _ in range(number)]

    def __getitem__(self, key: tuple[int, torch.Size]) -> Tensor:
        k, shape = key
        return self.space[k][: shape.numel()].view(shape)

    def deviations(self, x: Tensor, high: Tensor, k: int) -> Tensor:
        return torch.sub(x, high, out=self[k, x.shape])


def _limit(x: Tensor) -> int:
    return BLOCK * torch.get_num_threads() if x.device.type == "cpu" else max(x.numel(), 1)


def _rows(x: Tensor) -> Iterator[slice]:
    """As many whole rows of x (R, D, N) as fit a block, at least one."""
    R, D, N = x.shape
    step = max(1, _limit(x) // max(1, D * N))
    for r in range(0, R, step):
        yield slice(r, min(r + step, R))


def _parts(x: Tensor) -> list[tuple[slice, slice, slice]]:
    """Rows that do not fit a block, cut into channels, and channels that do not fit, into runs of samples."""
    _, D, N = x.shape
    limit = _limit(x)
    if x.numel() <= limit:
        return [(slice(None), slice(None), slice(None))]
    c_step, n_step = max(1, limit // N), min(N, limit)
    return [
        (slice(None), slice(c, min(c + c_step, D)), slice(n, min(n + n_step, N)))
        for c in range(0, D, c_step)
        for n in range(0, N, n_step)
    ]


def _row_weights(w: Tensor, rows: slice, groups: int) -> Tensor:
    """(N,) if shared, else (R, 1, N)."""
    if w.shape[0] == 1:
        return w[0]
    return w[torch.arange(rows.start, rows.stop, device=w.device) // groups, None]


def _affine(
    rstd: Tensor, weight: Tensor | None, bias: Tensor | None, rows: slice, groups: int, D: int
) -> tuple[Tensor, Tensor | None]:
    """rstd·γ and β (R, D, 1) of some rows."""
    group = torch.arange(rows.start, rows.stop, device=rstd.device) % groups
    scale = rstd.expand(-1, D, 1) if weight is None else rstd * weight.reshape(groups, D, 1)[group]
    return scale, None if bias is None else bias.reshape(groups, D, 1)[group]


def _statistics(x: Tensor, w: Tensor, groups: int, eps: float, centre: bool) -> Tensor:
    """High and low part of the mean, and rstd, of each group of x (B, C, N): (3, B·G)."""
    B, C, N = x.shape
    D = C // groups
    if not centre:
        square = _moments(x, w, None)[1].reshape(-1, D).mean(1)
        zero = torch.zeros_like(square)
        return torch.stack([zero, zero, torch.rsqrt(square + eps)])
    high = _pivot(x.reshape(B, groups, D, N), w)  # (B, G)
    low, variance = _about(x, w, high, D)
    # Where the pivot was untypical, the large difference cost digits: once more, from the mean. Elsewhere than on a CPU
    # asking costs more than doing.
    if x.device.type != "cpu" or bool((low * low > 4 * variance).any()):
        high = high + low.reshape(high.shape)
        low, variance = _about(x, w, high, D)
    high = high.reshape(-1)
    mean = high + low  # and what the addition lost (Knuth's two-sum)
    part = mean - high
    rest = (high - (mean - part)) + (low - part)
    rest = torch.where(torch.isfinite(rest), rest, torch.zeros_like(rest))
    return torch.stack([mean, rest, torch.rsqrt(variance + eps)])


def _pivot(x: Tensor, w: Tensor) -> Tensor:
    """A typical sample of each group of x (B, G, D, N), (B, G): the median of nine.

    A sample, and one that is there, so that constant groups deviate by exactly 0.
    """
    N = x.shape[3]
    spread = torch.arange(1, 18, 2, device=x.device) * N // 18
    if x.device.type == "cpu" and bool((w[:, spread] > 0).all()):
        return x[:, :, 0, spread].median(2).values
    at = w.argmax(1).expand(x.shape[0])
    return x[:, :, 0].gather(2, at[:, None, None].expand(-1, x.shape[1], 1))[..., 0]


def _about(x: Tensor, w: Tensor, pivot: Tensor, D: int) -> tuple[Tensor, Tensor]:
    """Mean − pivot and variance of each group (B·G,), from deviations about the pivot (B, G)."""
    first, second = (m.reshape(-1, D).mean(1) for m in _moments(x, w, pivot.repeat_interleave(D, 1)))
    return first, (second - first.square()).clamp_min(0)


def _moments(x: Tensor, w: Tensor, pivot: Tensor | None) -> tuple[Tensor, Tensor]:
    """Σ w·(x − pivot) and Σ w·(x − pivot)² over the samples of x (B, C, N), (B, C) each; weights scaled to mass 1.

    Channels are taken a block at a time, whatever group they belong to: few calls, and buffers that stay in the cache.
    Matrix products run at memory speed.
    """
    B, C, N = x.shape
    shared = w.shape[0] == 1
    xs = x.reshape(1, B * C, N) if shared else x
    pivots = None if pivot is None else pivot.reshape(xs.shape[:2])
    first, second = (torch.zeros(xs.shape[:2], dtype=x.dtype, device=x.device) for _ in range(2))
    k, n = max(1, min(xs.shape[1], _limit(x) // N)), min(N, _limit(x))
    buffer = torch.empty(k * n, dtype=x.dtype, device=x.device)
    for b in range(xs.shape[0]):
        for c in range(0, xs.shape[1], k):
            for i in range(0, N, n):
                part, weight = xs[b, c : c + k, i : i + n], w[b, i : i + n]
                d = buffer[: part.numel()].view(part.shape)
                if pivots is None:
                    torch.mul(part, part, out=d)
                else:
                    torch.sub(part, pivots[b, c : c + k, None], out=d)
                    first[b, c : c + k] += torch.mv(d, weight)
                    d.mul_(d)
                second[b, c : c + k] += torch.mv(d, weight)
    mass = w.sum(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    return (first / mass).reshape(B, C), (second / mass).reshape(B, C)
