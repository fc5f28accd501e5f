"""Norms that work on the spectrum of the activations: the paper's extended baselines, which it names without defining.

The definitions are ours, chosen to fit the names and the paper's table: both kinds disturb the field already at the
training resolution, and fail on finer grids, where modes appear that training never saw.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.norms.quad import PROXY, QuadNorm, leaf_call


def wavenumbers(spatial: tuple[int, ...], device: torch.device) -> Tensor:
    """|k| in cycles per domain of each coefficient of ``rfftn``, shape (*spatial[:-1], spatial[-1]//2 + 1)."""
    square = torch.zeros((), device=device)
    for axis, n in enumerate(spatial):
        last = axis == len(spatial) - 1
        k = torch.fft.rfftfreq(n, 1 / n, device=device) if last else torch.fft.fftfreq(n, 1 / n, device=device)
        square = square + k.square().reshape(-1, *[1] * (len(spatial) - 1 - axis))
    return square.sqrt()


def _to_transform(norm: QuadNorm, x: Tensor, weights: Any, mask: Any) -> Tensor:
    """Input x in float32 or better, with 0 at absent samples: a transform spreads what they hold everywhere."""
    xs = x if x.dtype == torch.float64 else x.float()
    plan = norm._plan(x) if weights is None and mask is None else norm._call_plan(x, weights, mask)
    if plan.weights is None or not plan.has_absent:
        return xs
    absent = (plan.weights == 0).reshape(-1, 1, *x.shape[2:])
    return torch.where(absent, torch.zeros((), dtype=xs.dtype, device=xs.device), xs)


class SpectralNorm(QuadNorm):
    r"""Spectral normalization of the activations: every Fourier mode gets the same energy.

    .. math:: \hat y_c(k) = \gamma_c\,\frac{\hat x_c(k)}{\sqrt{\frac1C \sum_{c'} |\hat x_{c'}(k)|^2 + \varepsilon}}
        \;+\; \beta_c \text{ at } k = 0

    with x̂ the discrete Fourier transform divided by the number of samples. Not the spectral norm of a weight matrix. A
    finer grid has more modes, and noise in them is lifted to unit energy. There is no spatial average: of ``weights=``
    and ``mask=`` only matters which samples are absent, and those are read as 0.

    >>> y = SpectralNorm(4, eps=0.0)(torch.randn(2, 4, 8))
    >>> round(torch.fft.rfft(y, norm="forward").abs().square().mean().item(), 4)
    1.0
    """

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Whiten the spectrum."""
        if isinstance(x, PROXY):
            return leaf_call(self, x, weights=weights, mask=mask)
        if self.layout != "first":
            raise ValueError("SpectralNorm needs layout='first', (B, C, *spatial)")
        dims = tuple(range(2, x.ndim))
        spectrum = torch.fft.rfftn(_to_transform(self, x, weights, mask), dim=dims, norm="forward")
        energy = spectrum.real.square() + spectrum.imag.square()
        spectrum = spectrum * torch.rsqrt(energy.mean(1, keepdim=True) + self.eps)
        y: Tensor = torch.fft.irfftn(spectrum, s=x.shape[2:], dim=dims, norm="forward")
        if self.weight is not None and self.bias is not None:
            shape = (-1, *[1] * len(dims))
            y = y * self.weight.reshape(shape) + self.bias.reshape(shape)
        return y.to(x.dtype)


class RIBandNorm(QuadNorm):
    r"""Resolution-invariant band normalization: Fourier bands of fixed physical width, each normalized by itself.

    .. math:: y_c = \gamma_c \sum_{b} a_{cb}\,\frac{x_{cb} - \mu_{cb}}{\sqrt{v_{cb} + \varepsilon}} + \beta_c

    x_cb is the part of channel c with wavenumbers in band b: {0}, [1, 2), [2, 4), [4, 8), …, the last of ``bands``
    open. Band edges are in cycles per domain and moments are averages, so neither depends on the resolution by itself;
    a_cb are learned gains, initially 1. The transform assumes a periodic field, and the empty upper bands of a coarse
    grid are lifted to unit variance on a fine one.

    >>> y = RIBandNorm(2, bands=3, eps=1e-9)(torch.randn(1, 2, 16))
    >>> [round(v, 4) for v in y.var(-1, correction=0).flatten().tolist()]  # bands 1 and 2; band 0 is constant
    [2.0, 2.0]
    """

    default_measure = "counting"

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = True, *, bands: int = 6, **options: Any
    ) -> None:
        options.setdefault("measure", self.default_measure)
        super().__init__(num_features, eps, affine, "instance", **options)
        if bands < 1:
            raise ValueError(f"bands must be 1 or more, got {bands}")
        gains = torch.ones(bands, num_features, device=options.get("device"), dtype=options.get("dtype"))
        self.gain = nn.Parameter(gains)

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Split into bands, normalize each, add up."""
        if isinstance(x, PROXY):
            return leaf_call(self, x, weights=weights, mask=mask)
        if self.layout != "first":
            raise ValueError(f"{type(self).__name__} needs layout='first', (B, C, *spatial)")
        spatial = tuple(x.shape[2:])
        dims = tuple(range(2, x.ndim))
        xs = _to_transform(self, x, weights, mask)
        spectrum = torch.fft.rfftn(xs, dim=dims)
        # Band 0 is the mean, band b ≥ 1 holds 2^(b−1) ≤ |k| < 2^b.
        octave = torch.log2(wavenumbers(spatial, x.device).clamp_min(0.5)).floor().long() + 1
        octave = octave.clamp(0, self.gain.shape[0] - 1)
        shape = (-1, *[1] * len(dims))
        y = torch.zeros_like(xs)
        for b, gain in enumerate(self.gain):
            part = torch.fft.irfftn(spectrum * (octave == b), s=spatial, dim=dims)
            y = y + gain.reshape(shape) * super().forward(part, weights, mask)
        if self.bias is not None:  # each band added β once
            y = y - (self.gain.sum(0) - 1).mul(self.bias).reshape(shape)
        return y.to(x.dtype)


class QuadBandNorm(RIBandNorm):
    """:class:`RIBandNorm` with each band's mean and variance under a quadrature, by default the trapezoid rule.

    >>> QuadBandNorm(2, bands=3).measure
    Grid('trapezoid')
    """

    default_measure = "trapezoid"
