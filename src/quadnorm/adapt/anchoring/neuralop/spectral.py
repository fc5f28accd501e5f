"""neuraloperator's spectral convolution under the measure of the training grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import pi, prod
from typing import Any

import torch
from neuralop.layers import spectral_convolution
from torch import Tensor

from quadnorm.adapt.anchoring.neuralop.probing import POWER, Waves, probed
from quadnorm.adapt.anchoring.rules.registry import RULES, STILL, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.anchoring.torch_modules import change_class
from quadnorm.measures import Anchored, placement_of
from quadnorm.measures.base import Shape
from quadnorm.measures.padded import PaddedAxis


@dataclass(frozen=True)
class Line:
    """The waves along one axis of the layer as trained: which it reads from n_in samples, and which it writes to n_out.

    The layer indexes an array of coefficients, shifts it and shifts it back, and hands it to an inverse transform of
    perhaps another size. In some versions the two shifts leave every wave one lower than it was on odd n, and on other
    sizes waves fold; a network trained with that has learned it. So ``waves`` are what the layer makes of each kept
    coefficient on the training grid, by :func:`probed`.
    """

    n_in: int
    n_out: int
    placement: str
    waves: Waves
    half: bool
    padded: PaddedAxis | None = None  # what of the input are padded samples

    def _turns(self, n: int, native: int) -> Tensor:
        if self.padded is not None and native == self.padded.native:
            return self.padded.places(n) / native
        placement = placement_of(self.placement)
        return placement.nodes(n) * ((native + placement.more) / native)

    def analysis(self, n: int) -> Tensor:
        """w_j e^{−2πi k s_j}, (K, n): at n_in samples the transform as trained; waves that alias on n are left out."""
        axis = self.padded or Anchored((self.n_in,), (self.placement,))
        w = axis.weights(n)
        k = torch.tensor(self.waves.read, dtype=torch.float64, device="cpu")
        return torch.polar(w * (2 * k.abs() <= n)[:, None], -2 * pi * k[:, None] * self._turns(n, self.n_in))

    def synthesis(self, n: int) -> Tensor:
        """c_k e^{2πi k s_j}, (K, n); c = 2 where a wave stands for its conjugate too."""
        k = torch.tensor([0 if f is None else f for f in self.waves.write], dtype=torch.float64, device="cpu")
        c = torch.tensor(self.waves.times, dtype=torch.float64, device="cpu")
        return torch.polar(c[:, None].expand(-1, n).contiguous(), 2 * pi * k[:, None] * self._turns(n, self.n_out))


@lru_cache(maxsize=256)
def _matrices(lines: tuple[Line, ...], sizes: Shape, out: Shape) -> tuple[list[Tensor], list[Tensor]]:
    """Analysis and synthesis matrices of all axes."""
    forward = [line.analysis(n).to(torch.complex64) for line, n in zip(lines, sizes, strict=True)]
    back = [line.synthesis(n).to(torch.complex64) for line, n in zip(lines, out, strict=True)]
    return forward, back


class AnchoredSpectralConv(spectral_convolution.SpectralConv):
    """neuraloperator's ``SpectralConv`` under the measure of its training grid.

    At the training grid it is the base class; elsewhere the same kept coefficients are sums with the training
    grid's measure and period, and go through the same weights, dense or factorized.
    """

    measure: Anchored
    lines: tuple[Line, ...]

    def forward(self, x: Tensor, output_shape: Any = None) -> Tensor:
        sizes = tuple(x.shape[2:])
        if output_shape is not None:
            out = tuple(int(n) for n in output_shape)
        elif self.resolution_scaling_factor is not None:
            out = tuple(round(n * r) for n, r in zip(sizes, self.resolution_scaling_factor, strict=True))
        else:
            out = sizes
        native = tuple(a.n_in for a in self.lines), tuple(a.n_out for a in self.lines)
        if not torch.compiler.is_compiling() and (sizes, out) == native:
            y: Tensor = super().forward(x, output_shape)
            return y
        return self.summed(x, out)

    def summed(self, x: Tensor, out: Shape) -> Tensor:
        """The layer by explicit sums, x (B, C_in, *spatial) → (B, C_out, *out)."""
        sizes = tuple(x.shape[2:])
        make = _matrices.__wrapped__ if torch.compiler.is_compiling() else _matrices
        forward, back = make(self.lines, sizes, out)
        z = _transform(x.float(), [m.to(x.device) for m in forward])
        z = self._contract(z, self.weight[self._slices()], separable=self.separable)
        scale = (prod(a.n_in for a in self.lines) / prod(a.n_out for a in self.lines)) ** POWER[self.fft_norm]
        y: Tensor = _inverse(z, [m.to(x.device) for m in back]) * scale
        return y if self.bias is None else y + self.bias

    def _slices(self) -> tuple[slice, ...]:
        """Where the kept coefficients stand in the weight: first on its last axis, in the middle on the others."""
        channels = [slice(None)] * (1 if self.separable else 2)
        cut = []
        for line, most in zip(self.lines, self.max_n_modes, strict=True):
            spare = most - len(line.waves.read)
            cut.append(slice(0, len(line.waves.read)) if line.half else slice(spare // 2, most - (spare + 1) // 2))
        return (*channels, *cut)


def _transform(x: Tensor, matrices: list[Tensor]) -> Tensor:
    """Σ over space, one axis at a time from the last: (B, C, *n) → (B, C, *K)."""
    last = matrices[-1]
    z = torch.complex(x @ last.real.T, x @ last.imag.T)
    for axis, m in zip(range(-2, -len(matrices) - 1, -1), reversed(matrices[:-1]), strict=True):
        z = (z.movedim(axis, -1) @ m.T).movedim(-1, axis)
    return z


def _inverse(z: Tensor, matrices: list[Tensor]) -> Tensor:
    """Re Σ over waves: (B, C, *K) → (B, C, *n)."""
    for axis, m in enumerate(matrices[:-1], start=-len(matrices)):
        z = (z.movedim(axis, -1) @ m).movedim(-1, axis)
    last = matrices[-1]
    return z.real @ last.real - z.imag @ last.imag


def spectral_rule(module: Any, place: Place) -> Outcome:
    """Anchor ``SpectralConv``."""
    if module.complex_data:
        return left("complex_data=True: its last axis has no half spectrum; not supported")
    if module.fno_block_precision != "full":
        return left(f"fno_block_precision={module.fno_block_precision!r}: not supported, use 'full'")
    grid = place.measure.anchor
    if len(grid) != module.order:
        return left(f"works on {module.order} of the grid's {len(grid)} axes")
    outs = {s[2:] for s in place.outputs}
    if len(outs) > 1:
        return left(f"writes to several grids in one run, {sorted(outs)}")
    out = outs.pop() if outs else _scaled(grid, module.resolution_scaling_factor)
    waves = probed(module, grid, out)
    if waves is None:
        return left("fed with single waves it does not give single waves: not the layer that is known here")
    moved = any(w.moved for w in waves)
    if not place.moves and module.resolution_scaling_factor is None and not moved:
        return unchanged(STILL)
    kind = module.__class__
    change_class(module, AnchoredSpectralConv)
    module.measure, module.lines = place.measure, _lines(place, out, waves)
    if not _agrees(module, kind, grid, out):
        module.__class__ = kind
        return left("its output is not that of the waves it keeps and its weights: not the layer that is known here")
    why = "FFT → sums with the training grid's measure and period"
    if moved:
        why += "; on this grid neuraloperator shifts waves by one: kept as trained"
    return anchored(module, why)


def _lines(place: Place, out: Shape, waves: tuple[Waves, ...]) -> tuple[Line, ...]:
    """The waves along each axis of a layer that takes the grid of its place to ``out``."""
    grid = place.measure.anchor
    axes = zip(grid, out, place.placements, waves, place.measure.axes(len(grid)), strict=True)
    return tuple(
        Line(n, n_out, placement, w, k == len(grid) - 1, padded if isinstance(padded, PaddedAxis) else None)
        for k, (n, n_out, placement, w, padded) in enumerate(axes)
    )


def _agrees(module: Any, kind: Any, grid: Shape, out: Shape) -> bool:
    """Whether the explicit sums give what the layer's own class does on the training grid."""
    x = torch.randn(1, module.in_channels, *grid, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    x = x.to(next(module.parameters()).device)
    with torch.no_grad():
        native, sums = kind.forward(module, x, output_shape=out), module.summed(x, out)
    return bool((native - sums).abs().max() <= 1e-3 * native.abs().max())


def _scaled(grid: Shape, factors: Any) -> Shape:
    return grid if factors is None else tuple(round(n * r) for n, r in zip(grid, factors, strict=True))


RULES[spectral_convolution.SpectralConv] = spectral_rule

try:  # SFNO's layer; neuraloperator offers it, and SFNO, only where torch-harmonics is installed
    from neuralop.layers.spherical_convolution import SphericalConv
except ImportError:
    pass
else:
    RULES[SphericalConv] = lambda module, place: unchanged(
        "spherical harmonics by torch-harmonics' quadrature: no counting, no period"
    )
