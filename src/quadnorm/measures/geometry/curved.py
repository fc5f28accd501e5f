"""Quadratic cells: nodes beside the corners, curved edges and faces.

The reference map x(ξ) = Σ_v x_v φ_v(ξ) is quadratic, the volume is ∫|J| dξ by Gauss points. Row sums ∫φ_v|J| dξ,
which are right for straight cells, vanish at the corners of a triangle and are negative at those of a tetrahedron: they
are no measure. So the volume is shared among the nodes in proportion to the diagonal of the mass matrix,

    w_v = |T| · ∫φ_v²|J| / Σ_u ∫φ_u²|J|,

positive everywhere and, on cells with straight edges and nodes half-way, exact for linear functions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from quadnorm.measures.geometry.cells import volume_element
from quadnorm.measures.geometry.coordinates import FloatArray

_GAUSS = 5  # points per direction: exact to degree 9 on cubes, 8 on simplices


@dataclass(frozen=True)
class CurvedKind:
    """One kind of quadratic cell: ``nodes`` in reference coordinates, VTK's order; ``powers`` of the monomials."""

    name: str
    dim: int
    nodes: tuple[tuple[float, ...], ...]
    powers: tuple[tuple[int, ...], ...]
    simplex: bool

    @property
    def vertices(self) -> int:
        """How many nodes a cell has: the number of columns of its connectivity."""
        return len(self.nodes)

    @cached_property
    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gauss weights (G,), the basis there (G, k) and its gradient (dim, G, k)."""
        at, weights = _simplex_points(self.dim) if self.simplex else _cube_points(self.dim)
        to_basis = np.linalg.inv(_monomials(np.array(self.nodes), self.powers))
        gradient = [_monomials(at, self.powers, axis) @ to_basis for axis in range(self.dim)]
        return weights, _monomials(at, self.powers) @ to_basis, np.stack(gradient)


def curved_integrals(kind: CurvedKind, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The nodes' shares of the volume (k, B) of B cells x (k, D, B), and the lowest Jacobian (B,) at Gauss points."""
    weights, basis, gradient = kind.tables
    tangents = np.einsum("agk,kdb->adgb", gradient, x).reshape(kind.dim, x.shape[1], -1)
    jacobian = volume_element(tangents).reshape(len(weights), -1)  # (G, B)
    volume = weights @ jacobian
    jacobian = jacobian * np.sign(volume)
    mass = (basis**2 * weights[:, None]).T @ jacobian  # (k, B), the diagonal
    total = np.maximum(mass.sum(0), np.finfo(float).tiny)  # zero where the cell is flat
    return np.abs(volume) * mass / total, jacobian.min(0)


def _monomials(at: FloatArray, powers: tuple[tuple[int, ...], ...], axis: int | None = None) -> FloatArray:
    """Monomials (n, k) at places (n, dim), or their derivatives along an axis."""
    p = np.array(powers)
    factor = np.ones(len(p))
    if axis is not None:
        factor, p = p[:, axis].astype(float), p - (np.arange(p.shape[1]) == axis)
    return np.asarray(factor * (at[:, None] ** np.maximum(p, 0)).prod(-1))


def _cube_points(dim: int) -> tuple[FloatArray, FloatArray]:
    t, w = np.polynomial.legendre.leggauss(_GAUSS)
    at = np.array(list(product((t + 1) / 2, repeat=dim)))
    return at, np.array(list(product(w / 2, repeat=dim))).prod(1)


def _simplex_points(dim: int) -> tuple[FloatArray, FloatArray]:
    """The cube's points folded into the simplex: x₁ = t₁, x₂ = t₂(1 − t₁), …, with that map's Jacobian."""
    at, weights = _cube_points(dim)
    room = np.ones(len(at))  # 1 − x₁ − … − x_a
    out = np.empty_like(at)
    for axis in range(dim):
        out[:, axis] = at[:, axis] * room
        weights = weights * room
        room = room - out[:, axis]
    return out, weights


def _middles(corners: Iterable[tuple[float, ...]], edges: str) -> tuple[tuple[float, ...], ...]:
    """Corners and the middles of edges such as ``"01 12 20"``."""
    at = np.array(list(corners))
    middles = [(at[int(edge[0])] + at[int(edge[1])]) / 2 for edge in edges.split()]
    return tuple(map(tuple, np.concatenate([at, middles]).tolist()))


def _complete(dim: int) -> tuple[tuple[int, ...], ...]:
    return tuple(p for p in product(range(3), repeat=dim) if sum(p) <= 2)


def _serendipity(dim: int) -> tuple[tuple[int, ...], ...]:
    """At most one variable squared, the others at most linear."""
    return tuple(p for p in product(range(3), repeat=dim) if p.count(2) <= 1)


def _tensor(dim: int) -> tuple[tuple[int, ...], ...]:
    return tuple(product(range(3), repeat=dim))


_SQUARE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
_CUBE = tuple((*xy, z) for z in (0.0, 1.0) for xy in _SQUARE)
_TRIANGLE = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
_TETRAHEDRON = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_QUAD8 = _middles(_SQUARE, "01 12 23 30")
_HEX20 = _middles(_CUBE, "01 12 23 30 45 56 67 74 04 15 26 37")
_FACES = ((0.0, 0.5, 0.5), (1.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.5, 1.0, 0.5), (0.5, 0.5, 0.0), (0.5, 0.5, 1.0))

CURVED = {
    kind.name: kind
    for kind in (
        CurvedKind("line3", 1, ((0.0,), (1.0,), (0.5,)), _complete(1), True),
        CurvedKind("triangle6", 2, _middles(_TRIANGLE, "01 12 20"), _complete(2), True),
        CurvedKind("tetrahedron10", 3, _middles(_TETRAHEDRON, "01 12 20 03 13 23"), _complete(3), True),
        CurvedKind("quad8", 2, _QUAD8, _serendipity(2), False),
        CurvedKind("quad9", 2, (*_QUAD8, (0.5, 0.5)), _tensor(2), False),
        CurvedKind("hexahedron20", 3, _HEX20, _serendipity(3), False),
        CurvedKind("hexahedron27", 3, (*_HEX20, *_FACES, (0.5, 0.5, 0.5)), _tensor(3), False),
    )
}
