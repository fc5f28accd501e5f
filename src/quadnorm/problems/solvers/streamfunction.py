"""Steady incompressible flow in the unit square from its streamfunction: second-order differences, sine transforms.

    u = ∂ψ/∂y, v = −∂ψ/∂x, ω = −Δψ,      u·∇ω = νΔω + s,      ψ = 0 on the walls,

with velocity g(x) along the lid y = 1 and rest on the other walls. Nodes are (i/N, j/N), 0 ≤ i, j ≤ N, arrays [x, y].
Laplacians are 5-point, convection central, and the wall vorticity is Thom's, ω = −2(ψ₁ − hψₙ)/h² with ψ₁ the value
beside the wall: of second order throughout.

The convection-free (Stokes) problem is solved exactly: with L the 5-point −Δ, and E the map from wall values to the
nodes beside the walls,

    ψ = L⁻²(ρ + E w/h²),      (h⁴/2 + Eᵀ L⁻² E) w = −h² Eᵀ L⁻² ρ − h³ g,

where L is diagonal in sines and the matrix of the walls has closed-form entries. Convection is then
iterated, ρ = (s − u·∇ω)/ν, with Anderson acceleration.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]

_HISTORY = 15  # iterates that Anderson's method combines


@dataclass(frozen=True)
class Flow:
    """ψ on all nodes (N+1, N+1), and the record of its iteration."""

    psi: Real
    iterations: int
    change: float

    def velocity(self, lid: Real) -> Real:
        """(u, v) on all nodes, (2, N+1, N+1): central differences inside, the walls' own values on them."""
        n = len(self.psi) - 1
        result = np.zeros((2, n + 1, n + 1))
        result[0, 1:-1, 1:-1] = (self.psi[1:-1, 2:] - self.psi[1:-1, :-2]) * (n / 2)
        result[1, 1:-1, 1:-1] = (self.psi[:-2, 1:-1] - self.psi[2:, 1:-1]) * (n / 2)
        result[0, :, -1] = lid
        return result


def solve(
    lid: Real, viscosity: float, source: Real | None = None, *, tol: float = 1e-11, iterations: int = 200
) -> Flow:
    """The steady flow under a lid.

    Args:
        lid: g on the N+1 nodes of the lid; its values in the two corners are not used.
        viscosity: ν; with unit speed and side, 1/Re.
        source: s on the inner nodes (N−1, N−1), the curl of a body force; default none.
        tol: relative change of ψ between two iterations at which to stop.
        iterations: largest number of iterations; an error if the flow has not converged by then.
    """
    n = len(lid) - 1
    stokes = _stokes(n)
    s = 0.0 if source is None else source
    wall = np.ascontiguousarray(lid[1:-1])

    def step(psi: Real) -> Real:
        return stokes.solve((s - convection(psi, lid)) / viscosity, wall)

    now = stokes.solve(np.zeros((n - 1, n - 1)) + s / viscosity, wall)
    limit = 1e3 * float(np.abs(now).max())
    mixer = _Anderson()
    change = 0.0
    for count in range(1, iterations + 1):
        image = step(now)
        size = float(np.abs(image).max())
        change = float(np.abs(image - now).max()) / size if size > 0 else 0.0
        if change < tol:
            return Flow(np.pad(image, 1), count, change)
        if not size < limit:  # also where it is NaN
            break
        now = mixer.next(now, image)
    raise RuntimeError(
        f"no steady flow within {iterations} iterations (relative change {change:.2g}, tolerance {tol:.2g}); "
        f"the Reynolds number {float(np.abs(lid).max()) / viscosity:.4g} may be too high for this solver"
    )


def convection(psi: Real, lid: Real) -> Real:
    """u·∇ω on the inner nodes (N−1, N−1) by central differences, from ψ there and the lid."""
    n = len(lid) - 1
    full = np.pad(psi, 1)
    omega = vorticity(psi, lid)
    u = full[1:-1, 2:] - full[1:-1, :-2]
    v = full[:-2, 1:-1] - full[2:, 1:-1]
    result: Real = u * (omega[2:, 1:-1] - omega[:-2, 1:-1]) + v * (omega[1:-1, 2:] - omega[1:-1, :-2])
    result *= n * n / 4
    return result


def vorticity(psi: Real, lid: Real) -> Real:
    """ω on all nodes (N+1, N+1) from ψ on the inner ones; zero in the corners, which no difference uses."""
    n = len(lid) - 1
    omega = np.zeros((n + 1, n + 1))
    omega[1:-1, 1:-1] = minus_laplacian(np.pad(psi, 1))
    omega[1:-1, 0] = -2 * n * n * psi[:, 0]
    omega[1:-1, -1] = -2 * n * n * psi[:, -1] - 2 * n * lid[1:-1]
    omega[0, 1:-1] = -2 * n * n * psi[0]
    omega[-1, 1:-1] = -2 * n * n * psi[-1]
    return omega


def minus_laplacian(values: Real) -> Real:
    """The 5-point −Δ of values on all nodes, on the inner ones."""
    n = len(values) - 1
    centre = values[1:-1, 1:-1]
    around = values[2:, 1:-1] + values[:-2, 1:-1] + values[1:-1, 2:] + values[1:-1, :-2]
    return np.asarray((4 * centre - around) * (n * n))


class _Stokes:
    """The exact inverse of the discrete Stokes problem on one grid.

    Sines of odd and even number do not mix: sums and differences of opposite walls split the system into four blocks.
    BLAS is not used: its sums depend on the number of threads, and a sample's bits must not.
    """

    def __init__(self, n: int) -> None:
        k = np.arange(1, n)
        eigen = 4 * n * n * np.sin(np.pi * k / (2 * n)) ** 2
        inverse = (eigen[:, None] + eigen[None, :]) ** -2  # of L², in sines
        beside = 2 / np.sqrt(n) * np.sin(np.pi * k / n)  # √2 times the sines at the first inner node
        self.n, self.inverse = n, inverse
        self.blocks = []
        for p in range(2):
            for q in range(2):
                ep, eq, part = beside[p::2], beside[q::2], inverse[p::2, q::2]
                matrix = np.block(
                    [
                        [np.diag((part * eq**2).sum(axis=1)), ep[:, None] * part * eq],
                        [(ep[:, None] * part * eq).T, np.diag((part * ep[:, None] ** 2).sum(axis=0))],
                    ]
                )
                matrix[np.diag_indices(len(matrix))] += 0.5 / n**4
                self.blocks.append((p, q, ep, eq, _inverse(matrix)))

    def solve(self, rho: Real, lid: Real) -> Real:
        """ψ on the inner nodes, from ρ there and the lid."""
        import scipy.fft

        n = self.n
        spectrum = scipy.fft.dstn(rho, type=1, norm="ortho")
        spectrum *= self.inverse
        g = scipy.fft.dst(lid, type=1, norm="ortho") / (np.sqrt(2) * n**3)
        for p, q, ep, eq, wall in self.blocks:
            part = spectrum[p::2, q::2]
            # the lid is half the sum (odd sines across) and minus half the difference (even ones) of the two walls
            along = np.einsum("mn,n->m", part, eq) / n**2 + (g[p::2] if q == 0 else -g[p::2])
            load = np.concatenate([along, np.einsum("mn,m->n", part, ep) / n**2])
            w = np.einsum("ij,j->i", wall, -load)
            part += (w[: len(ep), None] * eq + ep[:, None] * w[len(ep) :]) * (self.inverse[p::2, q::2] * n**2)
        result: Real = scipy.fft.idstn(spectrum, type=1, norm="ortho", overwrite_x=True)
        return result


def _inverse(matrix: Real) -> Real:
    """Gauss–Jordan without pivoting, stable for a symmetric positive definite matrix."""
    a = matrix.copy()
    for k in range(len(a)):
        pivot = a[k, k]
        row = a[k] / pivot
        column = a[:, k].copy()
        a -= column[:, None] * row
        a[k] = row
        a[:, k] = -column / pivot
        a[k, k] = 1 / pivot
    return a


@lru_cache(maxsize=4)
def _stokes(n: int) -> _Stokes:
    try:
        import scipy.fft  # noqa: F401
    except ImportError as error:
        raise ImportError("the cavity solver needs scipy: pip install 'quadnorm[bench]'") from error
    return _Stokes(n)


class _Anderson:
    """Anderson's combination of a fixed-point map's images: the one of smallest residual (least squares)."""

    def __init__(self) -> None:
        self.images: list[Real] = []
        self.residuals: list[Real] = []
        self.gram = np.zeros((0, 0))  # of the residuals

    def next(self, point: Real, image: Real) -> Real:
        residual = (image - point).reshape(-1)
        row = [float(np.einsum("i,i->", residual, r)) for r in (*self.residuals, residual)]
        gram = np.zeros((len(row), len(row)))
        gram[:-1, :-1] = self.gram
        gram[-1], gram[:, -1] = row, row
        self.images, self.residuals = [*self.images, image][-_HISTORY:], [*self.residuals, residual][-_HISTORY:]
        self.gram = gram = gram[-_HISTORY:, -_HISTORY:]
        if len(gram) == 1:
            return image
        # Differences from the last residual, each scaled to length one.
        d = gram[:-1, :-1] - gram[:-1, -1:] - gram[-1:, :-1] + gram[-1, -1]
        scale = 1 / np.sqrt(np.maximum(np.diag(d), np.finfo(float).tiny))
        right = (gram[:-1, -1] - gram[-1, -1]) * scale
        weights = scale * np.linalg.lstsq(d * np.outer(scale, scale), -right, rcond=1e-13)[0]
        mixed = image.copy()
        for weight, other in zip(weights, self.images[:-1], strict=True):
            mixed += weight * (other - image)
        return mixed
