"""The CPU kernel for contiguous x (B, C, N): weighted moments in one sweep, the output in another.

Numbers: lanes run in the input's precision, every block of samples ends in float64, blocks and channels are merged by
Chan's formula. Reassociation is allowed only inside sums; infinities and NaN keep their meaning, and a division by zero
gives them instead of an exception. A mean is stored as high + low part, so that (x − high) − low is right even where
the mean is 10⁵ standard deviations.

Programs are given addresses and sizes: making arrays of torch's tensors in Python would cost as much as a small norm.
``kind`` is a number like those of x and y (uint16 stands for bfloat16), ``real`` one like those of w, γ, β and the
statistics; they differ for bfloat16 only. ``rows_of_w`` is 1 or B. No number depends on ``threads``.

Helpers are inlined by force. Without that, the process that compiled the kernel and the next one, which loaded it from
the disk cache, gave sums that differed in their last bits: presumably they ran separately compiled copies of a helper,
with other orders of summation. ``tests/norms/kernels/test_history.py`` checks it. They stay in this file: numba's disk
cache notices a change of the file that a kernel stands in, and of no other.
"""

import math

import numpy as np
from numba import carray, njit, prange  # type: ignore[attr-defined]

from quadnorm.norms.kernels.numba.numbers import number, pointer, stored

BLOCK = 16384  # samples per partial sum: 64 KiB of float32, so the second pass over a block finds it in the L2 cache

# 'reassoc' lets sums run in vector lanes; 'nnan' and 'ninf' stay off, since NaN must reach its own sample's output.
_SUM = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _pivot(x, w):
    """A typical sample of the block: the median of three that are there. Constant fields deviate by exactly 0."""
    n = x.size
    a = number(x[0])
    seen, b, c = 0, a, a
    for third in range(3):
        k = n * (2 * third + 1) // 6
        while k < n - 1 and w[k] == 0:
            k += 1
        if w[k] == 0:
            continue
        a, b, c = b, c, number(x[k])
        seen += 1
    if seen == 0:
        k = 0
        while k < n - 1 and w[k] == 0:
            k += 1
        return number(x[k])
    if seen < 3:
        return c
    return max(min(a, b), min(max(a, b), c))


@njit(fastmath=_SUM, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _moments(x, w, mass, centre):
    """Mass, mean and second central moment of one block (second raw moment without centring), in float64."""
    zero = w[0] - w[0]
    first, second = zero, zero
    if not centre:
        for i in range(x.size):
            v = number(x[i])
            second += w[i] * v * v
        return mass, 0.0, np.float64(second)
    if mass == 0:
        return 0.0, 0.0, 0.0
    p = _pivot(x, w)
    for i in range(x.size):
        d = number(x[i]) - p
        wd = w[i] * d
        first += wd
        second += wd * d
    shift = np.float64(first) / mass
    mean = np.float64(p) + shift
    if mass * shift * shift > 0.75 * np.float64(second):
        # The pivot is far from the mean, so the difference below would cancel: go again, from the mean itself.
        p = w.dtype.type(mean)
        second = zero
        for i in range(x.size):
            d = number(x[i]) - p
            second += w[i] * d * d
        shift = mean - np.float64(p)
    if second == np.inf:
        return mass, mean, np.inf  # ∞ − ∞ would make it NaN
    spread = np.float64(second) - mass * shift * shift
    return mass, mean, 0.0 if spread < 0 else spread


@njit(fastmath=_SUM, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _masses(w):
    """Sums of the weights (1 or B, N) block by block: once for all channels."""
    K = (w.shape[1] + BLOCK - 1) // BLOCK
    out = np.zeros((w.shape[0], K))
    for b in range(w.shape[0]):
        for k in range(K):
            mass = w[b, 0] - w[b, 0]
            for i in range(k * BLOCK, min((k + 1) * BLOCK, w.shape[1])):
                mass += w[b, i]
            out[b, k] = mass
    return out


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _merge(parts, k0, k1, centre):
    """Mean and variance of the union of the blocks k0 … k1−1, each (mass, mean, second moment)."""
    mass, mean, second = 0.0, 0.0, 0.0
    for k in range(k0, k1):
        m = parts[k, 0]
        if m == 0:
            continue
        both = mass + m
        delta = parts[k, 1] - mean
        if mass == 0:
            mean = parts[k, 1]  # exactly, so that a constant field deviates from its mean by nothing
        elif centre:
            mean += delta * (m / both)
        second += parts[k, 2]
        if centre and mass > 0:
            second += delta * delta * (mass * m / both)
        mass = both
    return mean, (second / mass if mass > 0 else 0.0)


@njit(fastmath={"contract"}, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _apply(x, y, kind, high, low, scale, shift, moderate):
    if moderate:
        offset = shift - (high + low) * scale
        for i in range(x.size):
            y[i] = stored(number(x[i]) * scale + offset, kind)
    else:
        for i in range(x.size):
            y[i] = stored(((number(x[i]) - high) - low) * scale + shift, kind)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _is_moderate(high, rstd, eps):
    """Whether a·x + b is as good as (x − μ)·rstd: the mean is at most a few deviations of a field that varies."""
    spread = 1 / (np.float64(rstd) * np.float64(rstd))  # variance + ε
    return np.float64(high) * np.float64(high) <= 16 * spread and spread - eps >= 1e-3 * eps


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _store(stats, b, g, mean, variance, eps):
    high = stats.dtype.type(mean)
    stats[0, b, g] = high
    stats[1, b, g] = mean - np.float64(high)
    stats[2, b, g] = 1 / math.sqrt(variance + eps)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _channel_moments(x, w, masses, parts, at, centre):
    for k in range((x.size + BLOCK - 1) // BLOCK):
        i, j = k * BLOCK, min((k + 1) * BLOCK, x.size)
        parts[at + k, 0], parts[at + k, 1], parts[at + k, 2] = _moments(x[i:j], w[i:j], masses[k], centre)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def forward_rows(
    kind, real, B, C, N, G, rows_of_w, threads, x_at, w_at, gamma_at, beta_at, eps, centre, y_at, stats_at
):
    """One task per (batch entry, group): statistics, then the output while the row is still in the cache.

    Too few or unevenly many rows would leave threads idle: these are for :func:`forward_blocks`.
    """
    x, y = carray(pointer(x_at, kind), (B, C, N)), carray(pointer(y_at, kind), (B, C, N))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, beta = carray(pointer(gamma_at, real), (C,)), carray(pointer(beta_at, real), (C,))
    D, K = C // G, (N + BLOCK - 1) // BLOCK
    parts = np.empty((B * C * K, 3))
    masses = _masses(w)
    for row in prange(B * G):
        b, g = row // G, row % G
        own = b if rows_of_w > 1 else 0
        for c in range(D):
            _channel_moments(x[b, g * D + c], w[own], masses[own], parts, (row * D + c) * K, centre)
        mean, variance = _merge(parts, row * D * K, (row + 1) * D * K, centre)
        _store(stats, b, g, mean, variance, eps)
        high, low, rstd = stats[0, b, g], stats[1, b, g], stats[2, b, g]
        moderate = _is_moderate(high, rstd, eps)
        for c in range((g + 1) * D - 1, g * D - 1, -1):  # backwards: the last channels are still in the cache
            _apply(x[b, c], y[b, c], kind, high, low, rstd * gamma[c], beta[c], moderate)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def forward_blocks(
    kind, real, B, C, N, G, rows_of_w, threads, x_at, w_at, gamma_at, beta_at, eps, centre, y_at, stats_at
):
    """One task per block of samples, for few or uneven rows: all statistics first, then all outputs."""
    x, y = carray(pointer(x_at, kind), (B, C, N)), carray(pointer(y_at, kind), (B, C, N))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, beta = carray(pointer(gamma_at, real), (C,)), carray(pointer(beta_at, real), (C,))
    D, K = C // G, (N + BLOCK - 1) // BLOCK
    parts = np.empty((B * C * K, 3))
    masses = _masses(w)
    for t in prange(B * C * K):
        bc, k = t // K, t % K
        b, c = bc // C, bc % C
        i, j = k * BLOCK, min((k + 1) * BLOCK, N)
        own = b if rows_of_w > 1 else 0
        parts[t, 0], parts[t, 1], parts[t, 2] = _moments(x[b, c, i:j], w[own, i:j], masses[own, k], centre)
    for row in range(B * G):
        mean, variance = _merge(parts, row * D * K, (row + 1) * D * K, centre)
        _store(stats, row // G, row % G, mean, variance, eps)
    for t in prange(B * C * K):
        bc, k = t // K, t % K
        b, c = bc // C, bc % C
        g = c // D
        i, j = k * BLOCK, min((k + 1) * BLOCK, N)
        high, rstd = stats[0, b, g], stats[2, b, g]
        moderate = _is_moderate(high, rstd, eps)
        _apply(x[b, c, i:j], y[b, c, i:j], kind, high, stats[1, b, g], rstd * gamma[c], beta[c], moderate)


@njit(fastmath=_SUM, nogil=True, cache=True, error_model="numpy", forceinline=True)
def _sums(x, g, high):
    """Σ g and Σ g·(x − high) of one block."""
    zero = high - high
    a, b = zero, zero
    for i in range(x.size):
        h = number(g[i])
        a += h
        b += h * (number(x[i]) - high)
    return np.float64(a), np.float64(b)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _gradient(x, g, w, dx, kind, high, scale, a, b):
    for i in range(x.size):
        dx[i] = stored(scale * number(g[i]) - w[i] * (a + b * (number(x[i]) - high)), kind)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _coefficients(stats, sums, gamma, b, g, D, centre):
    """The group's two sums, folded into dx = rstd·γ·g − w·(a + b·(x − high))."""
    low, rstd = np.float64(stats[1, b, g]), np.float64(stats[2, b, g])
    h, hx = 0.0, 0.0
    for c in range(g * D, (g + 1) * D):
        h += sums[0, b, c] * np.float64(gamma[c])
        hx += sums[1, b, c] * np.float64(gamma[c])
    slope = rstd * rstd * hx / D
    offset = (rstd * h / D if centre else 0.0) - slope * low
    return stats.dtype.type(offset), stats.dtype.type(slope)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _over_batch(sums, dbeta, dgamma):
    for c in range(sums.shape[2]):
        s, sx = 0.0, 0.0
        for b in range(sums.shape[1]):
            s += np.float64(sums[0, b, c])
            sx += np.float64(sums[1, b, c])
        dbeta[c], dgamma[c] = s, sx


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def backward_rows(
    kind,
    real,
    B,
    C,
    N,
    G,
    rows_of_w,
    threads,
    g_at,
    x_at,
    w_at,
    gamma_at,
    stats_at,
    centre,
    dx_at,
    sums_at,
    dbeta_at,
    dgamma_at,
):
    """One task per (batch entry, group)."""
    g, x = carray(pointer(g_at, kind), (B, C, N)), carray(pointer(x_at, kind), (B, C, N))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, dx = carray(pointer(gamma_at, real), (C,)), carray(pointer(dx_at, kind), (B, C, N))
    sums = carray(pointer(sums_at, real), (2, B, C))
    dbeta, dgamma = carray(pointer(dbeta_at, real), (C,)), carray(pointer(dgamma_at, real), (C,))
    D = C // G
    for row in prange(B * G):
        b, group = row // G, row % G
        high, low, rstd = stats[0, b, group], np.float64(stats[1, b, group]), np.float64(stats[2, b, group])
        for c in range(group * D, (group + 1) * D):
            s, sx = 0.0, 0.0
            for i in range(0, N, BLOCK):
                p, q = _sums(x[b, c, i : i + BLOCK], g[b, c, i : i + BLOCK], high)
                s += p
                sx += q
            sums[0, b, c] = s
            sums[1, b, c] = (sx - low * s) * rstd
        offset, slope = _coefficients(stats, sums, gamma, b, group, D, centre)
        ws = w[b if rows_of_w > 1 else 0]
        for c in range((group + 1) * D - 1, group * D - 1, -1):
            _gradient(x[b, c], g[b, c], ws, dx[b, c], kind, high, stats[2, b, group] * gamma[c], offset, slope)
    _over_batch(sums, dbeta, dgamma)


@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def backward_blocks(
    kind,
    real,
    B,
    C,
    N,
    G,
    rows_of_w,
    threads,
    g_at,
    x_at,
    w_at,
    gamma_at,
    stats_at,
    centre,
    dx_at,
    sums_at,
    dbeta_at,
    dgamma_at,
):
    """One task per block of samples, for few or uneven rows."""
    g, x = carray(pointer(g_at, kind), (B, C, N)), carray(pointer(x_at, kind), (B, C, N))
    w, stats = carray(pointer(w_at, real), (rows_of_w, N)), carray(pointer(stats_at, real), (3, B, G))
    gamma, dx = carray(pointer(gamma_at, real), (C,)), carray(pointer(dx_at, kind), (B, C, N))
    sums = carray(pointer(sums_at, real), (2, B, C))
    dbeta, dgamma = carray(pointer(dbeta_at, real), (C,)), carray(pointer(dgamma_at, real), (C,))
    D, K = C // G, (N + BLOCK - 1) // BLOCK
    parts = np.empty((B * C * K, 2))
    for t in prange(B * C * K):
        bc, k = t // K, t % K
        b, c = bc // C, bc % C
        i, j = k * BLOCK, min((k + 1) * BLOCK, N)
        parts[t, 0], parts[t, 1] = _sums(x[b, c, i:j], g[b, c, i:j], stats[0, b, c // D])
    for bc in range(B * C):
        b, c = bc // C, bc % C
        s, sx = 0.0, 0.0
        for k in range(bc * K, (bc + 1) * K):
            s += parts[k, 0]
            sx += parts[k, 1]
        sums[0, b, c] = s
        sums[1, b, c] = (sx - np.float64(stats[1, b, c // D]) * s) * np.float64(stats[2, b, c // D])
    _over_batch(sums, dbeta, dgamma)
    folded = np.empty((2, B, G), dtype=w.dtype)
    for row in range(B * G):
        offset, slope = _coefficients(stats, sums, gamma, row // G, row % G, D, centre)
        folded[0, row // G, row % G] = offset
        folded[1, row // G, row % G] = slope
    for t in prange(B * C * K):
        bc, k = t // K, t % K
        b, c = bc // C, bc % C
        r = c // D
        i, j = k * BLOCK, min((k + 1) * BLOCK, N)
        ws = w[b if rows_of_w > 1 else 0, i:j]
        scale = stats[2, b, r] * gamma[c]
        _gradient(
            x[b, c, i:j], g[b, c, i:j], ws, dx[b, c, i:j], kind, stats[0, b, r], scale, folded[0, b, r], folded[1, b, r]
        )
