"""Interpolation along one axis: from values at m equispaced nodes to values at n others, as a matrix or an index.

Everything is written in tensor operations on the sizes, so that it can be traced with symbolic ones. Where a new node
lies among the old ones is known exactly (:func:`quadnorm.measures.placement.among`): ``low`` is the old node at or
before it, ``part`` in [0, 1) the rest of the way to the next.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.measures.placement import PLACEMENTS, among

METHODS = ("cubic", "linear", "nearest", "bicubic", "antialias", "mean")
KEEP_SAMPLES = ("cubic", "linear", "nearest", "bicubic")  # a new node that is an old one takes its value


class Axis1D(NamedTuple):
    """From m nodes placed by ``source`` to n nodes placed by ``target``."""

    source: str
    m: int
    target: str
    n: int

    @property
    def wraps(self) -> bool:
        return PLACEMENTS[self.source].wraps


def nearest(axis: Axis1D, device: torch.device | str = "cpu") -> Tensor:
    """Index (n,) of the old node nearest to each new one, ties to the even index; exact.

    >>> nearest(Axis1D("endpoint", 9, "endpoint", 5)).tolist(), nearest(Axis1D("cell", 9, "cell", 3)).tolist()
    ([0, 2, 4, 6, 8], [1, 4, 7])
    """
    a, b = among(*axis, torch.arange(axis.n, device=device))
    low = a // b
    twice = 2 * (a - b * low)
    index: Tensor = low + ((twice > b) | ((twice == b) & (low % 2 == 1)))
    return index % axis.m if axis.wraps else index.clamp(0, axis.m - 1)


def matrix(axis: Axis1D, method: str, device: torch.device | str = "cpu") -> Tensor:
    """M (n, m) float64: values at the old nodes to values at the new ones. With the methods of ``KEEP_SAMPLES`` a new
    node that is an old one takes its value exactly. For ``cubic`` on an axis that wraps around :func:`fourier` does the
    same with less work.
    """
    if method == "mean":
        return _means(axis, device)
    if method == "antialias" and axis.n < axis.m:
        return _least_squares(axis, device)
    a, b = among(*axis, torch.arange(axis.n, device=device))
    low = a // b
    part = (a - b * low).to(torch.float64) / b
    return matrix_at(low, part, axis.m, method, axis.wraps)


def matrix_at(low: Tensor, part: Tensor, m: int, method: str, wraps: bool) -> Tensor:
    """M (P, m) float64 for any places: ``part`` of the way from the old node ``low`` to the next.

    >>> matrix_at(torch.tensor([0, 1]), torch.tensor([0.5, 0.0]), 3, "linear", wraps=False)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 1.0000, 0.0000]], dtype=torch.float64)
    """
    if method == "bicubic":
        return _cubic_convolution(low, part, m, wraps)
    if method in ("linear", "mean"):
        return _linear(low, part, m, wraps)
    if method in ("cubic", "antialias"):
        return _dirichlet(low, part, m) if wraps else spline(low, part, m)
    raise ValueError(unknown("way to interpolate", method, METHODS))


def _least_squares(axis: Axis1D, device: torch.device | str = "cpu") -> Tensor:
    """The samples on the coarser axis whose interpolation P to the finer one is nearest to the field: (PᵀP)⁻¹Pᵀ.

    What the coarser samples can hold stays what it is (M P = 1); what they cannot is taken out instead of being folded
    into it. On periodic axes this cuts the Fourier series off.
    """
    there = matrix(Axis1D(axis.target, axis.n, axis.source, axis.m), "cubic", device)
    inverse: Tensor = torch.linalg.pinv(there)
    return inverse


def _means(axis: Axis1D, device: torch.device | str = "cpu") -> Tensor:
    """The mean over each new sample's cell of the field that is constant on each old one; a sample's cell is what lies
    nearer to it than to any other. Conservative: cells' sizes times values have the same sum before and after."""
    old, new = _cells(axis.source, axis.m, device), _cells(axis.target, axis.n, device)
    shifts = (-1.0, 0.0, 1.0) if axis.wraps else (0.0,)
    overlap = torch.zeros(axis.n, axis.m, dtype=torch.float64, device=device)
    for shift in shifts:
        low = torch.maximum(new[0][:, None], old[0] + shift)
        high = torch.minimum(new[1][:, None], old[1] + shift)
        overlap = overlap + (high - low).clamp_min(0)
    return overlap / overlap.sum(1, keepdim=True)


def _cells(placement: str, n: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Left and right ends of the cells of an axis' samples."""
    nodes = PLACEMENTS[placement].nodes(n).to(device)
    between = (nodes[1:] + nodes[:-1]) / 2
    if PLACEMENTS[placement].wraps:
        half = torch.full((1,), 0.5 / n, dtype=torch.float64, device=device)
        return nodes - half, nodes + half
    zero, one = (torch.full((1,), v, dtype=torch.float64, device=device) for v in (0.0, 1.0))
    return torch.cat([zero, between]), torch.cat([between, one])


def _linear(low: Tensor, part: Tensor, m: int, wraps: bool) -> Tensor:
    if m == 1:
        return torch.ones(low.shape[0], 1, dtype=torch.float64, device=low.device)
    if wraps:
        return _one_hot(low % m, m) * (1 - part)[:, None] + _one_hot((low + 1) % m, m) * part[:, None]
    low, part = _inside(low, part, m)
    return _one_hot(low, m) * (1 - part)[:, None] + _one_hot(low + 1, m) * part[:, None]


def spline(low: Tensor, part: Tensor, m: int) -> Tensor:
    """The cubic spline through equispaced values, "not a knot" at its ends; below four nodes the polynomial."""
    if m < 4:
        at = low + part
        factors = [[(at - j) / (i - j) for j in range(m) if j != i] for i in range(m)]
        return torch.stack([torch.stack([torch.ones_like(at), *f]).prod(0) for f in factors], 1)
    low, part = _inside(low, part, m)
    rest = 1 - part
    here, after = _second_derivatives(m, low), _second_derivatives(m, low + 1)
    curve = (rest**3 - rest)[:, None] * here + (part**3 - part)[:, None] * after
    return _one_hot(low, m) * rest[:, None] + _one_hot(low + 1, m) * part[:, None] + curve / 6


def _second_derivatives(m: int, at: Tensor) -> Tensor:
    """The matrix (P, m) from m ≥ 4 values with spacing 1 to the spline's second derivatives at the nodes ``at`` (P,).

    Inside, M_{k−1} + 4 M_k + M_{k+1} = 6 δ_k with δ_k = f_{k−1} − 2f_k + f_{k+1}. At both ends the third derivative is
    continuous at the second node, M_0 − 2M_1 + M_2 = 0, which makes M_1 = δ_1 and M_{m−2} = δ_{m−2}. Between these two
    the inverse of the tridiagonal matrix is known: with z = √3 − 2 and images at both ends,

        G_pq = (z^|p−q| − z^(p+q) − z^(2L−p−q) + z^(2L−|p−q|)) / (2√3 (1 − z^2L)),   0 ≤ p, q ≤ L = m − 3.

    G vanishes at p, q = 0 and L; there z^p and z^(L−p) (with images) carry the known values inside.
    """
    end = ((at == 0) | (at == m - 1))[:, None]
    inside = _second_derivatives_inside(m, (at - 1).clamp(0, m - 3))
    beyond = _second_derivatives_inside(m, (at - 1).clamp(1, m - 4)) if m > 4 else inside.flip(1)
    return torch.where(end, 2 * inside - beyond, inside)


def _second_derivatives_inside(m: int, at: Tensor) -> Tensor:
    """The rows (P, m) of the nodes 1 + ``at``, at = 0 … m − 3."""
    L = m - 3
    z = 2 - sqrt(3.0)  # the sign is in `sign`
    p, q = at.double()[:, None], torch.arange(m - 2, dtype=torch.float64, device=at.device)
    apart, along = (p - q).abs(), p + q
    sign = 1 - 2 * (along % 2)
    scale = 1 - z ** (2 * L)
    green = sign * (z**apart - z**along - z ** (2 * L - along) + z ** (2 * L - apart)) / (2 * sqrt(3.0) * scale)

    def reach(p: Tensor) -> Tensor:
        """1 at the node 1, 0 at the node m − 2."""
        return (1 - 2 * (p % 2)) * (z**p - z ** (2 * L - p)) / scale

    inner = 6 * green + reach(p) * (q == 0) + reach(L - p) * (q == L)  # from δ to M
    pad = torch.nn.functional.pad
    return pad(inner, (0, 2)) - 2 * pad(inner, (1, 1)) + pad(inner, (2, 0))  # from f to M


def _cubic_convolution(low: Tensor, part: Tensor, m: int, wraps: bool) -> Tensor:
    """Keys' cubic convolution, a = −1/2: third order, exact for quadratics.

    Beyond the ends of an axis that does not wrap around stands the parabola through the last three values, which is
    his boundary condition. (torch's bicubic mode has a = −3/4 and repeats the end values: first order.)
    """
    if m < 4:
        raise ValueError(f"cubic convolution needs 4 samples per axis or more, got {m}")
    total = torch.zeros(low.shape[0], m, dtype=torch.float64, device=low.device)
    for step in (-1, 0, 1, 2):
        s = (part - step).abs()
        near, far = 1.5 * s**3 - 2.5 * s**2 + 1, -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2
        weight = torch.where(s <= 1, near, far)[:, None]
        at = low + step
        if wraps:
            total = total + weight * _one_hot(at % m, m)
            continue
        before, after = (at < 0)[:, None], (at >= m)[:, None]
        beyond = torch.where(before, _parabola(at, m), _parabola(m - 1 - at, m).flip(1))
        total = total + weight * torch.where(before | after, beyond, _one_hot(at, m))
    return total


def _parabola(s: Tensor, m: int) -> Tensor:
    """Weights (n, m) of the values at 0, 1, 2 in the value at s of the parabola through them."""
    t = s.to(torch.float64)
    three = torch.stack([(t - 1) * (t - 2) / 2, -t * (t - 2), t * (t - 1) / 2], 1)
    return torch.nn.functional.pad(three, (0, m - 3))


def _inside(low: Tensor, part: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Interval and place in it: what lies at the last node or beyond the ends belongs to the outermost interval."""
    k = low.clamp(0, m - 2)
    return k, part + (low - k)


def _one_hot(index: Tensor, m: int) -> Tensor:
    return (index[:, None] == torch.arange(m, device=index.device)).to(torch.float64)


def _dirichlet(low: Tensor, part: Tensor, m: int) -> Tensor:
    """The trigonometric interpolant: sin(πs) / (m sin(πs/m)), for even m times cos(πs/m), s the distance in samples."""
    s = (low[:, None] - torch.arange(m, device=low.device)) + part[:, None]
    at = (low[:, None] - torch.arange(m, device=low.device)) % m == 0
    node = at & (part == 0)[:, None]
    angle = torch.pi * s / m
    # sin(πs) = ± sin(π·part): exact zeros where the new node is an old one
    sine = torch.sin(torch.pi * part)[:, None] * (1 - 2 * ((low[:, None] - torch.arange(m, device=low.device)) % 2))
    below = torch.where(node, torch.ones_like(s), m * torch.sin(angle))
    return torch.where(node, torch.ones_like(s), sine * (1 if m % 2 else torch.cos(angle)) / below)


def fourier(x: Tensor, target: str, n: int) -> Tensor:
    """The trigonometric interpolant of x (..., m), samples j/m of a period, at n nodes placed by ``target``: (..., n).

    By FFT: the spectrum, padded with zeros, is evaluated on the shortest equispaced grid of m points or more that holds
    the new nodes. An even m halves its highest wave.
    """
    m, new = x.shape[-1], PLACEMENTS[target]
    a, b = among("periodic", 1, target, n, torch.arange(n, device=x.device))  # nodes a/b of the period
    intervals = n + new.more if n + new.more else 2  # a single endpoint-inclusive node sits in the middle
    intervals = intervals * (1 + new.first % 2)
    length = intervals * ((m + intervals - 1) // intervals)
    spectrum = torch.fft.rfft(x, norm="forward")
    if length != m:
        k = torch.arange(m // 2 + 1, device=x.device)
        spectrum = spectrum * torch.where(2 * k == m, 0.5, 1.0).to(x.dtype)
    y: Tensor = torch.fft.irfft(spectrum, n=length, norm="forward")
    return y if length == n and new.first == 0 else y.index_select(-1, (a * length // b) % length)
