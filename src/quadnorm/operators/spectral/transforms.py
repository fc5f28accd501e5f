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

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import full_precision, is_batched
from quadnorm._tensors import is_plain
from quadnorm.operators.spectral.modes import Modes, complex_modes, from_modes, real_coefficients, to_modes
from quadnorm.operators.spectral.products import Matrices, analyse_real, synthesise_real


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
    """The same in real operations only, which compilers can fuse."""
    return synthesise_real(output_coefficients(x, weight, bias, modes, analysis), synthesis)


def output_coefficients(x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes, analysis: Matrices) -> Tensor:
    """The output's coefficients of products of cosines and sines, (*rows, B, C); X W as one real product of twice the
    width."""
    re, im = to_modes(analyse_real(x, analysis), modes)
    wr, wi = torch.view_as_real(weight).unbind(-1)  # (K, I, O)
    both = torch.cat([torch.cat([wr, wi], 2), torch.cat([-wi, wr], 2)], 1)  # (K, 2I, 2O)
    out = torch.bmm(torch.cat([re.flatten(0, -3), im.flatten(0, -3)], -1), both)  # (K, B, 2O)
    re, im = out.view(*modes.shape, x.shape[0], out.shape[2]).chunk(2, -1)
    return with_constant(from_modes(re, im, modes), bias)


def through_fft(x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes) -> Tensor:
    """The same for equispaced waves with equal weights, by FFT: better when many modes are kept."""
    sizes, dims = x.shape[2:], tuple(range(2, x.ndim))
    if is_plain(x) and x.shape[0] == 0:  # some FFT libraries refuse empty batches
        return through_fft(torch.cat([x, x.new_zeros(1, *x.shape[1:])]), weight, bias, modes)[:0]
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
