"""Gaussian random fields as finite cosine series, evaluated exactly at the nodes of any grid.

    g(x, y) = Σ c(k,l) ξ(k,l) φ(k,x) φ(l,y),   k, l = 0…M−1,  φ(0,·) = 1,  φ(k,t) = √2 cos(kπt),  ξ ~ N(0, 1)

with c(k,l) = τ^(α−1) (π²(k²+l²) + τ²)^(−α/2) and c(0,0) = 0: covariance ∝ (−Δ + τ²)^(−α) with Neumann conditions, the
law of the public Darcy data for α = 2, τ = 3 (there on cell centres; a series has no preferred nodes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quadnorm.measures.placement import placement_of
from quadnorm.problems.solvers.products import sandwich

F64 = npt.NDArray[np.float64]


def amplitudes(modes: int, alpha: float, tau: float) -> F64:
    """Standard deviations c(k,l) of the coefficients in the orthonormal cosine basis, (M, M)."""
    k = np.arange(modes, dtype=np.float64)
    c: F64 = tau ** (alpha - 1) * (np.pi**2 * (k[:, None] ** 2 + k**2) + tau**2) ** (-alpha / 2)
    c[0, 0] = 0.0
    return c


def draw(streams: Sequence[np.random.Generator], amplitude: F64) -> F64:
    """Coefficients (B, M, M) in the orthonormal cosine basis, one stream per sample."""
    out = np.empty((len(streams), *amplitude.shape))
    for row, rng in zip(out, streams, strict=True):
        rng.standard_normal(out=row)
        row *= amplitude
    return out


def on_fine_grid(coefficients: F64, n: int) -> F64:
    """The field of one sample, coefficients (M, M), at n×n endpoint-inclusive nodes: (n, n), by a DCT-I.

    >>> c = np.zeros((3, 3)); c[2, 0] = 1.0
    >>> np.round(on_fine_grid(c, 5)[:, 0] / np.sqrt(2), 12).tolist()  # cos(2πx)
    [1.0, 0.0, -1.0, 0.0, 1.0]
    """
    try:
        from scipy.fft import dctn
    except ImportError as error:
        raise ImportError("random fields need scipy: pip install 'quadnorm[bench]'") from error
    c = _fold(_fold(_weighted(coefficients), n).T, n).T  # (n, n)
    # scipy's DCT-I counts the middle modes twice and the two outer ones once.
    half = np.full(n, 0.5)
    half[[0, -1]] = 1.0
    values: F64 = dctn(c * half[:, None] * half, type=1)
    return values


def at_nodes(coefficients: F64, placement: str, shape: tuple[int, int]) -> F64:
    """The fields with coefficients (B, M, M) at the nodes of a grid, (B, *shape), by two matrix products."""
    m = coefficients.shape[-1]
    x, y = (cosines(placement, n, m) for n in shape)
    return sandwich(x, _weighted(coefficients), y)


def cosines(placement: str, n: int, modes: int, first: int = 0) -> F64:
    """cos(kπx) at the n nodes of an axis, (n, modes), k = first, first+1, … The angle is reduced in integers."""
    numerator, denominator = placement_of(placement).fractions(n)
    k = np.arange(first, first + modes, dtype=np.int64)
    turn = (numerator[:, None] * k) % (2 * denominator)  # in units of π/denominator
    turn = np.minimum(turn, 2 * denominator - turn)  # cos(2π − t) = cos t
    flip = 2 * turn > denominator  # cos(π − t) = −cos t
    small = np.where(flip, denominator - turn, turn)
    # cos t = sin(π/2 − t): exact zeros where the cosine vanishes
    value = np.sin(np.pi * ((denominator - 2 * small) / (2 * denominator)))
    out: F64 = np.where(flip, -value, value)
    return out


def sines(placement: str, n: int, modes: int) -> F64:
    """sin(kπx) at the n nodes of an axis, (n, modes), k = 1, 2, …; exactly 0 where it vanishes, as on a boundary."""
    numerator, denominator = placement_of(placement).fractions(n)
    k = np.arange(1, modes + 1, dtype=np.int64)
    turn = (numerator[:, None] * k) % (2 * denominator)
    sign = np.where(turn > denominator, -1.0, 1.0)  # sin(2π − t) = −sin t
    turn = np.where(turn > denominator, 2 * denominator - turn, turn)
    turn = np.minimum(turn, denominator - turn)  # sin(π − t) = sin t
    out: F64 = sign * np.sin(np.pi * (turn / denominator))
    return out


def _weighted(coefficients: F64) -> F64:
    """From the orthonormal basis φ to plain cosines."""
    root = np.full(coefficients.shape[-1], np.sqrt(2.0))
    root[0] = 1.0
    out: F64 = coefficients * (root[:, None] * root)
    return out


def _fold(c: F64, n: int) -> F64:
    """Add up the modes of axis 0 that are equal at the n endpoint-inclusive nodes: (M, …) to (n, …).

    Mode k and mode 2(n−1)q ± k agree at j/(n−1) for every j.
    """
    period = 2 * (n - 1)
    k = np.arange(len(c)) % period
    k = np.minimum(k, period - k)
    if len(c) <= n:
        out = np.zeros((n, *c.shape[1:]))
        out[: len(c)] = c
        return out
    out = np.zeros((n, *c.shape[1:]))
    np.add.at(out, k, c)
    return out
