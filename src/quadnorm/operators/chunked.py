"""Evaluation of an FNO strip by strip, for grids that do not fit into memory otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm.norms import (
    AnchoredNorm,
    BlendQuadNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    NoNorm,
    QuadNorm,
    QuadRMSNorm,
    RMSNorm,
    TokenNorm,
)
from quadnorm.operators.domain import grid_shape, positions
from quadnorm.operators.spectral.modes import complex_modes, from_modes
from quadnorm.operators.spectral.products import analyse_real, synthesise_real
from quadnorm.operators.spectral.transforms import with_constant

if TYPE_CHECKING:
    from quadnorm.operators.fno import FNO, FNOBlock

Strips = list[slice]
Linear = Callable[[slice], Tensor]
# Norms that are mean and variance under their measure and nothing else.
MERGED = (QuadNorm, BlendQuadNorm, AnchoredNorm, QuadRMSNorm, LayerNorm, InstanceNorm, GroupNorm, RMSNorm)


@torch.no_grad()
def forward_chunked(model: FNO, x: Tensor, rows: int) -> Tensor:
    """See :meth:`quadnorm.operators.FNO.forward_chunked`.

    One field of the network's width is kept, and overwritten: once the modes of v are known, a strip of the next
    field depends on the same strip of v only. Norms take a pass of their own for their statistics, in which the
    strips are made and forgotten.
    """
    shape = grid_shape(x, model.in_channels, model.dim)
    if rows < 1:
        raise ValueError(f"rows must be 1 or more, got {rows}")
    strips = [slice(s, min(s + rows, shape[0])) for s in range(0, shape[0], rows)]
    y = x.new_empty(x.shape[0], model.out_channels, *shape)
    r = positions(model.measure, model.placement, shape, x.device, model.lift.weight.dtype).view(-1, *shape)
    for one, out in zip(x, y, strict=True):
        v = x.new_empty(1, model.lift.weight.shape[0], *shape)
        for s in strips:
            v[:, :, s] = model.lift(torch.cat([one[:, s], r[:, s]])[None])
        for block in model.blocks:
            _overwrite(block, v, strips)  # type: ignore[arg-type]
        for s in strips:
            out[:, s] = model.head(v[:, :, s].flatten(2)).view(-1, *v[0, 0, s].shape)
    return y


def _overwrite(block: FNOBlock, v: Tensor, strips: Strips) -> None:
    """Replace v by block(v)."""
    layer, shape = block.spectral, tuple(v.shape[2:])
    analysis, synthesis, full = layer.matrices(shape, v.device, v.dtype)
    t = None
    for s in strips:
        field = v[:, :, s] if full is None else v[:, :, s] * full[s]
        part = analyse_real(field.contiguous(), (analysis[0][:, s], *analysis[1:]))
        t = part if t is None else t + part
    assert t is not None
    modes = complex_modes(t, layer.modes)
    mixed = torch.bmm(modes.flatten(0, -3), layer.full_weight()).view(*layer.modes.shape, 1, -1)
    t = with_constant(from_modes(mixed.real, mixed.imag, layer.modes), block.pointwise.bias)

    def linear(s: slice) -> Tensor:
        """K v + W v + b on a strip, (1, C, rows, …)."""
        k = synthesise_real(t, (synthesis[0][:, s], *synthesis[1:]))
        w = block.pointwise_weight().unsqueeze(0)
        return torch.baddbmm(k.flatten(2), w, v[:, :, s].flatten(2)).view_as(k)

    def branch(s: slice, u: Tensor) -> Tensor:
        u = normed(s, u)
        return F.gelu(u) if block.activation else u

    normed = _Strips(block.norm, shape, strips, linear)
    scale: Tensor | float = 1.0
    if block.gain is not None:
        w = layer.measure.shared_weights(shape, v.device, v.dtype)
        energy = v.new_zeros(2)
        for s in strips:
            for i, f in enumerate((v[:, :, s], branch(s, linear(s)))):
                energy[i] += (f.square().sum(1) * w[s]).sum()
        scale = F.softplus(block.gain) * torch.sqrt(energy[0] / (energy[1] + 1e-12))
    for s in strips:
        u = branch(s, linear(s))
        v[:, :, s] = v[:, :, s] + scale * u if block.residual is True else u


class _Strips:
    """A norm that can be applied to one strip at a time."""

    def __init__(self, norm: nn.Module, shape: tuple[int, ...], strips: Strips, linear: Linear) -> None:
        self.norm = norm
        self.whole: Tensor | None = None
        self.moments: tuple[Tensor, Tensor] | None = None
        if isinstance(norm, QuadNorm) and type(norm) in MERGED:
            self.moments = _moments(norm, shape, strips, linear)
        elif not isinstance(norm, (NoNorm, TokenNorm)):  # a norm that we know nothing about sees the whole field
            self.whole = norm(torch.cat([linear(s) for s in strips], 2))

    def __call__(self, s: slice, u: Tensor) -> Tensor:
        if self.whole is not None:
            return self.whole[:, :, s]
        if self.moments is None:
            y: Tensor = self.norm(u)
            return y
        mean, rstd = self.moments
        u = ((u.view(1, mean.shape[0], -1) - mean[:, None]) * rstd[:, None]).view_as(u)
        assert isinstance(self.norm, QuadNorm)
        ones = (-1, *(1 for _ in u.shape[2:]))
        gamma, beta = (None if p is None else p.view(ones) for p in (self.norm.weight, self.norm.bias))
        u = u if gamma is None else u * gamma
        return u if beta is None else u + beta


def _moments(norm: QuadNorm, shape: tuple[int, ...], strips: Strips, linear: Linear) -> tuple[Tensor, Tensor]:
    """Mean and 1/√(variance + ε) of each group: moments of the strips, merged (Chan et al.)."""
    merged: tuple[Tensor, Tensor, Tensor] | None = None
    dtype = torch.float64
    for s in strips:
        u = linear(s)
        dtype, w = u.dtype, norm.measure.shared_weights(shape, u.device)[s].flatten()
        mass, mean, second = merged or tuple(w.new_zeros(norm.groups) for _ in range(3))
        f, here = u.view(norm.groups, -1, w.numel()), w.sum()
        share = (w / here).to(dtype)
        m = (f @ share).mean(1) if norm.centre else f.new_zeros(norm.groups)
        q = ((f - m[:, None, None]).square_() @ share).mean(1).double() * here
        m = m.double()
        step, total = m - mean, mass + here
        merged = total, mean + step * here / total, second + q + step.square() * mass * here / total
    assert merged is not None
    _, mean, second = merged
    return mean.to(dtype), torch.rsqrt(second + norm.eps).to(dtype)
