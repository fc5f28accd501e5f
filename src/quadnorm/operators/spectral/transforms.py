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

from math import prod
from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import full_precision, is_batched
from quadnorm._tensors import is_plain, is_recording
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
            x = Synthesise.apply(g, None, ctx.modes, *ctx.mats)
        else:  # batched or traced: plain operations
            x = synthesise_real(from_modes(g.real, g.imag, ctx.modes), ctx.mats)
        return x, None, *(None for _ in ctx.mats)


def _own(y: Tensor) -> Tensor:
    """The same field, but no view: PyTorch lets nobody change a view in place that was made inside a function."""
    return y.new_empty(0).set_(y)  # type: ignore[call-overload, no-any-return]


class Synthesise(torch.autograd.Function):
    """Complex modes (*modes.shape, B, C) and a constant (C,) → field (B, C, *n). Its derivative is :class:`Analyse`."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, bias: Tensor | None, modes: Modes, *mats: Tensor) -> Tensor:
        ctx.modes, ctx.mats = modes, mats
        with full_precision(y):
            t = real_coefficients(y, modes)
            if bias is not None:
                t.flatten(0, -3)[0] += bias
            return _own(synthesise_real(t, mats))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if is_plain() and not is_batched(g):
            y = Analyse.apply(g, ctx.modes, *ctx.mats)
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


class LinearPart(torch.autograd.Function):
    """Σ_k c_k Re(X_k W_k e^{…}) + S x + b for x (B, I, *n), W (K, I, O) complex, S (O, I) and b (O,); S and b if given.

    One function, because every further one would cost a pass over the field, forward or backward, to add its share.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        skip: Tensor | None,
        modes: Modes,
        analysis: Matrices,
        synthesis: Matrices,
    ) -> Tensor:
        given = complex_modes(analyse_real(x, analysis), modes).flatten(0, -3)  # (K, B, I)
        mixed = torch.bmm(given, weight).view(*modes.shape, x.shape[0], weight.shape[2])
        t = real_coefficients(mixed, modes)
        if bias is not None:
            t.flatten(0, -3)[0] += bias
        y = _own(synthesise_real(t, synthesis))
        if skip is not None:
            y.flatten(2).baddbmm_(skip.expand(x.shape[0], -1, -1), x.flatten(2))
        ctx.save_for_backward(x, weight, skip, given)
        ctx.setting = modes, analysis, synthesis
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, skip, given = ctx.saved_tensors
        modes, analysis, synthesis = ctx.setting
        # Derivatives of the derivative, or many at once: plain operations.
        fast = is_plain(g) and not torch.is_grad_enabled() and not is_batched(g)
        to_x, to_weight, to_bias, to_skip = ctx.needs_input_grad[:4]
        back: list[Tensor | None] = [None] * 4
        B, (K, c_in, c_out), n = x.shape[0], weight.shape, prod(x.shape[2:])
        with full_precision(x):  # a backward pass may run under autocast
            t = analyse_real(g, synthesis)
            got = (complex_modes(t, modes) if fast else torch.complex(*to_modes(t, modes))).reshape(K, B, c_out)
            if to_weight:
                if not fast:
                    given = torch.complex(*to_modes(analyse_real(x, analysis), modes)).reshape(K, B, c_in)
                back[1] = torch.bmm(given.mH, got)
            if to_bias:
                back[2] = got[0].real.sum(0)
            if to_skip:
                back[3] = torch.bmm(g.reshape(B, c_out, n), x.reshape(B, c_in, n).transpose(1, 2)).sum(0)
            if to_x:
                mixed = torch.bmm(got, weight.mH).view(*modes.shape, B, c_in)
                t = real_coefficients(mixed, modes) if fast else from_modes(mixed.real, mixed.imag, modes)
                gx = synthesise_real(t, analysis)
                if skip is not None:
                    flat = gx.reshape(B, c_in, n)
                    add = flat.baddbmm_ if fast else flat.baddbmm
                    gx = add(skip.t().expand(B, -1, -1), g.reshape(B, c_out, n)).view(x.shape)
                back[0] = gx
        return *back, None, None, None


def through_matrices(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    modes: Modes,
    analysis: Matrices,
    synthesis: Matrices,
    skip: Tensor | None = None,
) -> Tensor:
    """Σ_k c_k Re(X_k W_k e^{…}) + bias (+ skip · x), for weights (K, I, O) complex; eager."""
    y: Tensor = LinearPart.apply(x, weight, bias, skip, modes, analysis, synthesis)
    return y


def through_real_matrices(
    x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes, analysis: Matrices, synthesis: Matrices
) -> Tensor:
    """The same in real operations only, which compilers can fuse."""
    return synthesise_real(output_coefficients(x, weight, bias, modes, analysis), synthesis)


def output_coefficients(x: Tensor, weight: Tensor, bias: Tensor | None, modes: Modes, analysis: Matrices) -> Tensor:
    """The output's coefficients of products of cosines and sines, (*rows, B, C); X W as one real product of twice the
    width, or in a captured graph as a complex one, for which the weights are not copied."""
    re, im = to_modes(analyse_real(x, analysis), modes)
    if is_recording():
        mixed = torch.bmm(torch.complex(re, im).flatten(0, -3), weight).view(*modes.shape, x.shape[0], weight.shape[2])
        return with_constant(from_modes(mixed.real, mixed.imag, modes), bias)
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
