"""neuraloperator's modules: anchored spectral convolutions and norms, and QuadNorm for its models' ``norm`` argument.

The only file that imports neuraloperator; :func:`quadnorm.anchor` loads it when a model contains its modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, wraps
from math import pi, prod
from typing import Any

import torch
from torch import Tensor, nn

try:
    from neuralop.layers import embeddings, fno_block, normalization_layers, padding, spectral_convolution
except ImportError:
    raise ImportError("this needs neuraloperator: pip install 'quadnorm[compat]'") from None

from quadnorm.adapt.anchoring.registry import RULES, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.anchoring.rules import STILL
from quadnorm.adapt.anchoring.torch_modules import change_class, counts, placements, weights_of
from quadnorm.measures import Anchored, placement_of, rule
from quadnorm.measures.base import Shape
from quadnorm.norms import make_norm
from quadnorm.norms.kernels.core import normalize

# --- spectral convolution --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The waves along one axis of the layer as trained: which it reads from n_in samples, and which it writes to n_out.

    The layer indexes an array of coefficients, shifts it twice by ⌊n/2⌋, and hands it to an inverse transform of
    perhaps another size. On odd n the two shifts leave every wave of all axes but the last one lower than it was,
    and on other sizes waves fold; a network trained with that has learned it. So ``read`` and ``write`` are what
    the training grid made of each kept coefficient, with the least frequency among equals.
    """

    n_in: int
    n_out: int
    placement: str
    read: tuple[int, ...]
    write: tuple[int | None, ...]  # None: cut off
    half: bool

    @staticmethod
    def of(n_in: int, n_out: int, kept: int, placement: str, last: bool) -> Line:
        """The line for ``kept`` coefficients; the last axis has half a spectrum and is not shifted."""
        if last:
            k = tuple(range(min(kept, n_in // 2 + 1)))
            return Line(n_in, n_out, placement, k, tuple(j if j <= n_out // 2 else None for j in k), True)
        start = n_in // 2 - kept // 2
        at = range(start, start + kept)
        moved = [(j + n_in // 2) % n_in for j in at]
        write = tuple(None if j >= n_out else j if 2 * j <= n_out else j - n_out for j in moved)
        return Line(n_in, n_out, placement, tuple(j - n_in // 2 for j in at), write, False)

    def _turns(self, n: int, native: int) -> Tensor:
        where = placement_of(self.placement)
        return where.nodes(n) * ((native + where.more) / native)

    def analysis(self, n: int) -> Tensor:
        """w_j e^{−2πi k s_j}, (K, n): at n_in samples the transform as trained; waves that alias on n are left out."""
        w = Anchored((self.n_in,), (self.placement,)).weights(n)
        k = torch.tensor(self.read, dtype=torch.float64)
        return torch.polar(w * (2 * k.abs() <= n)[:, None], -2 * pi * k[:, None] * self._turns(n, self.n_in))

    def synthesis(self, n: int) -> Tensor:
        """c_k e^{2πi k s_j}, (K, n); c = 2 where a wave stands for its conjugate too."""
        k = torch.tensor([0 if f is None else f for f in self.write], dtype=torch.float64)
        c = torch.tensor([0.0 if f is None else self._times(f) for f in self.write], dtype=torch.float64)
        return torch.polar(c[:, None].expand(-1, n).contiguous(), 2 * pi * k[:, None] * self._turns(n, self.n_out))

    def _times(self, f: int) -> float:
        return 2.0 if self.half and f != 0 and 2 * f != self.n_out else 1.0


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
        scale = (prod(a.n_in for a in self.lines) / prod(a.n_out for a in self.lines)) ** _POWER[self.fft_norm]
        y: Tensor = _inverse(z, [m.to(x.device) for m in back]) * scale
        return y if self.bias is None else y + self.bias

    def _slices(self) -> tuple[slice, ...]:
        """The weight's entries of the kept coefficients: the middle of all axes but the last, whose beginning."""
        channels = [slice(None)] * (1 if self.separable else 2)
        cut = []
        for line, most in zip(self.lines, self.max_n_modes, strict=True):
            spare = most - len(line.read)
            cut.append(slice(0, len(line.read)) if line.half else slice(spare // 2, most - (spare + 1) // 2))
        return (*channels, *cut)


_POWER = {"forward": 0.0, "backward": 1.0, "ortho": 0.5}


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
    if not place.moves and module.resolution_scaling_factor is None and not any(n % 2 for n in grid[:-1]):
        return unchanged(STILL)
    outs = {s[2:] for s in place.outputs}
    if len(outs) > 1:
        return left(f"writes to several grids in one run, {sorted(outs)}")
    out = outs.pop() if outs else _scaled(grid, module.resolution_scaling_factor)
    sizes = [*grid[:-1], grid[-1] // 2 + 1]
    kept = [min(n, m, most) for n, m, most in zip(sizes, module.n_modes, module.max_n_modes, strict=True)]
    last = len(grid) - 1
    lines = tuple(
        Line.of(n, n_out, k, where, axis == last)
        for axis, (n, n_out, k, where) in enumerate(zip(grid, out, kept, place.placements, strict=True))
    )
    change_class(module, AnchoredSpectralConv)
    module.measure, module.lines = place.measure, lines
    why = "FFT → sums with the training grid's measure and period"
    if any(n % 2 for n in grid[:-1]):
        why += "; on odd grids neuraloperator shifts the waves of all axes but the last by one: kept as trained"
    return anchored(module, why)


def _scaled(grid: Shape, factors: Any) -> Shape:
    return grid if factors is None else tuple(round(n * r) for n, r in zip(grid, factors, strict=True))


# --- coordinates -----------------------------------------------------------------------------------------------------


class _AnchoredGrid(nn.Module):
    """Sample j of the training grid had the coordinate j/n₀; on endpoint-inclusive samples that is r·(n₀−1)/n₀."""

    measure: Anchored
    grid_boundaries: Any

    def grid(self, spatial_dims: Any, device: Any, dtype: torch.dtype) -> Any:
        sizes = tuple(spatial_dims)
        if not torch.compiler.is_compiling() and sizes == self.measure.anchor:
            return super().grid(spatial_dims, device, dtype)
        axes, ends = [], placements(self.measure)
        for n, n0, where, (a, b) in zip(sizes, self.measure.anchor, ends, self.grid_boundaries, strict=True):
            r = rule(where).nodes(n) * ((n0 - 1) / n0 if where == "endpoint" else 1)
            axes.append((a + (b - a) * r).to(device=device, dtype=dtype))
        return [g[None, None] for g in torch.meshgrid(*axes, indexing="ij")]


class AnchoredGridEmbeddingND(_AnchoredGrid, embeddings.GridEmbeddingND):
    """neuraloperator's ``GridEmbeddingND`` with coordinates that do not move with n."""


class AnchoredGridEmbedding2D(_AnchoredGrid, embeddings.GridEmbedding2D):
    """neuraloperator's ``GridEmbedding2D`` with coordinates that do not move with n."""


def coordinates_rule(module: Any, place: Place) -> Outcome:
    """Anchor the coordinates j/n that models see as channels."""
    if "cell" in place.placements:
        return left("gives sample j the coordinate j/n: on cell-centred axes half a spacing off, which moves with n")
    if not place.moves or "endpoint" not in place.placements:
        return unchanged("its coordinates j/n are the samples' places")
    nd = isinstance(module, embeddings.GridEmbeddingND)
    change_class(module, AnchoredGridEmbeddingND if nd else AnchoredGridEmbedding2D)
    module.measure = place.measure
    return anchored(module, "coordinates j/n, which move with n on these samples → those of the training grid")


# --- norms -----------------------------------------------------------------------------------------------------------


class AnchoredInstanceNorm(normalization_layers.InstanceNorm):
    """neuraloperator's ``InstanceNorm`` under ``measure``."""

    measure: Anchored

    def forward(self, x: Tensor) -> Tensor:
        spatial = tuple(x.shape[2:])
        if counts(self.measure, spatial):
            y: Tensor = super().forward(x)
            return y
        options = self.kwargs
        w = weights_of(self.measure, spatial, x)
        return normalize(x, w, options.get("weight"), options.get("bias"), x.shape[1], options.get("eps", 1e-5))


class AnchoredAdaIN(normalization_layers.AdaIN):
    """neuraloperator's ``AdaIN`` under ``measure``."""

    measure: Anchored

    def forward(self, x: Tensor) -> Tensor:
        spatial = tuple(x.shape[2:])
        if counts(self.measure, spatial) or self.embedding is None:
            y: Tensor = super().forward(x)
            return y
        weight, bias = torch.split(self.mlp(self.embedding), self.in_channels, dim=0)
        return normalize(x, weights_of(self.measure, spatial, x), weight, bias, self.in_channels, self.eps)


def norm_rule(module: Any, place: Place) -> Outcome:
    """Anchor ``InstanceNorm`` and ``AdaIN``."""
    if not place.moves:
        return unchanged(STILL)
    if isinstance(module, normalization_layers.InstanceNorm):
        if module.kwargs.get("running_mean") is not None or not module.kwargs.get("use_input_stats", True):
            return left("uses given statistics, no spatial sum")
        change_class(module, AnchoredInstanceNorm)
    else:
        change_class(module, AnchoredAdaIN)
    module.measure = place.measure
    return anchored(module, "counting → anchored")


def padding_rule(module: Any, place: Place) -> Outcome:
    """``DomainPadding``: a fraction of the samples, rounded."""
    return left(
        f"pads round({module.domain_padding}·n) samples: in space that is a length that moves with n, and the "
        "field jumps "
        f"to zero at the domain's end, which sums see at O(h)"
    )


RULES[spectral_convolution.SpectralConv] = spectral_rule
RULES[normalization_layers.InstanceNorm] = norm_rule
RULES[normalization_layers.AdaIN] = norm_rule
RULES[embeddings.GridEmbeddingND] = coordinates_rule
RULES[embeddings.GridEmbedding2D] = coordinates_rule
RULES[padding.DomainPadding] = padding_rule


try:  # SFNO's layer; neuraloperator offers it, and SFNO, only where torch-harmonics is installed
    from neuralop.layers.spherical_convolution import SphericalConv
except ImportError:
    pass
else:
    RULES[SphericalConv] = lambda module, place: unchanged(
        "spherical harmonics by torch-harmonics' quadrature: no counting, no period"
    )


# --- training with QuadNorm ------------------------------------------------------------------------------------------

_THEIRS = ("instance_norm", "group_norm", "batch_norm", "ada_in")


def use_quadnorm() -> None:
    """Let neuraloperator's models take this package's norms: ``FNO(..., norm="quad:instance")``.

    ``FNOBlocks``, and with it FNO, TFNO, UNO and the rest, then accept for ``norm`` whatever
    :func:`quadnorm.make_norm` does, besides their own names. Affects models made afterwards, in this process;
    calling it again does nothing more.

    >>> use_quadnorm()
    >>> from neuralop.models import FNO
    >>> model = FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, norm="quad:instance")
    >>> model.fno_blocks.norm[0]
    QuadNorm(8, eps=1e-05, affine=True, mode='instance', measure=Grid('trapezoid'))
    """
    blocks = fno_block.FNOBlocks
    original = blocks.__init__
    if getattr(original, "takes_quadnorm", False):
        return

    @wraps(original)
    def init(self: Any, *args: Any, norm: Any = None, **options: Any) -> None:
        if norm is None or norm in _THEIRS:
            original(self, *args, norm=norm, **options)
            return
        original(self, *args, norm=None, **options)
        if self.complex_data:
            raise ValueError(f"norm={norm!r} needs real data, got complex_data=True")
        self.norm = nn.ModuleList(make_norm(norm, self.out_channels) for _ in range(self.n_layers * self.n_norms))

    init.takes_quadnorm = True  # type: ignore[attr-defined]
    blocks.__init__ = init
