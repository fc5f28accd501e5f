"""Spectral convolution on shards: partial sums of the kept modes, one all-reduce each way."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from quadnorm.operators.pointwise import plus_product
from quadnorm.operators.spectral.convolution import SpectralConv
from quadnorm.operators.spectral.dft import matrix
from quadnorm.operators.spectral.modes import from_modes, to_modes
from quadnorm.operators.spectral.products import Matrices, analyse_real, synthesise_real
from quadnorm.operators.spectral.transforms import Analyse, Synthesise, with_constant
from quadnorm.parallel import measure
from quadnorm.parallel.collectives import spread, total
from quadnorm.parallel.split import Part, Split


class SpectralConvOnShards(SpectralConv):
    """X_k = Σ_r (rank r's partial sum), with the whole grid's nodes, weights and period.

    Forward: B·K·C_in complex numbers in one all-reduce; backward: B·K·C_out, after which the gradient of ``weight`` is
    complete on every rank. Neither depends on the resolution.
    """

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ("weight", "dc")

    def forward(
        self, x: Tensor, bias: Tensor | None = None, weights: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        """(B, C_in, *local) → (B, C_out, *local); ``weights`` (1 or B, N), of which all ranks' sum to 1."""
        return plus_product(self._sums(x, bias, weights), skip, x)

    def _sums(self, x: Tensor, bias: Tensor | None, weights: Tensor | None) -> Tensor:
        part = self._split.resolve(x.shape[2:])
        self._check_whole(x, part)
        group = self._split.group
        with torch.autocast(x.device.type, enabled=False):
            weight = self.full_weight()
            real = torch.float64 if weight.dtype == torch.complex128 else torch.float32
            constant = None if bias is None else bias.to(real)
            analysis, synthesis = self._matrices_here(part, x.device, real, weights is not None)
            field = x.to(real)
            if weights is not None:
                field = field * weights.to(real).view(weights.shape[0], 1, *part.local)
            elif self._full is not None:
                field = field * measure.local_weights(self._full, part, x.device, real)
            if torch.compiler.is_compiling():
                return self._traced(field, weight, constant, analysis, synthesis).to(x.dtype)
            modes = total(self._analysed(field, analysis), group)
            mixed = torch.bmm(modes.flatten(0, -3), weight)  # (K, B, C_out)
            (mixed,) = spread(mixed, group=group)
            return self._synthesised(mixed, constant, synthesis, part, x.shape[0]).to(x.dtype)

    def _matrices_here(
        self, part: Part, device: torch.device, dtype: torch.dtype, given: bool
    ) -> tuple[Matrices, Matrices]:
        """The columns, here, of the whole grid's cosines and sines."""
        axes = list(zip(self._waves, part.shape, self.modes.tops, strict=True))
        role = "analysis" if self._full is None and not given else "plain"
        roles = ["plain"] * (len(axes) - 1) + ["half"]
        analysis = [matrix(*a, role, device, dtype) for a in axes]
        synthesis = [matrix(*a, r, device, dtype) for a, r in zip(axes, roles, strict=True)]
        return _cut(analysis, part), _cut(synthesis, part)

    def _analysed(self, field: Tensor, analysis: Matrices) -> Tensor:
        if field.numel() == 0:  # nothing to add, but a part of the graph: the others wait for its backward
            shape = (*self.modes.shape, *field.shape[:2])
            return torch.zeros(shape, dtype=field.dtype.to_complex(), device=field.device) + field.sum()
        modes: Tensor = Analyse.apply(field, self.modes, *analysis)
        return modes

    def _synthesised(self, mixed: Tensor, bias: Tensor | None, synthesis: Matrices, part: Part, B: int) -> Tensor:
        if 0 in part.local:
            nothing = mixed.real.sum() * 0 + (0 if bias is None else bias.sum() * 0)
            return nothing.expand(B, self.out_channels, *part.local)
        y: Tensor = Synthesise.apply(mixed.view(*self.modes.shape, B, -1), bias, self.modes, *synthesis)
        return y

    def _traced(
        self, field: Tensor, weight: Tensor, bias: Tensor | None, analysis: Matrices, synthesis: Matrices
    ) -> Tensor:
        """The same in real operations, which compilers can fuse."""
        group = self._split.group
        t = total(analyse_real(field, analysis), group)
        re, im = to_modes(t, self.modes)
        wr, wi = torch.view_as_real(weight).unbind(-1)
        both = torch.cat([torch.cat([wr, wi], 2), torch.cat([-wi, wr], 2)], 1)
        out = torch.bmm(torch.cat([re.flatten(0, -3), im.flatten(0, -3)], -1), both)
        (out,) = spread(out, group=group)
        re, im = out.view(*self.modes.shape, field.shape[0], -1).chunk(2, -1)
        return synthesise_real(with_constant(from_modes(re, im, self.modes), bias), synthesis)

    def _check_whole(self, x: Tensor, part: Part) -> None:
        if x.ndim == len(part.shape) + 2:
            x = x.new_empty(1).expand(*x.shape[:2], *part.shape)  # no memory: only its shape is looked at
        self._checked(x)


def _cut(matrices: list[Tensor], part: Part) -> Matrices:
    return tuple(
        m if (a, b) == (0, n) else m[:, a:b].contiguous()
        for m, (a, b), n in zip(matrices, part.mine, part.shape, strict=True)
    )
