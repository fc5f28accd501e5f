r"""Separable Fourier sums in real arithmetic, and their adjoints.

With the rows of :func:`quadnorm.operators.spectral.dft.matrix` along every axis, a real field x (B, C, *n) has the
coefficients T = (A₀ ⊗ A₁ ⊗ …) x, all products of cosines and sines: one real matrix product per axis, no complex
temporaries of the field's size. Complex modes are sums and differences of few entries of T, for one axis

.. math:: X_{\pm k} = C_k \mp i S_k, \quad
    C_k = \sum_j w_j x_j \cos 2\pi k s_j, \quad S_k = \sum_j w_j x_j \sin 2\pi k s_j .

Order of modes: 0 … m−1 along the last axis (the others follow from X_{−k} = conj X_k), and 0 … m−1, −1 … −q along every
other axis. Synthesis Σ_k c_k Re(Y_k e^{2πi k·s}) is the adjoint of an analysis with weights c_k instead of w_j, so
that each of the two is the other's derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from math import log2, prod
from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import full_precision, is_batched
from quadnorm._tensors import is_plain

Matrices = tuple[Tensor, ...]

# Measured on one core (AVX-512, float32): per multiplication of the matrix products, and per point and octave of the
# FFT form.
DENSE_NS = 0.012
FFT_NS = 0.3
TRANSPOSED = 48  # samples per axis up to which a product transposes on the way


@dataclass(frozen=True)
class Modes:
    """Kept frequencies: |k| < ``kept[a]`` on axis a, and down to −``lowest[a]`` on all axes but the last."""

    kept: tuple[int, ...]
    lowest: tuple[int, ...]

    @property
    def tops(self) -> tuple[int, ...]:
        """The highest |k| on each axis."""
        return (*(max(m - 1, q) for m, q in zip(self.kept[:-1], self.lowest, strict=True)), self.kept[-1] - 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of modes on each axis."""
        return (*(m + q for m, q in zip(self.kept[:-1], self.lowest, strict=True)), self.kept[-1])

    def frequencies(self) -> list[tuple[int, ...]]:
        """The frequency vectors in the order of the weights, as numbers."""
        axes = [[*range(m), *range(-1, -q - 1, -1)] for m, q in zip(self.kept[:-1], self.lowest, strict=True)]
        return list(product(*axes, range(self.kept[-1])))

    def wavenumbers(self) -> Tensor:
        """The frequency vectors, (*shape, d), in the order of the weights."""
        return torch.tensor(self.frequencies(), device="cpu").view(*self.shape, len(self.kept))


# --- the matrix products ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def cheapest_order(sizes: tuple[int, ...], rows: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes in which transforming ``sizes`` to ``rows`` takes the fewest multiplications."""

    def cost(order: tuple[int, ...]) -> int:
        now, total = list(sizes), 0
        for a in order:
            total += prod(now) * rows[a]
            now[a] = rows[a]
        return total

    return min(permutations(range(len(sizes))), key=lambda o: (cost(o), o[::-1] != tuple(range(len(sizes)))))


def dense_cost(sizes: tuple[int, ...], tops: tuple[int, ...]) -> float:
    """Estimated nanoseconds per channel of the matrix products, both ways (one CPU core)."""
    rows = tuple(2 * t + 2 for t in tops)
    now, work = list(sizes), 0
    for a in cheapest_order(sizes, rows):
        work += prod(now) * rows[a]
        now[a] = rows[a]
    return 2 * work * DENSE_NS


def fft_cost(sizes: tuple[int, ...]) -> float:
    """The same for the FFT there and back."""
    n = prod(sizes)
    return 2 * n * log2(max(n, 2)) * FFT_NS


def _along(t: Tensor, a: Tensor, axis: int) -> Tensor:
    """Multiply axis ``axis`` (counted from 2) of a contiguous (B, C, …) by the matrix ``a`` (new, old)."""
    shape = t.shape
    if axis + 3 == len(shape) and torch.compiler.is_compiling():
        return torch.nn.functional.linear(t, a)  # rows of a square grid of unknown size fold in here without a guard
    post = 1
    for s in shape[axis + 3 :]:
        post *= s
    if axis + 3 == len(shape):
        out = t.reshape(-1, shape[-1]) @ a.t()
    else:
        flat = t.reshape(-1, shape[axis + 2], post)
        out = torch.bmm(a.expand(flat.shape[0], -1, -1), flat)
    return out.reshape(*shape[: axis + 2], a.shape[0], *shape[axis + 3 :])


def _order(sizes: tuple[int, ...], rows: tuple[int, ...]) -> tuple[int, ...]:
    if torch.compiler.is_compiling():  # sizes may be symbols, which cannot be compared without fixing them
        return tuple(reversed(range(len(sizes))))
    return cheapest_order(sizes, rows)


def analyse_real(x: Tensor, mats: Matrices) -> Tensor:
    """(B, C, *n) → (*rows, B, C)."""
    for axis in _order(tuple(x.shape[2:]), tuple(a.shape[0] for a in mats)):
        x = _along(x, mats[axis], axis)
    return x.permute(*range(2, x.ndim), 0, 1).contiguous()


def _transposing_pays(mats: Matrices) -> bool:
    """Whether the last product of a synthesis should bring B and C to the front, instead of a copy before the first.

    It then writes the field with long strides, which costs as much as the copy once a row leaves the cache.
    """
    if len(mats) != 2 or not is_plain() or mats[0].device.type != "cpu":
        return False
    (rows, sizes) = zip(*(a.shape for a in mats), strict=True)
    return min(rows) >= 16 and max(sizes) <= TRANSPOSED and cheapest_order(sizes, rows) == (1, 0)


def synthesise_real(t: Tensor, mats: Matrices) -> Tensor:
    """(*rows, B, C) → (B, C, *n), the transpose of :func:`analyse_real`."""
    if _transposing_pays(mats):
        a0, a1 = mats
        (r0, n0), (r1, n1) = a0.shape, a1.shape
        rows = torch.mm(a0.t(), t.reshape(r0, -1)).view(n0, r1, -1)  # (n0, r1, B·C)
        field = t.new_empty(rows.shape[2], n0, n1)
        torch.bmm(rows.transpose(1, 2), a1.expand(n0, -1, -1), out=field.transpose(0, 1))
        return field.view(*t.shape[2:], n0, n1)
    x = t.permute(t.ndim - 2, t.ndim - 1, *range(t.ndim - 2)).contiguous()
    for axis in reversed(_order(tuple(a.shape[1] for a in mats), tuple(a.shape[0] for a in mats))):
        x = _along(x, mats[axis].t(), axis)
    return x


# --- cosines and sines to modes and back -----------------------------------------------------------------------------


def to_modes(t: Tensor, modes: Modes) -> tuple[Tensor, Tensor]:
    """(*rows, B, C) real → real and imaginary parts of the modes, (*modes.shape, B, C) each."""
    last = len(modes.kept) - 1
    re, im = t.chunk(2, last)
    im = im.neg()
    for a, (m, q) in enumerate(zip(modes.kept[:-1], modes.lowest, strict=True)):
        (cr, sr), (ci, si) = re.chunk(2, a), im.chunk(2, a)
        re = torch.cat([(cr + si).narrow(a, 0, m), (cr - si).narrow(a, 1, q)], a)
        im = torch.cat([(ci - sr).narrow(a, 0, m), (ci + sr).narrow(a, 1, q)], a)
    return re, im


def complex_modes(t: Tensor, modes: Modes) -> Tensor:
    """:func:`to_modes` as one complex tensor. In two dimensions, the common case, without intermediate copies."""
    if len(modes.kept) != 2:
        return torch.complex(*to_modes(t, modes))
    m, q = modes.kept[0], modes.lowest[0]
    (cc, cs), (sc, ss) = (half.chunk(2, 1) for half in t.chunk(2, 0))  # waves along the first axis, along the second
    x = torch.empty(*modes.shape, *t.shape[2:], dtype=t.dtype.to_complex(), device=t.device)
    re, im = x.real, x.imag
    torch.sub(cc[:m], ss[:m], out=re[:m])
    torch.add(cc[1 : q + 1], ss[1 : q + 1], out=re[m:])
    torch.add(cs[:m], sc[:m], out=im[:m]).neg_()
    torch.sub(sc[1 : q + 1], cs[1 : q + 1], out=im[m:])
    return x


def real_coefficients(y: Tensor, modes: Modes) -> Tensor:
    """:func:`from_modes` of one complex tensor. In two dimensions, the common case, without intermediate copies."""
    re, im = y.real, y.imag
    if len(modes.kept) != 2:
        return from_modes(re, im, modes)
    m, q = modes.kept[0], modes.lowest[0]
    rows, columns = (top + 1 for top in modes.tops)
    t = torch.empty(2 * rows, 2 * columns, *y.shape[2:], dtype=re.dtype, device=y.device)
    (cc, cs), (sc, ss) = (half.chunk(2, 1) for half in t.chunk(2, 0))  # waves along the first axis, along the second
    both = min(m - 1, q)
    ahead, back = slice(1, both + 1), slice(m, m + both)
    torch.add(re[ahead], re[back], out=cc[ahead])
    torch.sub(im[back], im[ahead], out=sc[ahead])
    torch.add(im[ahead], im[back], out=cs[ahead]).neg_()
    torch.sub(re[back], re[ahead], out=ss[ahead])
    # Modes without a partner: k = 0, and the highest one where only k or only −k is kept.
    alone = [(slice(0, 1), slice(0, 1), 1)]
    if m - 1 != q:
        alone.append((slice(both + 1, rows), *((slice(both + 1, m), 1) if m - 1 > q else (slice(m + both, m + q), -1))))
    for at, source, sign in alone:
        cc[at], cs[at] = re[source], im[source].neg()
        sc[at], ss[at] = im[source] * -sign, re[source] * -sign
    return t


def from_modes(re: Tensor, im: Tensor, modes: Modes) -> Tensor:
    """The transpose of :func:`to_modes`, up to rows that meet sin 0 = 0."""
    for a, (m, q) in enumerate(zip(modes.kept[:-1], modes.lowest, strict=True)):
        even_re, odd_re = _fold(re, a, m, q)
        even_im, odd_im = _fold(im, a, m, q)
        re = torch.cat([even_re, odd_im.neg()], a)
        im = torch.cat([even_im, odd_re], a)
    return torch.cat([re, im.neg()], len(modes.kept) - 1)


def _fold(f: Tensor, a: int, m: int, q: int) -> tuple[Tensor, Tensor]:
    """f₊ₖ + f₋ₖ and f₊ₖ − f₋ₖ for k = 0 … max(m−1, q), f₋₀ = 0; a mode that is not kept counts as 0."""
    zero, plus, minus = f.narrow(a, 0, 1), f.narrow(a, 1, m - 1), f.narrow(a, m, q)
    both = min(m - 1, q)
    p, n = plus.narrow(a, 0, both), minus.narrow(a, 0, both)
    more_p, more_n = plus.narrow(a, both, m - 1 - both), minus.narrow(a, both, q - both)
    return torch.cat([zero, p + n, more_p, more_n], a), torch.cat([zero, p - n, more_p, more_n.neg()], a)


# --- as differentiable functions -------------------------------------------------------------------------------------


class Analyse(torch.autograd.Function):
    """Field (B, C, *n) → complex modes (*modes.shape, B, C). Linear: its derivative is :class:`Synthesise`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, modes: Modes, *mats: Tensor) -> Tensor:
        ctx.modes, ctx.mats = modes, mats
        with full_precision(x):  # a backward pass may run under autocast
            return complex_modes(analyse_real(x, mats), modes)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if is_plain() and not is_batched(g):
            x = Synthesise.apply(g, None, ctx.modes, *ctx.mats)  # type: ignore[no-untyped-call]
        else:  # batched or traced: plain operations
            x = synthesise_real(from_modes(g.real, g.imag, ctx.modes), ctx.mats)
        return x, None, *(None for _ in ctx.mats)


class Synthesise(torch.autograd.Function):
    """Complex modes (*modes.shape, B, C) and a constant (C,) → field (B, C, *n). Its derivative is :class:`Analyse`."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, bias: Tensor | None, modes: Modes, *mats: Tensor) -> Tensor:
        ctx.modes, ctx.mats = modes, mats
        with full_precision(y):
            t = real_coefficients(y, modes)
            if bias is not None:
                t.flatten(0, -3)[0] += bias
            return synthesise_real(t, mats)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if is_plain() and not is_batched(g):
            y = Analyse.apply(g, ctx.modes, *ctx.mats)  # type: ignore[no-untyped-call]
        else:
            y = torch.complex(*to_modes(analyse_real(g, ctx.mats), ctx.modes))
        constant = y[(0,) * len(ctx.modes.kept)].real.sum(0) if ctx.needs_input_grad[1] else None
        return y, constant, None, *(None for _ in ctx.mats)


def with_constant(t: Tensor, bias: Tensor | None) -> Tensor:
    """Add a constant (C,) to the field whose coefficients ``t`` (*rows, B, C) are: the wave k = 0 is 1 everywhere."""
    if bias is None:
        return t
    flat = t.flatten(0, -3)
    return torch.cat([flat[:1] + bias, flat[1:]]).view_as(t)


# --- the three ways to the modes and back ----------------------------------------------------------------------------


def through_matrices(
    x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes, analysis: Matrices, synthesis: Matrices
) -> Tensor:
    """Σ_k c_k Re(X_k W_k e^{…}) + bias, for weights (K, I, O) complex; eager."""
    given: Tensor = Analyse.apply(x, modes, *analysis)  # type: ignore[no-untyped-call]
    mixed = torch.bmm(given.flatten(0, -3), weight).view(*modes.shape, x.shape[0], weight.shape[2])
    y: Tensor = Synthesise.apply(mixed, bias, modes, *synthesis)  # type: ignore[no-untyped-call]
    return y


def through_real_matrices(
    x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes, analysis: Matrices, synthesis: Matrices
) -> Tensor:
    """The same in real operations only, which compilers can fuse; (X W) as one real product of twice the width."""
    re, im = to_modes(analyse_real(x, analysis), modes)
    wr, wi = torch.view_as_real(weight).unbind(-1)  # (K, I, O)
    both = torch.cat([torch.cat([wr, wi], 2), torch.cat([-wi, wr], 2)], 1)  # (K, 2I, 2O)
    out = torch.bmm(torch.cat([re.flatten(0, -3), im.flatten(0, -3)], -1), both)  # (K, B, 2O)
    re, im = out.view(*modes.shape, x.shape[0], out.shape[2]).chunk(2, -1)
    return synthesise_real(with_constant(from_modes(re, im, modes), bias), synthesis)


def through_fft(x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes) -> Tensor:
    """The same for equispaced waves with equal weights, by FFT: better when many modes are kept."""
    sizes, dims = x.shape[2:], tuple(range(2, x.ndim))
    rows = [
        torch.tensor([*range(m), *range(n - 1, n - 1 - q, -1)], device=x.device)
        for m, q, n in zip(modes.kept[:-1], modes.lowest, sizes[:-1], strict=True)
    ]
    kept = torch.fft.rfftn(x, dim=dims, norm="forward").narrow(-1, 0, modes.kept[-1])
    for axis, at in enumerate(rows, start=2):
        kept = kept.index_select(axis, at)
    out = torch.bmm(kept.permute(*dims, 0, 1).reshape(-1, *x.shape[:2]), weight)  # (K, B, O)
    full = out.permute(1, 2, 0).reshape(x.shape[0], weight.shape[2], *modes.shape)
    for axis, (at, n) in enumerate(zip(rows, sizes[:-1], strict=True), start=2):
        empty = full.new_zeros(*full.shape[:axis], n, *full.shape[axis + 1 :])
        full = empty.index_copy(axis, at, full)
    full = torch.nn.functional.pad(full, (0, sizes[-1] // 2 + 1 - modes.kept[-1]))
    y: Tensor = torch.fft.irfftn(full, s=tuple(sizes), dim=dims, norm="forward")
    return y if bias is None else y + bias.view(-1, *(1 for _ in sizes))
