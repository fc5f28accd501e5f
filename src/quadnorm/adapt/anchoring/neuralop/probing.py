"""What a spectral convolution does with each wave, found out by feeding it waves: no version is trusted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product
from math import pi, prod
from typing import Any

import torch
from torch import Tensor

from quadnorm.measures.base import Shape

POWER = {"forward": 0.0, "backward": 1.0, "ortho": 0.5}  # of the number of samples, in the inverse transform


@dataclass(frozen=True)
class Waves:
    """What happens to each kept coefficient along one axis.

    ``read``: the wave that it is read from. ``write``: the wave that it is written to, None if it is cut off; of the
    waves that look alike on the grid, the one of lowest frequency. ``times``: how often that wave counts in the output,
    2 where it brings its conjugate along.
    """

    read: tuple[int, ...]
    write: tuple[int | None, ...]
    times: tuple[float, ...]

    @property
    def moved(self) -> bool:
        """Whether some wave comes out as another one."""
        return any(w is not None and w != r for r, w in zip(self.read, self.write, strict=True))


def probed(layer: Any, grid: Shape, out: Shape) -> tuple[Waves, ...] | None:
    """The waves of each axis of a ``SpectralConv`` that takes ``grid`` to ``out``; None if it does something else.

    The layer transforms, keeps some coefficients, hands them to its contraction with the weights, and transforms back.
    A sample at index 1 of an axis has the coefficients e^{−2πik/n}: their angles say which wave each kept coefficient
    is read from. A single coefficient in place of the contraction's result comes out as the wave it is written to.
    """
    kept, read = _read(layer, grid, out)
    if any(len(set(r)) != len(r) for r in read):
        return None
    low = [sorted(range(k), key=lambda i, r=r: abs(r[i])) for k, r in zip(kept, read, strict=True)]
    kept_by_all = next(
        (at for at in islice(product(*low), 256) if _wave(layer, grid, out, at).abs().max() > 1e-3), None
    )
    if kept_by_all is None:
        return None
    axes = []
    for a, r in enumerate(read):
        waves = _written(layer, grid, out, kept, kept_by_all, a)
        if waves is None:
            return None
        axes.append(Waves(r, *waves))
    return tuple(axes)


def _device(layer: Any) -> torch.device:
    return next(iter(layer.parameters()), torch.empty(0)).device


def _run(layer: Any, x: Tensor, out: Shape, contract: Callable[[Tensor], Tensor]) -> Tensor:
    """The layer with one channel, no bias, and another contraction."""
    probe = copy.copy(layer)
    probe.__dict__["_parameters"] = {**layer._parameters, "bias": None}
    probe.bias, probe.out_channels = None, 1
    probe._contract = lambda z, *weights, **options: contract(z)
    with torch.no_grad():
        y: Tensor = type(layer).forward(probe, x, output_shape=out)
    return y


def _read(layer: Any, grid: Shape, out: Shape) -> tuple[Shape, list[tuple[int, ...]]]:
    """How many coefficients are kept per axis, and the wave of each."""
    d = len(grid)
    x = torch.zeros(d, 1, *grid, device=_device(layer))
    for a, n in enumerate(grid):
        x[(a, 0, *(min(1, n - 1) if k == a else 0 for k in range(d)))] = 1.0
    spectra: list[Tensor] = []

    def contract(z: Tensor) -> Tensor:
        spectra.append(z)
        return z[:, :1]

    _run(layer, x, out, contract)
    z = spectra[0][:, 0]
    read = []
    for a, n in enumerate(grid):
        line = z[(a, *(slice(None) if k == a else 0 for k in range(d)))]
        k = torch.round(-torch.angle(line.to(torch.complex128)) * n / (2 * pi))
        read.append(tuple(int(v) for v in k) if n > 1 else (0,) * line.numel())
    return tuple(z.shape[1:]), read


def _wave(layer: Any, grid: Shape, out: Shape, at: tuple[int, ...]) -> Tensor:
    """The spectrum of what comes out for the coefficient 1 at one place, as if the output were complex."""

    def unit(z: Tensor) -> Tensor:
        y = torch.zeros_like(z[:, :1])
        y.movedim(0, -1)[(0, *at)] = torch.tensor([1, 1j], dtype=y.dtype, device=y.device)
        return y

    y = _run(layer, torch.zeros(2, 1, *grid, device=_device(layer)), out, unit)[:, 0].double()
    # Re c·e^{iks} for c = 1 and i: the wave itself is y₁ − i y₂.
    scale = float(prod(out)) ** (POWER[layer.fft_norm] - 1)
    spectrum: Tensor = torch.fft.fftn(torch.complex(y[0], -y[1])) * scale
    return spectrum


def _written(
    layer: Any, grid: Shape, out: Shape, kept: Shape, others: tuple[int, ...], a: int
) -> tuple[tuple[int | None, ...], tuple[float, ...]] | None:
    """The wave that each coefficient along axis ``a`` is written to, and how often it counts; on the other axes it is
    one that is not cut off."""
    write: list[int | None] = []
    times = []
    for i in range(kept[a]):
        size = _wave(layer, grid, out, (*others[:a], i, *others[a + 1 :])).abs()
        peak = size.max()
        if peak < 1e-3:
            write.append(None)
            times.append(0.0)
            continue
        if size.square().sum() > 1.01 * peak.square():
            return None
        j, n = int(torch.unravel_index(size.argmax(), size.shape)[a]), out[a]
        write.append(j if 2 * j <= n else j - n)
        times.append(float(peak))
    scale = 1.0 if a == len(kept) - 1 else min(t for t in times if t)  # the last axis brings the conjugates' factor
    return tuple(write), tuple(round(t / scale, 3) for t in times)
