"""The CPU kernel for channels that lie beside each other in memory: x is (B, N, C), w is (1 or B, N).

The same numbers as in :mod:`quadnorm.norms.kernels.numba.programs`: vector lanes are channels, every block of samples
has one pivot per channel and ends in float64, blocks and channels are merged by Chan's formula. Batch entries are taken
a few at a time, so that the second sweep finds in the cache what the first one has read.

``kind`` is a number like those of x and y (uint16 stands for bfloat16), ``real`` one like those of w, γ, β and the
statistics; they differ for bfloat16 only. Helpers are inlined by force, and stand in this file; programs.py says why.
No number depends on ``threads``.
"""

import math

import numpy as np
from numba import carray, njit, prange  # type: ignore[attr-defined]

from quadnorm.norms.kernels.numba.numbers import number, pointer, prefetch, stored

BLOCK = 32768  # numbers in a block, 128 KiB of float32: a few of them fit the L2 cache
RUN = 512  # samples in a block at most: sums of so few keep their digits
AHEAD = 4096  # bytes: four rows are read at once, a pattern that the processor's own prefetching does not see
NEAR = 2**18  # numbers that one thread may read before it reads them again: 1 MiB of float32

# Lanes are channels, so no sum needs another order than the one that is written; bfloat16 then gives float32's bits.
_SUM = {"contract"}


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _pivots(x, w, p):
    """A typical sample of each channel of a block: the median of three that are there."""
    n = w.size
    seen, a, b, c = 0, 0, 0, 0
    for third in range(3):
        k = n * (2 * third + 1) // 6
        while k < n - 1 and w[k] == 0:
            k += 1
        if w[k] == 0:
            continue
        a, b, c = b, c, k
        seen += 1
    if seen == 0:
        while c < n - 1 and w[c] == 0:
            c += 1
    if seen < 3:
        a, b = c, c
    for j in range(p.size):
        u, v, z = number(x[a, j]), number(x[b, j]), number(x[c, j])
        p[j] = max(min(u, v), min(max(u, v), z))


@njit(fastmath=_SUM, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _block_sums(x, w, p, first, second):
    """Σ w·(x − p) and Σ w·(x − p)² of each channel; four samples at a time, which saves three of four accesses."""
    n, C = x.shape
    for c in range(C):
        first[c] = 0
        second[c] = 0
    for i in range(0, n - 3, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
        for k in range(AHEAD, AHEAD + 4 * C * x.itemsize, 64):
            prefetch(x0, k)
        for c in range(C):
            q = p[c]
            d0, d1, d2, d3 = number(x0[c]) - q, number(x1[c]) - q, number(x2[c]) - q, number(x3[c]) - q
            v0, v1, v2, v3 = w0 * d0, w1 * d1, w2 * d2, w3 * d3
            first[c] += (v0 + v1) + (v2 + v3)
            second[c] += (v0 * d0 + v1 * d1) + (v2 * d2 + v3 * d3)
    for i in range(n - n % 4, n):
        for c in range(C):
            d = number(x[i, c]) - p[c]
            v = w[i] * d
            first[c] += v
            second[c] += v * d


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _block_moments(x, w, mass, centre, means, seconds):
    """Mean and second central moment of each channel of a block (second raw moment without centring), in float64."""
    C = x.shape[1]
    p, first, second = np.zeros(C, w.dtype), np.empty(C, w.dtype), np.empty(C, w.dtype)
    if mass == 0:
        means[:] = 0
        seconds[:] = 0
        return
    if not centre:
        _block_sums(x, w, p, first, second)
        for c in range(C):
            means[c], seconds[c] = 0.0, second[c]
        return
    _pivots(x, w, p)
    for attempt in range(2):
        _block_sums(x, w, p, first, second)
        if _finish(p, first, second, mass, means, seconds) == 0 or attempt == 1:
            break
        for c in range(C):  # a pivot was far from its mean, so the difference has cancelled: go again, from the means
            p[c] = means[c]


@njit(fastmath={"contract"}, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _finish(p, first, second, mass, means, seconds):
    """Mean and second central moment from sums about a pivot; the number of channels whose pivot was far away."""
    share, far = 1 / mass, 0
    for c in range(p.size):
        shift, s = np.float64(first[c]) * share, np.float64(second[c])
        between = mass * shift * shift
        spread = max(s - between, 0.0) if s < np.inf else s  # ∞ − ∞ would make it NaN
        means[c] = np.float64(p[c]) + shift
        seconds[c] = spread
        far += 1 if between > 0.75 * s else 0
    return far


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _masses(w, R):
    """Sums of the weights (1 or B, N) block by block."""
    K = (w.shape[1] + R - 1) // R
    out = np.zeros((w.shape[0], K))
    for b in range(w.shape[0]):
        for k in range(K):
            for i in range(k * R, min((k + 1) * R, w.shape[1])):
                out[b, k] += np.float64(w[b, i])
    return out


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _merge_blocks(masses, means, seconds, centre):
    """All blocks (K, C) of a batch entry into the first one: mean and variance of each channel."""
    K, C = means.shape
    mass = 0.0
    for k in range(K):
        m = masses[k]
        if m == 0:
            continue
        both = mass + m
        if mass == 0:
            for c in range(C):  # exactly, so that a constant field deviates from its mean by nothing
                means[0, c], seconds[0, c] = means[k, c], seconds[k, c]
        elif centre:
            share, between = m / both, mass * m / both
            for c in range(C):
                delta = means[k, c] - means[0, c]
                means[0, c] += delta * share
                seconds[0, c] += seconds[k, c] + delta * delta * between
        else:
            for c in range(C):
                seconds[0, c] += seconds[k, c]
        mass = both
    for c in range(C):
        seconds[0, c] = seconds[0, c] / mass if mass > 0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _merge_channels(mean, variance, eps, centre, stats, b):
    """Channels (C,) of equal mass into groups: the statistics of a batch entry."""
    G = stats.shape[2]
    D = mean.size // G
    for g in range(G):
        m, v = mean[g * D], variance[g * D]
        for n in range(1, D):
            delta = mean[g * D + n] - m
            v += variance[g * D + n]
            if centre:
                m += delta / (n + 1)
                v += delta * delta * n / (n + 1)
        high = stats.dtype.type(m)
        stats[0, b, g] = high
        stats[1, b, g] = m - np.float64(high)
        stats[2, b, g] = 1 / math.sqrt(v / D + eps)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _is_moderate(stats, b, eps):
    """Whether a·x + b is as good as (x − μ)·rstd in every group."""
    for g in range(stats.shape[2]):
        high, rstd = np.float64(stats[0, b, g]), np.float64(stats[2, b, g])
        spread = 1 / (rstd * rstd)  # variance + ε
        if not (high * high <= 16 * spread and spread - eps >= 1e-3 * eps):
            return False
    return True


@njit(fastmath={"contract"}, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _affine(x, y, kind, scale, shift):
    for i in range(x.shape[0]):
        u, v = x[i], y[i]
        for c in range(scale.size):
            v[c] = stored(number(u[c]) * scale[c] + shift[c], kind)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _deviations(x, y, kind, high, low, scale, shift):
    for i in range(x.shape[0]):
        u, v = x[i], y[i]
        for c in range(scale.size):
            v[c] = stored(((number(u[c]) - high[c]) - low[c]) * scale[c] + shift[c], kind)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _apply(x, y, kind, stats, b, gamma, beta, moderate):
    C = x.shape[1]
    D = C // stats.shape[2]
    scale, shift = np.empty(C, gamma.dtype), np.empty(C, gamma.dtype)
    high, low = np.empty(C, gamma.dtype), np.empty(C, gamma.dtype)
    for c in range(C):
        g = c // D
        high[c], low[c], scale[c], shift[c] = stats[0, b, g], stats[1, b, g], stats[2, b, g] * gamma[c], beta[c]
    if moderate:
        for c in range(C):
            shift[c] -= (high[c] + low[c]) * scale[c]
        _affine(x, y, kind, scale, shift)
    else:
        _deviations(x, y, kind, high, low, scale, shift)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def forward(kind, real, B, C, N, G, rows_of_w, threads, x_at, w_at, gamma_at, beta_at, eps, centre, y_at, stats_at):
    """Write y and the statistics (3, B, G)."""
    x, y = carray(pointer(x_at, kind), (B, N, C)), carray(pointer(y_at, kind), (B, N, C))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, beta = carray(pointer(gamma_at, real), (C,)), carray(pointer(beta_at, real), (C,))
    R = max(1, min(BLOCK // C, RUN))
    K = (N + R - 1) // R
    masses = _masses(w, R)
    entries = max(1, threads * NEAR // (N * C))
    means, seconds = np.empty((entries * K, C)), np.empty((entries * K, C))
    moderate = np.empty(entries, np.bool_)
    for b0 in range(0, B, entries):
        e = min(entries, B - b0)
        for t in prange(e * K):
            b, k = b0 + t // K, t % K
            i, j, own = k * R, min((k + 1) * R, N), b if rows_of_w > 1 else 0
            _block_moments(x[b, i:j], w[own, i:j], masses[own, k], centre, means[t], seconds[t])
        for a in range(e):
            own = b0 + a if rows_of_w > 1 else 0
            _merge_blocks(masses[own], means[a * K : (a + 1) * K], seconds[a * K : (a + 1) * K], centre)
            _merge_channels(means[a * K], seconds[a * K], eps, centre, stats, b0 + a)
            moderate[a] = _is_moderate(stats, b0 + a, eps)
        for t in prange(e * K):
            b, k = b0 + t // K, t % K
            i, j = k * R, min((k + 1) * R, N)
            _apply(x[b, i:j], y[b, i:j], kind, stats, b, gamma, beta, moderate[t // K])


@njit(fastmath=_SUM, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _gradient_sums(x, g, high, a, b):
    """Σ g and Σ g·(x − high) of each channel of a block."""
    n, C = x.shape
    for c in range(C):
        a[c] = 0
        b[c] = 0
    for i in range(0, n - 3, 4):
        x0, x1, x2, x3, g0, g1, g2, g3 = x[i], x[i + 1], x[i + 2], x[i + 3], g[i], g[i + 1], g[i + 2], g[i + 3]
        for k in range(AHEAD, AHEAD + 4 * C * x.itemsize, 64):
            prefetch(x0, k)
            prefetch(g0, k)
        for c in range(C):
            q = high[c]
            h0, h1, h2, h3 = number(g0[c]), number(g1[c]), number(g2[c]), number(g3[c])
            d0, d1, d2, d3 = number(x0[c]) - q, number(x1[c]) - q, number(x2[c]) - q, number(x3[c]) - q
            a[c] += (h0 + h1) + (h2 + h3)
            b[c] += (h0 * d0 + h1 * d1) + (h2 * d2 + h3 * d3)
    for i in range(n - n % 4, n):
        for c in range(C):
            a[c] += number(g[i, c])
            b[c] += number(g[i, c]) * (number(x[i, c]) - high[c])


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _gradient(x, g, w, dx, kind, high, scale, a, b):
    for i in range(x.shape[0]):
        xs, gs, ds, v = x[i], g[i], dx[i], w[i]
        for c in range(scale.size):
            ds[c] = stored(scale[c] * number(gs[c]) - v * (a[c] + b[c] * (number(xs[c]) - high[c])), kind)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _coefficients(stats, sums, gamma, b, centre, folded):
    """The sums of each group, folded into dx = scale·g − w·(a + b·(x − high)): (4, C), high, scale, a and b."""
    G, C = stats.shape[2], gamma.size
    D = C // G
    for g in range(G):
        low, rstd = np.float64(stats[1, b, g]), np.float64(stats[2, b, g])
        h, hx = 0.0, 0.0
        for c in range(g * D, (g + 1) * D):
            h += np.float64(sums[0, b, c]) * np.float64(gamma[c])
            hx += np.float64(sums[1, b, c]) * np.float64(gamma[c])
        slope = rstd * rstd * hx / D
        offset = (rstd * h / D if centre else 0.0) - slope * low
        for c in range(g * D, (g + 1) * D):
            folded[0, c], folded[1, c] = stats[0, b, g], stats[2, b, g] * gamma[c]
            folded[2, c], folded[3, c] = offset, slope


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def backward(
    kind, real, B, C, N, G, rows_of_w, threads, g_at, x_at, w_at, gamma_at, stats_at, centre, dx_at, sums_at, dbeta_at,
    dgamma_at,
):  # fmt: skip
    """Write dx, the sums Σ g and Σ g·ŷ (2, B, C), and these over the batch too, (C,) each."""
    g, x = carray(pointer(g_at, kind), (B, N, C)), carray(pointer(x_at, kind), (B, N, C))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, dx = carray(pointer(gamma_at, real), (C,)), carray(pointer(dx_at, kind), (B, N, C))
    sums = carray(pointer(sums_at, real), (2, B, C))
    dbeta, dgamma = carray(pointer(dbeta_at, real), (C,)), carray(pointer(dgamma_at, real), (C,))
    D = C // G
    R = max(1, min(BLOCK // (2 * C), RUN))
    K = (N + R - 1) // R
    entries = max(1, threads * NEAR // (2 * N * C))
    parts = np.empty((entries * K, 2, C), w.dtype)
    folded, high = np.empty((entries, 4, C), w.dtype), np.empty((entries, C), w.dtype)
    for b0 in range(0, B, entries):
        e = min(entries, B - b0)
        for a in range(e):
            for c in range(C):
                high[a, c] = stats[0, b0 + a, c // D]
        for t in prange(e * K):
            b, k = b0 + t // K, t % K
            i, j = k * R, min((k + 1) * R, N)
            _gradient_sums(x[b, i:j], g[b, i:j], high[t // K], parts[t, 0], parts[t, 1])
        for a in range(e):
            b = b0 + a
            for c in range(C):
                s, sx = 0.0, 0.0
                for k in range(a * K, (a + 1) * K):
                    s += np.float64(parts[k, 0, c])
                    sx += np.float64(parts[k, 1, c])
                sums[0, b, c] = s
                sums[1, b, c] = (sx - np.float64(stats[1, b, c // D]) * s) * np.float64(stats[2, b, c // D])
            _coefficients(stats, sums, gamma, b, centre, folded[a])
        for t in prange(e * K):
            b, k = b0 + t // K, t % K
            i, j, f = k * R, min((k + 1) * R, N), folded[t // K]
            own = b if rows_of_w > 1 else 0
            _gradient(x[b, i:j], g[b, i:j], w[own, i:j], dx[b, i:j], kind, f[0], f[1], f[2], f[3])
    for c in range(C):
        s, sx = 0.0, 0.0
        for b in range(B):
            s += np.float64(sums[0, b, c])
            sx += np.float64(sums[1, b, c])
        dbeta[c], dgamma[c] = s, sx
