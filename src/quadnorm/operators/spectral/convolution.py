"""Spectral convolution whose Fourier sums know their nodes, weights and period."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from quadnorm._precision import full_precision, under_autocast
from quadnorm._suggest import unknown
from quadnorm._tensors import is_plain, recorded_before_dispatch
from quadnorm.measures import Anchored, Measure, as_measure
from quadnorm.measures.base import whole_number
from quadnorm.measures.placement import Placements
from quadnorm.operators.pointwise import plus_product
from quadnorm.operators.spectral.dft import COUNTING, Wave, matrix, waves_of
from quadnorm.operators.spectral.hermitian import tie, untie
from quadnorm.operators.spectral.modes import Modes
from quadnorm.operators.spectral.products import Matrices, dense_cost, fft_cost
from quadnorm.operators.spectral.transforms import through_fft, through_matrices, through_real_matrices

KERNELS = ("fft", "hermitian", "quadrature")
BACKENDS = ("auto", "dense", "fft")


class SpectralConv(nn.Module):
    r"""Multiply the low Fourier modes of a field by learned matrices.

    .. math::
        X_k = \sum_j w_j\, x(r_j)\, e^{-2\pi i k \cdot r_j / L}, \qquad
        y(r_j) = \sum_k c_k \operatorname{Re}\bigl( W_k^\top X_k\, e^{2\pi i k \cdot r_j / L} \bigr)

    with w from the measure, over 0 ≤ k < m on the last axis (c_k = 2 there except at k = 0, since −k follows from k)
    and −m ≤ k < m on the others. Space is summed in X_k only. What ``kernel`` and ``measure`` make of nodes, weights
    and period:

    ==============  ========  =============  ==========================================================================
    kernel          measure   weights        phase of the first wave, r_j/L
    ==============  ========  =============  ==========================================================================
    ``fft``         counting  1/n            j/n: the published layer. On endpoint-inclusive samples its period is
                                             n/(n−1) domains, so it moves with n
    ``hermitian``   counting  1/n            j/n; modes −(m−1) … m−1, W_{−k} = conj W_k, real W_0
    ``quadrature``  counting  1/n            r_j/L with endpoint nodes; L = ``period``, default 1
    any             Anchored  the measure's  i/n₀ at training sample i: at n₀ the published layer, elsewhere the same
                                             operator up to O(h²)
    any             other     the measure's  r_j/L with the measure's nodes; L = ``period``, default 1, which is the
                                             limit of the published layer for n → ∞
    ==============  ========  =============  ==========================================================================

    Cell-centred and periodic measures with L = 1 are the FFT's own sums at every n. Measures that are no product of
    axes (a mask, a blend, explicit weights) multiply the field before the transform. Nodes are relative to the
    domain, in [0, 1].

    ``padding`` = f extends the field by zero to (1+f) of the domain for the transform, and drops the extension
    afterwards: a period (1+f) times as long, at any resolution and at no cost.

    Args:
        in_channels, out_channels: C_in, C_out.
        modes: m, for every axis or one each (then their number is the dimension).
        dim: spatial dimension, if ``modes`` is a single number.
        kernel, measure, period, padding: as above; ``period`` and ``padding`` for every axis or one each.
        placement: where samples lie (a name of the table of placements), for measures that do not know it.
        backend: ``dense`` matrix products, ``fft`` for sums that are discrete Fourier transforms (refused for measures
            whose sums never are; an Anchored measure's are at n₀, elsewhere it takes matrix products), or the cheaper
            (``auto``).

    Shapes: (B, C_in, *spatial) → (B, C_out, *spatial), any resolution with n ≥ 2m (last axis: n ≥ 2m−2).

    The parameter ``weight`` is complex, (2m, …, m, C_in, C_out), frequencies 0 … m−1, −1 … −m on all axes but the last;
    initially real and imaginary parts are uniform in [0, 1)/(C_in·C_out). :meth:`wavenumbers` lists its modes.

    >>> layer = SpectralConv(2, 3, modes=4, measure="trapezoid", kernel="quadrature")
    >>> layer(torch.randn(5, 2, 16, 17)).shape
    torch.Size([5, 3, 16, 17])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes: int | Sequence[int],
        dim: int = 2,
        *,
        kernel: str = "fft",
        measure: str | Sequence[str] | Measure = "counting",
        period: float | Sequence[float] | None = None,
        padding: float | Sequence[float] = 0.0,
        placement: Placements = "endpoint",
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if kernel not in KERNELS:
            raise ValueError(unknown("kernel", kernel, KERNELS))
        if backend not in BACKENDS:
            raise ValueError(unknown("backend", backend, BACKENDS))
        given = _per_axis(modes, dim, "modes")
        kept = tuple(m for m in map(whole_number, given) if m is not None and m >= 1)
        if len(kept) < len(given) or not 1 <= len(kept) <= 3:
            raise ValueError(f"modes must be whole numbers from 1 for 1 to 3 axes, got {modes!r} for {len(given)} axes")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel, self.backend, self.placement = kernel, backend, placement
        self.period = None if period is None else tuple(float(p) for p in _per_axis(period, len(kept), "period"))
        self.padding = tuple(float(p) for p in _per_axis(padding, len(kept), "padding"))
        if any(p <= 0 for p in self.period or ()) or any(p < 0 for p in self.padding):
            raise ValueError(f"period must be positive and padding not negative, got {period!r} and {padding!r}")
        tied = kernel == "hermitian"
        self.modes = Modes(kept, tuple(m - 1 if tied else m for m in kept[:-1]))
        self.measure = measure
        real = torch.get_default_dtype() if dtype is None else dtype
        pair, free = (in_channels, out_channels), self.modes.shape
        if tied:
            count = tie(self.modes)[2]
            self._tie_on(torch.get_default_device() if device is None else torch.device(device))
            self.dc = nn.Parameter(torch.empty(pair, device=device, dtype=real))
            free = (count,)
        self.weight = nn.Parameter(torch.empty((*free, *pair), device=device, dtype=real.to_complex()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Real and imaginary parts uniform in [0, 1)/(C_in·C_out), as published."""
        with torch.no_grad():
            for p in self.parameters(recurse=False):
                parts = torch.view_as_real(p) if p.is_complex() else p
                parts.uniform_(0, 1 / (self.in_channels * self.out_channels))

    @property
    def measure(self) -> Measure:
        """What X_k sums against; assign a measure or a rule's name."""
        return self._measure

    @measure.setter
    def measure(self, spec: str | Sequence[str] | Measure) -> None:
        measure = as_measure(spec)
        if measure.ndim not in (None, len(self.modes.kept)):
            raise ValueError(f"{measure!r} has {measure.ndim} axes, but this layer has {len(self.modes.kept)}")
        if measure == COUNTING and self.kernel != "quadrature" and self.period is not None:
            raise ValueError(
                f"kernel={self.kernel!r} with the counting measure has the FFT's period, got period={self.period}; "
                f"use kernel='quadrature', or leave period out"
            )
        waves, full = waves_of(
            measure, len(self.modes.kept), self.kernel != "quadrature", self.placement, self.period, self.padding
        )
        if self.backend == "fft" and not isinstance(measure, Anchored) and (full or not all(w.is_flat for w in waves)):
            raise ValueError(
                f"backend='fft' needs equal weights on equispaced samples, which {measure!r} has at no resolution; "
                f"use backend='auto' or 'dense'"
            )
        self._measure, self._waves, self._full = measure, waves, full

    def wavenumbers(self) -> Tensor:
        """The frequency vector of every mode, (*modes, d), in the order of ``weight``.

        >>> SpectralConv(1, 1, 2).wavenumbers()[:, 0, 0]
        tensor([ 0,  1, -1, -2])
        """
        return self.modes.wavenumbers()

    def full_weight(self) -> Tensor:
        """The complex matrices of all modes, (K, C_in, C_out)."""
        if self.kernel == "hermitian":
            if self._source.device != self.weight.device:  # loaded into a model without numbers, by assign=True
                self._tie_on(self.weight.device)
            return untie(self.dc, self.weight, self._source, self._sign)  # type: ignore[arg-type]
        return self.weight.flatten(0, -3)

    def _tie_on(self, device: torch.device) -> None:
        """Put the table of tied modes on a device. It follows from the modes and is no part of the state."""
        source, sign, _ = tie(self.modes)
        self.register_buffer("_source", source.to(device), persistent=False)
        self.register_buffer("_sign", sign.to(device), persistent=False)

    def forward(
        self, x: Tensor, bias: Tensor | None = None, weights: Tensor | None = None, skip: Tensor | None = None
    ) -> Tensor:
        """(B, C_in, *spatial) → (B, C_out, *spatial).

        ``bias`` (C_out,) is added: as the wave k = 0, for free. ``weights`` (1 or B, N), summing to 1, take the place
        of the measure's. With a matrix ``skip`` (C_out, C_in) its product with x is added, in the same pass.
        """
        # One call to modes, whichever way the sum is taken. A recorder must be seen: modes see no other behind them.
        if has_torch_function((x,)) and not recorded_before_dispatch():
            y: Tensor = handle_torch_function(SpectralConv.forward, (x,), self, x, bias, weights)
            return plus_product(y, skip, x)
        sizes, autocast = self._checked(x), under_autocast(x)
        with full_precision(x):  # phases need more digits than half precision has
            weight = self.full_weight()
            real = torch.float64 if weight.dtype == torch.complex128 else torch.float32
            field = x.to(real)
            constant = None if bias is None else bias.to(real)
            given = None if weights is None else weights.to(real).view(-1, 1, *sizes)
            if (self._full is None or given is not None) and self._takes_fft(self._waves, sizes):
                field = field if given is None else field * (given * prod(sizes))
                y = through_fft(field, weight, constant, self.modes)
            else:
                analysis, synthesis, full = self.matrices(sizes, x.device, real, given)
                settings = (weight, constant, self.modes, analysis, synthesis)
                if full is None and field is x and is_plain(field, weight, constant, skip) and not autocast:
                    return through_matrices(x, *settings, skip)
                field = field if full is None else field * full
                way = through_matrices if is_plain(field, weight, constant) else through_real_matrices
                y = way(field, *settings)
        return plus_product(y.to(x.dtype), skip, x)

    def matrices(
        self, sizes: tuple[int, ...], device: torch.device, dtype: torch.dtype, given: Tensor | None = None
    ) -> tuple[Matrices, Matrices, Tensor | None]:
        """Cosines and sines of every axis for X and for y, and the weights that multiply the field first, if any."""
        axes = list(zip(self._waves, sizes, self.modes.tops, strict=True))
        role = "analysis" if self._full is None and given is None else "plain"
        roles = ["plain"] * (len(axes) - 1) + ["half"]
        analysis = tuple(matrix(*a, role, device, dtype) for a in axes)
        synthesis = tuple(matrix(*a, r, device, dtype) for a, r in zip(axes, roles, strict=True))
        if given is None and self._full is not None:
            given = self._full.shared_weights(sizes, device, dtype)
        return analysis, synthesis, given

    def _takes_fft(self, waves: tuple[Wave, ...], sizes: tuple[int, ...]) -> bool:
        if self.backend == "dense" or torch.compiler.is_compiling():
            return False
        possible = all(w.equispaced(n) for w, n in zip(waves, sizes, strict=True))
        if self.backend == "fft":
            if not possible and isinstance(self._measure, Anchored):
                return False  # the training grid's transform, continued to other grids by its own sums
            if not possible:
                raise ValueError(
                    f"backend='fft' needs equal weights and equispaced waves, which {self._measure!r} does not have on "
                    f"{sizes} samples; use backend='auto' or 'dense'"
                )
            return True
        if any(isinstance(n, torch.SymInt) for n in sizes):  # a trace for any size cannot ask what costs less
            return False
        return possible and dense_cost(sizes, self.modes.tops) > fft_cost(sizes)

    def _checked(self, x: Tensor) -> tuple[int, ...]:
        kept = self.modes.kept
        if x.ndim != len(kept) + 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"got input of shape {tuple(x.shape)}, expected (batch, {self.in_channels}, "
                f"{', '.join(['n'] * len(kept))}): "
                f"{self.in_channels} channels on a {len(kept)}-dimensional grid"
            )
        sizes = tuple(x.shape[2:])
        need = (*(m + q for m, q in zip(kept[:-1], self.modes.lowest, strict=True)), 2 * kept[-1] - 2)
        if any(n < least for n, least in zip(sizes, need, strict=True)):
            raise ValueError(
                f"modes={kept} need at least {need} samples per axis (they would alias below), got {sizes}; "
                f"use a finer grid or fewer modes"
            )
        return sizes

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Module.double() skips complex tensors and Module.to(dtype) would drop their imaginary parts.
        def both_parts(t: Tensor) -> Tensor:
            if not t.is_complex():
                return fn(t)
            both = torch.view_as_real(t).flatten(-2)  # of t's rank, which decides about memory formats
            parts = fn(both)
            if parts.dtype not in (torch.float32, torch.float64):  # no complex arithmetic in half precision
                parts = both.to(parts.device)
            return torch.view_as_complex(parts.contiguous().view(*t.shape, 2))

        super()._apply(both_parts, recurse)
        if self.kernel == "hermitian":
            self._tie_on(self.weight.device)  # to_empty() leaves no numbers in it
        return self

    def extra_repr(self) -> str:
        extra = "" if self.period is None else f", period={self.period}"
        extra += f", padding={self.padding}" if any(self.padding) else ""
        return (
            f"{self.in_channels}, {self.out_channels}, modes={self.modes.kept}, kernel={self.kernel!r}, "
            f"measure={self._measure!r}{extra}"
        )


def _per_axis(value: Any, dim: int, label: str) -> tuple[Any, ...]:
    if not isinstance(value, Sequence):
        return (value,) * dim
    if label != "modes" and len(value) != dim:
        raise ValueError(f"{label} must be one number or one per axis ({dim}), got {value!r}")
    return tuple(value)
