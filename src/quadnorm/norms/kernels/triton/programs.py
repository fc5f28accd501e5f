"""The device programs: what one block of threads does with one tile of samples. The only file here that needs Triton.

Shapes as in :mod:`quadnorm.norms.kernels.formula`: x (B, C, N) contiguous, w (1 or B, N) in float32 with Σ w = 1, G
groups of D = C/G channels, rows = B·G. A tile is BD channels of BN samples, both powers of two; what lies outside the
tensor has weight 0. ``own`` is N where every batch entry has weights of its own, else 0.

Numbers: everything is loaded as float32. Moments of a tile are taken around a sample of it, then again around the mean
so found; tiles are merged the same way (Chan's formula, from a common pivot). The mean is kept as high + low part, so
that (x − high) − low is right even where the mean is 10⁵ standard deviations, and a constant field deviates by 0.

Samples of weight 0 are absent. With HOLES, what stands there and is no moderate number (NaN, infinite, a fill value) is
read as 0, and has no gradient.
"""

import triton
import triton.language as tl

FILL: tl.constexpr = tl.constexpr(1e15)  # see quadnorm.norms.kernels.inputs.FILL


@triton.jit
def _present(x, w, HOLES: tl.constexpr):
    if HOLES:
        return tl.where((w == 0) & ~(tl.abs(x) < FILL), 0.0, x)
    return x


@triton.jit
def _safe(mass):
    """A divisor: weights that are all 0 give finite values without meaning."""
    return tl.where(mass > 0, mass, 1.0)


@triton.jit
def _total(tile):
    return tl.sum(tl.sum(tile, 1), 0)


@triton.jit
def _moments(x, w, CENTRE: tl.constexpr):
    """Mass, mean (high, low) and second central moment (raw without CENTRE) of a tile; w is 0 outside."""
    mass = _total(w)
    if CENTRE:
        pivot = tl.max(tl.max(tl.where(w > 0, x, -float("inf")), 1), 0)
        pivot = tl.where(mass > 0, pivot, 0.0)
        high = pivot + _total(tl.where(w > 0, w * (x - pivot), 0.0)) / _safe(mass)
        d = tl.where(w > 0, x - high, 0.0)
        low = _total(w * d) / _safe(mass)
        d -= low
        second = _total(w * d * d)
    else:
        high = mass * 0
        low = mass * 0
        second = _total(tl.where(w > 0, w * x * x, 0.0))
    return mass, high, low, second


@triton.jit
def _rstd(second, mass, eps):
    return tl.div_rn(1.0, tl.sqrt_rn(second / _safe(mass) + eps))


@triton.jit
def forward_row(
    x_ptr, w_ptr, gamma_ptr, beta_ptr, y_ptr, stats_ptr, rows, G, D, N, own, eps,
    CENTRE: tl.constexpr, HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A whole row (one batch entry, one group) on chip: x is read once."""
    row = tl.program_id(0)
    c, n = tl.arange(0, BD)[:, None], tl.arange(0, BN)[None, :]
    inside = (c < D) & (n < N)
    base = row.to(tl.int64) * D * N
    x = tl.load(x_ptr + base + (c * N + n), mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + (row // G).to(tl.int64) * own + n, mask=n < N, other=0.0)
    x = _present(x, w, HOLES)
    mass, high, low, second = _moments(x, tl.where(c < D, w, 0.0), CENTRE)
    rstd = _rstd(second, mass, eps)
    tl.store(stats_ptr + row, high)
    tl.store(stats_ptr + rows + row, low)
    tl.store(stats_ptr + 2 * rows + row, rstd)
    y = ((x - high) - low) * rstd
    channel = (row % G) * D + c
    if gamma_ptr is not None:
        y *= tl.load(gamma_ptr + channel, mask=c < D, other=0.0)
    if beta_ptr is not None:
        y += tl.load(beta_ptr + channel, mask=c < D, other=0.0)
    tl.store(y_ptr + base + (c * N + n), y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def moments_tile(
    x_ptr, w_ptr, parts_ptr, rows, G, D, N, own, TD, TN,
    CENTRE: tl.constexpr, HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The moments of one tile of a row that is too long for the chip; parts (4, rows, TD·TN)."""
    tile = tl.program_id(0)
    row, k = tile // (TD * TN), tile % (TD * TN)
    first_c, first_n = (k // TN) * BD, (k % TN) * BN
    c, n = tl.arange(0, BD)[:, None], tl.arange(0, BN)[None, :]
    live_c, live_n = c < D - first_c, n < N - first_n
    base = (row.to(tl.int64) * D + first_c) * N + first_n
    x = tl.load(x_ptr + base + (c * N + n), mask=live_c & live_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + (row // G).to(tl.int64) * own + first_n + n, mask=live_n, other=0.0)
    x = _present(x, w, HOLES)
    mass, high, low, second = _moments(x, tl.where(live_c, w, 0.0), CENTRE)
    at = parts_ptr + tile
    count = tl.cast(rows, tl.int64) * TD * TN
    tl.store(at, mass)
    tl.store(at + count, high)
    tl.store(at + 2 * count, low)
    tl.store(at + 3 * count, second)


@triton.jit
def merge_row(
    parts_ptr, stats_ptr, rows, T, eps, CENTRE: tl.constexpr, BT: tl.constexpr
):  # fmt: skip
    """The moments of a row from those of its T tiles: a pivot, the mean from it, both moments around that mean."""
    row = tl.program_id(0)
    t = tl.arange(0, BT)
    at = parts_ptr + row.to(tl.int64) * T + t
    count = tl.cast(rows, tl.int64) * T
    masses = tl.zeros([BT], tl.float32)
    pivots = tl.full([BT], -float("inf"), tl.float32)
    seconds = tl.zeros([BT], tl.float32)
    for i in range(0, T, BT):
        m = tl.load(at + i, mask=t < T - i, other=0.0)
        pivots = tl.maximum(pivots, tl.where(m > 0, tl.load(at + count + i, mask=t < T - i, other=0.0), -float("inf")))
        seconds += tl.load(at + 3 * count + i, mask=t < T - i, other=0.0)
        masses += m
    mass, second = tl.sum(masses, 0), tl.sum(seconds, 0)
    high = mass * 0
    low = mass * 0
    if CENTRE:
        pivot = tl.where(mass > 0, tl.max(pivots, 0), 0.0)
        shifts = tl.zeros([BT], tl.float32)
        for i in range(0, T, BT):
            m = tl.load(at + i, mask=t < T - i, other=0.0)
            d = (tl.load(at + count + i, mask=t < T - i, other=0.0) - pivot) + tl.load(
                at + 2 * count + i, mask=t < T - i, other=0.0
            )
            shifts += tl.where(m > 0, m * d, 0.0)
        high = pivot + tl.sum(shifts, 0) / _safe(mass)
        firsts = tl.zeros([BT], tl.float32)
        spreads = tl.zeros([BT], tl.float32)
        for i in range(0, T, BT):
            m = tl.load(at + i, mask=t < T - i, other=0.0)
            d = (tl.load(at + count + i, mask=t < T - i, other=0.0) - high) + tl.load(
                at + 2 * count + i, mask=t < T - i, other=0.0
            )
            firsts += tl.where(m > 0, m * d, 0.0)
            spreads += tl.where(m > 0, m * d * d, 0.0)
        low = tl.sum(firsts, 0) / _safe(mass)
        second += tl.sum(spreads, 0) - mass * low * low
        second = tl.where(second < 0, 0.0, second)  # NaN stays
    tl.store(stats_ptr + row, high)
    tl.store(stats_ptr + rows + row, low)
    tl.store(stats_ptr + 2 * rows + row, _rstd(second, mass, eps))


@triton.jit
def output_tile(
    x_ptr, w_ptr, gamma_ptr, beta_ptr, y_ptr, stats_ptr, B, C, D, N, own, TC, TN,
    HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Y of one tile, from statistics that are known; a tile may hold channels of several groups."""
    tile = tl.program_id(0)
    b, k = tile // (TC * TN), tile % (TC * TN)
    first_c, first_n = (k // TN) * BD, (k % TN) * BN
    c, n = first_c + tl.arange(0, BD)[:, None], tl.arange(0, BN)[None, :]
    live_n = n < N - first_n
    inside = (c < C) & live_n
    base = (b.to(tl.int64) * C + first_c) * N + first_n
    at = (c - first_c) * N + n
    x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    if HOLES:
        w = tl.load(w_ptr + b.to(tl.int64) * own + first_n + n, mask=live_n, other=0.0)
        x = _present(x, w, HOLES)
    rows = B * (C // D)
    row = b * (C // D) + c // D
    high = tl.load(stats_ptr + row, mask=c < C, other=0.0)
    low = tl.load(stats_ptr + rows + row, mask=c < C, other=0.0)
    y = ((x - high) - low) * tl.load(stats_ptr + 2 * rows + row, mask=c < C, other=0.0)
    if gamma_ptr is not None:
        y *= tl.load(gamma_ptr + c, mask=c < C, other=0.0)
    if beta_ptr is not None:
        y += tl.load(beta_ptr + c, mask=c < C, other=0.0)
    tl.store(y_ptr + base + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_row(
    g_ptr, x_ptr, w_ptr, gamma_ptr, stats_ptr, dx_ptr, dw_ptr, sums_ptr, rows, G, D, N, own,
    CENTRE: tl.constexpr, HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """All gradients of a whole row on chip: x and g are read once. dw (rows, N) only where a row has all channels."""
    row = tl.program_id(0)
    channels, n = tl.arange(0, BD), tl.arange(0, BN)[None, :]
    c = channels[:, None]
    inside = (c < D) & (n < N)
    base = row.to(tl.int64) * D * N
    x = tl.load(x_ptr + base + (c * N + n), mask=inside, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + base + (c * N + n), mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + (row // G).to(tl.int64) * own + n, mask=n < N, other=0.0)
    high, low = tl.load(stats_ptr + row), tl.load(stats_ptr + rows + row)
    rstd = tl.load(stats_ptr + 2 * rows + row)
    xhat = tl.where(c < D, ((_present(x, w, HOLES) - high) - low) * rstd, 0.0)
    sum_g, sum_gx = tl.sum(g, 1), tl.sum(g * xhat, 1)
    tl.store(sums_ptr + row * D + channels, sum_g, mask=channels < D)
    tl.store(sums_ptr + rows * D + row * D + channels, sum_gx, mask=channels < D)
    if gamma_ptr is not None:
        gamma = tl.load(gamma_ptr + (row % G) * D + channels, mask=channels < D, other=0.0)
        sum_g *= gamma
        sum_gx *= gamma
        g *= gamma[:, None]
    hx = tl.sum(sum_gx, 0) / D
    h = tl.sum(sum_g, 0) / D if CENTRE else hx * 0
    dx = rstd * (g - w * (h + xhat * hx))
    if HOLES:
        dx = tl.where((w == 0) & ~(tl.abs(x) < FILL), 0.0, dx)
    tl.store(dx_ptr + base + (c * N + n), dx.to(dx_ptr.dtype.element_ty), mask=inside)
    if dw_ptr is not None:
        dw = -tl.sum(xhat * (h + xhat * (hx / 2)), 0)
        samples = tl.arange(0, BN)
        tl.store(dw_ptr + row.to(tl.int64) * N + samples, dw, mask=samples < N)


@triton.jit
def sums_tile(
    g_ptr, x_ptr, w_ptr, stats_ptr, parts_ptr, B, C, D, N, own, TC, TN,
    HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Σ g and Σ g·ŷ over the samples of one tile; parts (2, B·C, TN)."""
    tile = tl.program_id(0)
    b, k = tile // (TC * TN), tile % (TC * TN)
    first_c, first_n = (k // TN) * BD, (k % TN) * BN
    channels = first_c + tl.arange(0, BD)
    c, n = channels[:, None], tl.arange(0, BN)[None, :]
    live_n = n < N - first_n
    inside = (c < C) & live_n
    base = (b.to(tl.int64) * C + first_c) * N + first_n
    at = (c - first_c) * N + n
    x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    if HOLES:
        w = tl.load(w_ptr + b.to(tl.int64) * own + first_n + n, mask=live_n, other=0.0)
        x = _present(x, w, HOLES)
    rows = B * (C // D)
    row = b * (C // D) + c // D
    high = tl.load(stats_ptr + row, mask=c < C, other=0.0)
    low = tl.load(stats_ptr + rows + row, mask=c < C, other=0.0)
    rstd = tl.load(stats_ptr + 2 * rows + row, mask=c < C, other=0.0)
    xhat = ((x - high) - low) * rstd  # outside, g is 0
    out = parts_ptr + (b * C + channels).to(tl.int64) * TN + k % TN
    tl.store(out, tl.sum(g, 1), mask=channels < C)
    tl.store(out + tl.cast(B, tl.int64) * C * TN, tl.sum(g * xhat, 1), mask=channels < C)


@triton.jit
def merge_sums(
    parts_ptr, gamma_ptr, sums_ptr, folded_ptr, rows, G, D, TN,
    CENTRE: tl.constexpr, BD: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The sums (2, B·C) of all channels of a row from those of its tiles, and Σ γ·sum/D, folded (2, rows)."""
    row = tl.program_id(0)
    channels, t = tl.arange(0, BD), tl.arange(0, BT)[None, :]
    count = tl.cast(rows, tl.int64) * D
    h = tl.zeros([BD], tl.float32)
    hx = tl.zeros([BD], tl.float32)
    for first in range(0, D, BD):
        live = channels < D - first
        c = row * D + first + channels  # (BD,) of all B·C
        sum_g = tl.zeros([BD, BT], tl.float32)
        sum_gx = tl.zeros([BD, BT], tl.float32)
        for i in range(0, TN, BT):
            at = parts_ptr + c.to(tl.int64)[:, None] * TN + i + t
            inside = live[:, None] & (t < TN - i)
            sum_g += tl.load(at, mask=inside, other=0.0)
            sum_gx += tl.load(at + count * TN, mask=inside, other=0.0)
        s, sx = tl.sum(sum_g, 1), tl.sum(sum_gx, 1)
        tl.store(sums_ptr + c, s, mask=live)
        tl.store(sums_ptr + count + c, sx, mask=live)
        if gamma_ptr is not None:
            gamma = tl.load(gamma_ptr + (row % G) * D + first + channels, mask=live, other=0.0)
            s *= gamma
            sx *= gamma
        h += s
        hx += sx
    total = tl.sum(h, 0) / D
    tl.store(folded_ptr + row, total if CENTRE else total * 0)
    tl.store(folded_ptr + rows + row, tl.sum(hx, 0) / D)


@triton.jit
def gradient_tile(
    g_ptr, x_ptr, w_ptr, gamma_ptr, stats_ptr, folded_ptr, dx_ptr, dw_ptr, B, C, D, N, own, S, TN, loop,
    HOLES: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The gradient of loop·BD channels of BN samples, and their share of the weights' gradient, dw (B, S, N)."""
    tile = tl.program_id(0)
    b, k = tile // (S * TN), tile % (S * TN)
    split, first_n = k // TN, (k % TN) * BN
    samples = tl.arange(0, BN)
    n = samples[None, :]
    live_n = n < N - first_n
    w = tl.load(w_ptr + b.to(tl.int64) * own + first_n + n, mask=live_n, other=0.0)
    rows = B * (C // D)
    dw = tl.zeros([BN], tl.float32)
    for step in range(loop):
        first_c = (split * loop + step) * BD
        c = first_c + tl.arange(0, BD)[:, None]
        inside = (c < C) & live_n
        base = (b.to(tl.int64) * C + first_c) * N + first_n
        at = (c - first_c) * N + n
        x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
        row = b * (C // D) + c // D
        high = tl.load(stats_ptr + row, mask=c < C, other=0.0)
        low = tl.load(stats_ptr + rows + row, mask=c < C, other=0.0)
        rstd = tl.load(stats_ptr + 2 * rows + row, mask=c < C, other=0.0)
        h = tl.load(folded_ptr + row, mask=c < C, other=0.0)
        hx = tl.load(folded_ptr + rows + row, mask=c < C, other=0.0)
        xhat = ((_present(x, w, HOLES) - high) - low) * rstd  # 0 beyond the last channel, whose rstd is 0
        if gamma_ptr is not None:
            g *= tl.load(gamma_ptr + c, mask=c < C, other=0.0)
        dx = rstd * (g - w * (h + xhat * hx))
        if HOLES:
            dx = tl.where((w == 0) & ~(tl.abs(x) < FILL), 0.0, dx)
        tl.store(dx_ptr + base + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        if dw_ptr is not None:
            dw -= tl.sum(xhat * (h + xhat * (hx / 2)), 0)
    if dw_ptr is not None:
        tl.store(dw_ptr + (b * S + split).to(tl.int64) * N + first_n + samples, dw, mask=samples < N - first_n)
