r"""Waves as matrices, :math:`e^{2\pi i k t}`: the one place that builds them; spectra, sums against waves, and back."""

from __future__ import annotations

from math import prod, sqrt

import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import constant
from quadnorm.measures._cache import CACHE

Positions = tuple[float, ...]  # as (fractional) indices into the samples of a transform


def frequencies(n: int, half: bool) -> Tensor:
    """The waves of a transform of n samples in its order: 0, 1, …, n//2 if ``half``, else with negative ones after.

    >>> frequencies(4, True).tolist(), frequencies(4, False).tolist()
    ([0.0, 1.0, 2.0], [0.0, 1.0, -2.0, -1.0])
    """
    if half:
        return torch.arange(n // 2 + 1, dtype=torch.float64, device="cpu")
    k: Tensor = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64, device="cpu")
    return k


def angles(k: Tensor, turns: Tensor) -> Tensor:
    """2πk·t (K, N), whole turns taken off: large arguments would cost digits."""
    whole = k[:, None] * turns
    return 2 * torch.pi * (whole - whole.round())


def waves(k: Tensor, turns: Tensor) -> Tensor:
    """(K, N) complex: wave k at the places ``turns``, in periods."""
    angle = angles(k, turns)
    return torch.polar(torch.ones_like(angle), angle)


def multiplicities(n: int) -> Tensor:
    """How often each wave of half a spectrum of n samples counts, (n//2 + 1,): twice if its negative is another one.

    >>> multiplicities(4).tolist(), multiplicities(5).tolist()
    ([1.0, 2.0, 1.0], [1.0, 2.0, 2.0])
    """
    k = frequencies(n, True)
    return torch.where((k == 0) | (2 * k == n), 1.0, 2.0).double()


def real_waves(n: int, turns: Tensor) -> Tensor:
    """Half a spectrum's waves of n samples as real rows (2(n//2 + 1), N): cosines, then −sines, each as often as it
    counts; their product with [Re Y, Im Y] is the inverse transform, not divided by n."""
    angle, times = angles(frequencies(n, True), turns), multiplicities(n)[:, None]
    return torch.cat([times * torch.cos(angle), -times * torch.sin(angle)])


def real_analysis(n: int, turns: Tensor, weights: Tensor) -> Tensor:
    """(N, 2(n//2 + 1)): a real field's product with it is [Re X, Im X] of its sums against e^{−2πikt}."""
    angle = angles(frequencies(n, True), turns)
    return torch.cat([weights * torch.cos(angle), -weights * torch.sin(angle)]).T.contiguous()


# --- spectra ----------------------------------------------------------------------------------------------------------


def resized(X: Tensor, dim: int, n: int, half: bool) -> Tensor:
    """A spectrum's low waves in the array of a transform of n samples."""
    return low_waves(X, dim, n // 2 + 1 if half else n, half)


def low_waves(X: Tensor, dim: int, size: int, half: bool) -> Tensor:
    """The low waves in an array of another length: 0, 1, …, and from its end −1, −2, … unless ``half``."""
    old = X.shape[dim]
    if old == size:
        return X
    both = min(old, size)
    front = both if half else (both + 1) // 2
    parts = [X.narrow(dim, 0, front)]
    if size > both:
        shape = list(X.shape)
        shape[dim] = size - both
        parts.append(X.new_zeros(shape))
    if not half and both // 2:
        parts.append(X.narrow(dim, old - both // 2, both // 2))
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


def fitted(Y: Tensor, dims: list[int], native: list[int], half: bool) -> Tensor:
    """A spectrum cut or filled up with zeros at its end, as ``torch.fft`` does, to as many waves as a transform of
    ``native`` samples has."""
    for at, (d, n0) in enumerate(zip(dims, native, strict=True)):
        size = n0 // 2 + 1 if half and at == len(dims) - 1 else n0
        if Y.shape[d] > size:
            Y = Y.narrow(d, 0, size)
        elif Y.shape[d] < size:
            shape = list(Y.shape)
            shape[d] = size - Y.shape[d]
            Y = torch.cat([Y, Y.new_zeros(shape)], d)
    return Y


def summed(X: Tensor, d: int, E: Tensor, real: bool) -> Tensor:
    """Sums of dimension d of X against the columns of E; ``real``: E is that of half a spectrum of a real field."""
    Y = X.movedim(d, -1)
    if real and not X.is_complex():
        with full_precision(X):
            both = torch.matmul(Y.to(E.dtype), E)  # cosines, then −sines
        re, im = both.chunk(2, -1)
        return torch.complex(re, im).movedim(-1, d)
    return torch.matmul(Y.to(E.dtype), E).movedim(-1, d)


@constant
def analysis_of(n0: int, at: Positions, counts: Tensor | None, half: bool, like: Tensor) -> Tensor:
    """Columns count_j e^{−2πi k t_j / n0}: (N, n0) complex, or (N, 2(n0//2 + 1)) real."""
    real = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32

    def build() -> Tensor:
        turns = torch.tensor(at, dtype=torch.float64, device="cpu") / n0
        w = torch.ones_like(turns) if counts is None else counts.double().cpu()
        if half and not like.is_complex():
            return real_analysis(n0, turns, w).to(like.device, real)
        return (w * waves(frequencies(n0, half), turns).conj()).T.resolve_conj().to(like.device, real.to_complex())

    ends = None if counts is None else tuple(counts[:3].tolist())
    return CACHE.get(("analysis", n0, at, ends, half, like.device, real, like.is_complex()), build)


def _synthesis(n: int, at: Positions, half: bool, like: Tensor) -> Tensor:
    """Waves of n training samples at N places: (n, N) complex; for half a spectrum (2(n//2 + 1), N) real."""

    def build() -> Tensor:
        turns = torch.tensor(at, dtype=torch.float64, device="cpu") / n
        rows = real_waves(n, turns) if half else waves(frequencies(n, False), turns)
        return rows.to(like.device, like.real.dtype if half else like.dtype)

    return CACHE.get(("synthesis", n, at, half, like.device, like.dtype), build)


def divisor(native: list[int], norm: str | None) -> float:
    """What an inverse transform of ``native`` samples divides by."""
    return {None: prod(native), "backward": prod(native), "ortho": sqrt(prod(native)), "forward": 1}[norm]


def synthesised(
    Y: Tensor, dims: list[int], native: list[int], at: list[Positions], half: bool, norm: str | None
) -> Tensor:
    r"""The inverse transform of Y to ``native`` samples, at places t: :math:`\sum_k Y_k e^{2\pi i k t / n_0}`."""
    Y = fitted(Y, dims, native, half) * (1 / divisor(native, norm))
    complexes = dims[:-1] if half else dims
    for d, n0, t in zip(complexes, native, at, strict=False):
        Y = torch.matmul(Y.movedim(d, -1), _synthesis(n0, t, False, Y)).movedim(-1, d)
    if not half:
        return Y
    E = _synthesis(native[-1], at[-1], True, Y)
    Y = Y.movedim(dims[-1], -1)
    with full_precision(E):
        return torch.matmul(torch.cat([Y.real, Y.imag], -1), E).movedim(-1, dims[-1])
