"""Rules on nodes of their own: Gauss–Legendre, Gauss–Lobatto and Clenshaw–Curtis, moved to [0, 1]."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor


def gauss_legendre(n: int) -> Tensor:
    """Gauss–Legendre: nodes are the roots of Pₙ, moved to [0, 1].

    Exact to degree 2n−1; converges faster than any power for smooth functions. Positive. Both ends are missing.
    """
    return _tensor(_gauss_legendre(n)[1])


def gauss_legendre_nodes(n: int) -> Tensor:
    """Roots of Pₙ on [0, 1]."""
    return _tensor(_gauss_legendre(n)[0])


def gauss_lobatto(n: int) -> Tensor:
    """Gauss–Lobatto: both ends and the roots of P′ₙ₋₁, moved to [0, 1].

    Exact to degree 2n−3; converges faster than any power for smooth functions. Positive.
    """
    return _tensor(_gauss_lobatto(n)[1])


def gauss_lobatto_nodes(n: int) -> Tensor:
    """Both ends and the roots of P′ₙ₋₁ on [0, 1]."""
    return _tensor(_gauss_lobatto(n)[0])


def clenshaw_curtis(n: int) -> Tensor:
    """Clenshaw–Curtis: Chebyshev extreme points (1−cos(πj/(n−1)))/2, both ends included.

    Exact to degree n−1 (n for odd n, by symmetry); converges faster than any power for smooth functions. Positive.
    """
    if n == 1:
        return _one(1.0)
    N = n - 1
    # w_j = (c_j/N)·[1 − Σ_k b_k cos(2πjk/N)/(4k²−1)] integrates the Chebyshev interpolant; its cosine sum is a DFT.
    k = np.arange(N // 2 + 1)
    b = np.where(k == 0, 1.0, np.where(2 * k == N, 1.0, 2.0)) / (1 - 4.0 * k**2)
    w = np.fft.irfft(_half_spectrum(b, N), N) if N > 1 else np.ones(1)
    w = np.append(w, w[0])
    w[0] /= 2
    w[-1] /= 2
    return torch.from_numpy(w / w.sum())


def _half_spectrum(b: np.ndarray, N: int) -> np.ndarray:
    """Coefficients b_k of Σ b_k cos(2πjk/N), as the half spectrum that ``irfft`` expects."""
    spectrum = b.copy()
    spectrum[1:] /= 2
    if N % 2 == 0:
        spectrum[-1] *= 2
    return spectrum * N


def clenshaw_curtis_nodes(n: int) -> Tensor:
    """(1−cos(πj/(n−1)))/2, written as sin² so that the nodes are exactly symmetric near both ends."""
    if n == 1:
        return _one(0.5)
    return torch.sin(torch.arange(n, dtype=torch.float64, device="cpu") * (torch.pi / (2 * (n - 1)))) ** 2


def _tensor(values: np.ndarray) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device="cpu")


def _one(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64, device="cpu")


def _legendre(n: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pₙ₋₁(x) and Pₙ(x) by the three-term recurrence."""
    before, p = np.ones_like(x), x
    for k in range(2, n + 1):
        before, p = p, ((2 * k - 1) * x * p - (k - 1) * before) / k
    return before, p


def _on_unit_interval(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, w = (x - x[::-1]) / 2, (w + w[::-1]) / 2  # the rules are symmetric; rounding should not say otherwise
    return (1 + x) / 2, w / w.sum()


# Newton from asymptotic guesses costs O(n²); numpy's leggauss solves an n×n eigenproblem, O(n³). Arrays are kept, not
# tensors: one made under a tracer or a transform would mean nothing to the next caller.
@lru_cache(maxsize=64)
def _gauss_legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    if n == 1:
        return np.array([0.5]), np.array([1.0])
    x = -np.cos(np.pi * (np.arange(n) + 0.75) / (n + 0.5))
    for _ in range(100):
        before, p = _legendre(n, x)
        slope = n * (before - x * p) / (1 - x**2)
        x, step = x - p / slope, np.abs(p / slope).max()
        if step < 1e-15:
            break
    before, p = _legendre(n, x)
    slope = n * (before - x * p) / (1 - x**2)
    return _on_unit_interval(x, 2 / ((1 - x**2) * slope**2))


@lru_cache(maxsize=64)
def _gauss_lobatto(n: int) -> tuple[np.ndarray, np.ndarray]:
    if n == 1:
        return np.array([0.5]), np.array([1.0])
    x = -np.cos(np.pi * np.arange(n) / (n - 1))
    for _ in range(100):
        before, p = _legendre(n - 1, x)
        move = (x * p - before) / (n * p)  # vanishes at ±1, where P_{n−1} = x·P_{n−2} up to sign
        x, step = x - move, np.abs(move).max()
        if step < 1e-15:
            break
    p = _legendre(n - 1, x)[1]
    return _on_unit_interval(x, 2 / (n * (n - 1) * p**2))
