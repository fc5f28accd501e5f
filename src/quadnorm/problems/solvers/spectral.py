"""The periodic vorticity equation in Fourier space: 2/3-dealiased convection, Crank–Nicolson diffusion.

On the unit torus, with u = (∂ψ/∂y, −∂ψ/∂x) and −Δψ = ω:

    ∂ω/∂t + u·∇ω = νΔω + f.

A state is the band |k₁|, |k₂| ≤ K = (N−1)//3 of the Fourier coefficients of ω, ω(x) = Σ ω̂ₖ exp(2πi k·x), stored as
(B, N, K+1): all rows k₁ in the order of the FFT, columns k₂ = 0 … K. Products on N×N points are exact in this band (2/3
rule), so convection conserves energy ½∫|u|² and enstrophy ½∫ω² up to the error in time.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Complex = npt.NDArray[np.complex128]
Real = npt.NDArray[np.float64]

# Wray's third-order Runge–Kutta for convection; each stage has a Crank–Nicolson step of length γ + ζ for diffusion.
_GAMMA = (8 / 15, 5 / 12, 3 / 4)
_ZETA = (0.0, -17 / 60, -5 / 12)


@dataclass(frozen=True)
class Stepper:
    """One time step of the vorticity equation: order 3 in convection, 2 in diffusion.

    Args:
        points: N, grid points of each axis.
        viscosity: ν.
        dt: the step; stable while dt·max|u|·2πK stays under 1.7.
    """

    points: int
    viscosity: float
    dt: float

    @property
    def band(self) -> int:
        """K, the largest wavenumber kept."""
        return (self.points - 1) // 3

    def wavenumbers(self) -> tuple[Real, Real]:
        """Integers k₁ (N, 1) and k₂ (1, K+1)."""
        k1 = np.fft.fftfreq(self.points, 1 / self.points).astype(np.float64)[:, None]
        return k1, np.arange(self.band + 1, dtype=np.float64)[None]

    @cached_property
    def _symbols(self) -> tuple[Real, Real, list[tuple[Real, Real, Real]]]:
        """Real multipliers on (re, im) pairs: velocity from i·ω̂, convection from (uv, u²−v²), and the stages."""
        k1, k2 = self.wavenumbers()
        square = k1**2 + k2**2
        keep = np.abs(k1) <= self.band
        inverse = np.where(keep & (square > 0), 1 / np.where(square > 0, square, 1), 0) / (2 * np.pi)
        velocity = np.stack([k2 * inverse, -k1 * inverse])
        # −u·∇ω = −(∂₁₁ − ∂₂₂)(uv) + ∂₁∂₂(u² − v²): two products instead of three, and real symbols
        convection = np.where(keep, 4 * np.pi**2, 0) * np.stack([k1**2 - k2**2, -k1 * k2])
        decay = self.viscosity * 4 * np.pi**2 * square
        stages = []
        for gamma, zeta in zip(_GAMMA, _ZETA, strict=True):
            half = 0.5 * (gamma + zeta) * self.dt * decay
            scale = keep / (1 + half)
            stages.append((_pairs((1 - half) * scale), _pairs(self.dt * gamma * scale), _pairs(self.dt * zeta * scale)))
        return _pairs(velocity), _pairs(convection), stages

    def velocity(self, state: Complex) -> Real:
        """Velocity (u, v) on the N×N points: (B, 2, N, N)."""
        fft = _fft()
        uv = (1j * state).view(np.float64)[:, None] * self._symbols[0]  # (B, 2, N, 2K+2)
        columns = fft.ifft(uv.view(np.complex128), axis=-2, norm="forward", overwrite_x=True)
        result: Real = fft.irfft(columns, n=self.points, axis=-1, norm="forward")
        return result

    def courant(self, state: Complex) -> Real:
        """dt·max|u|·2πK of each sample: the stability limit of the scheme is about 1.7."""
        u, v = np.moveaxis(self.velocity(state), 1, 0)
        speed: Real = np.sqrt((u**2 + v**2).max(axis=(1, 2)))
        return self.dt * 2 * np.pi * self.band * speed

    def convection(self, state: Complex) -> Complex:
        """Coefficients of −u·∇ω in the band."""
        fft = _fft()
        uv = self.velocity(state)
        u, v = uv[:, 0], uv[:, 1]
        products = np.empty_like(uv)
        np.multiply(u, v, out=products[:, 0])
        np.multiply(u - v, u + v, out=products[:, 1])
        rows = fft.rfft(products, axis=-1, norm="forward", overwrite_x=True)[..., : self.band + 1]
        spectra = fft.fft(rows, axis=-2, norm="forward").view(np.float64)
        spectra *= self._symbols[1]
        result: Complex = (spectra[:, 0] + spectra[:, 1]).view(np.complex128)
        return result

    def advance(self, state: Complex, steps: int, forcing: Complex | None = None) -> Complex:
        """The state after ``steps`` time steps under a constant forcing (coefficients like the state's)."""
        now = np.array(state, dtype=np.complex128, order="C")
        f = None if forcing is None else np.ascontiguousarray(forcing)
        for _ in range(steps):
            before: Real | None = None
            for keep, new, old in self._symbols[2]:
                rate = self.convection(now)
                if f is not None:
                    rate += f
                change = rate.view(np.float64)
                update = now.view(np.float64) * keep
                update += change * new
                if before is not None:
                    update += before * old
                before, now = change, update.view(np.complex128)
        return now


def band_of(state: Complex) -> Complex:
    """The band alone, rows k₁ = −K … K: (B, N, K+1) → (B, 2K+1, K+1)."""
    band = state.shape[-1] - 1
    return np.ascontiguousarray(state[:, np.arange(-band, band + 1)])


def state_of(band: Complex, points: int) -> Complex:
    """The inverse of :func:`band_of`, on any number of points that holds the band."""
    kept = band.shape[-1] - 1
    room = (points - 1) // 3
    if kept > room:
        raise ValueError(f"{points} points hold wavenumbers up to {room}, got {kept}; take more points")
    state = np.zeros((len(band), points, room + 1), dtype=np.complex128)
    state[:, np.arange(-kept, kept + 1), : kept + 1] = band
    return state


def evaluate(coefficients: Complex, shape: tuple[int, ...]) -> Real:
    """Σ ĉₖ exp(2πi k·x) at the nodes (j₁/n₁, j₂/n₂) of any grid, exactly: (B, 2K+1, K+1) → (B, n₁, n₂).

    Rows are k₁ = −K … K, columns k₂ = 0 … K. On a grid too coarse for the band the modes alias, as for any function
    that is sampled at points; at common nodes a coarse and a fine grid have the same values.
    """
    fft = _fft()
    band = coefficients.shape[-1] - 1
    n1, n2 = shape
    rows = _fold(coefficients, np.arange(-band, band + 1), n1, axis=-2)
    columns = fft.ifft(rows, axis=-2, norm="forward")  # (B, n₁, K+1)
    # the sum over k₂ < 0 is the conjugate of the one over k₂ > 0: twice the real part, the mean counted once
    columns[..., 1:] *= 2
    folded = _fold(columns, np.arange(band + 1), n2, axis=-1)
    result: Real = np.ascontiguousarray(fft.ifft(folded, axis=-1, norm="forward").real)
    return result


def _fold(values: Complex, k: npt.NDArray[np.int64], n: int, axis: int) -> Complex:
    """Add up the modes that are equal at n points."""
    moved = np.moveaxis(values, axis, 0)
    result = np.zeros((n, *moved.shape[1:]), dtype=np.complex128)
    for mode, part in zip(k, moved, strict=True):
        result[mode % n] += part
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


def _fft() -> Any:
    """The transforms of scipy: faster than numpy's on these sizes."""
    try:
        import scipy.fft
    except ImportError as error:
        raise ImportError("the Navier–Stokes solver needs scipy: pip install 'quadnorm[bench]'") from error
    return scipy.fft


def _pairs(symbol: Real) -> Real:
    """A real multiplier repeated for (re, im) pairs; products of reals have the same bits in every batch."""
    return np.repeat(symbol, 2, axis=-1)
