"""Mesh cells: what kinds there are, and the integrals of their basis functions.

With the reference map x(ξ) = Σ_v x_v φ_v(ξ) and its Jacobian J(ξ), the cell's volume is ∫|J| dξ and the weight of its
vertex v is ∫φ_v|J| dξ. Every integral here is exact, except over a quad that is not flat:

=============  ====  =====================  =======================================================================
kind           dim   vertices               J, and what makes the integral exact
=============  ====  =====================  =======================================================================
line           1     2                      constant
triangle       2     3                      constant
tetrahedron    3     4                      constant
quad           2     4, around              linear: its corner values times the bilinear mass matrix
hexahedron     3     8, bottom then top,    quadratic in each variable: Simpson's rule on 3×3×3 nodes is exact for
                     each around (VTK)      J·φ, cubic in each variable
=============  ====  =====================  =======================================================================

A quad in space has the normal N(ξ) (linear) in place of J: flat quads are exact, warped ones use 6×6 Gauss points.
"""

from dataclasses import dataclass
from itertools import product
from math import factorial

import numpy as np

from quadnorm.measures.geometry.coordinates import FloatArray

_AROUND = ((0, 0), (1, 0), (1, 1), (0, 1))
_HEXAHEDRON = tuple((*xy, z) for z in (0, 1) for xy in _AROUND)  # reference coordinates of the eight vertices


@dataclass(frozen=True)
class CellKind:
    """One kind of cell; ``corners[v]`` are the ``dim`` vertices joined to vertex v by an edge."""

    name: str
    dim: int
    corners: tuple[tuple[int, ...], ...]
    simplex: bool = True

    @property
    def vertices(self) -> int:
        """How many vertices a cell has: the number of columns of its connectivity."""
        return len(self.corners)


def _simplex(name: str, dim: int) -> CellKind:
    return CellKind(name, dim, tuple(tuple(w for w in range(dim + 1) if w != v) for v in range(dim + 1)))


def _cube(name: str, nodes: tuple[tuple[int, ...], ...]) -> CellKind:
    flipped = [[tuple(x ^ (a == axis) for a, x in enumerate(n)) for axis in range(len(n))] for n in nodes]
    return CellKind(name, len(nodes[0]), tuple(tuple(nodes.index(m) for m in row) for row in flipped), simplex=False)


KINDS = {
    kind.name: kind
    for kind in (
        _simplex("line", 1),
        _simplex("triangle", 2),
        _simplex("tetrahedron", 3),
        _cube("quad", _AROUND),
        _cube("hexahedron", _HEXAHEDRON),
    )
}


def volume_element(edges: FloatArray) -> FloatArray:
    """Volume spanned by edge vectors (dim, D, B) -> (B,): signed where dim = D, else the positive length or area."""
    dim, space = edges.shape[:2]
    if dim == space == 1:
        return np.asarray(edges[0, 0])
    if dim == 1:
        return np.asarray(np.sqrt((edges[0] ** 2).sum(0)))
    if space == 2:
        return np.asarray(edges[0, 0] * edges[1, 1] - edges[0, 1] * edges[1, 0])
    if dim == 3:
        return determinant(*edges)
    return np.asarray(np.sqrt((cross(edges[0], edges[1]) ** 2).sum(0)))


def determinant(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Triple product a · (b × c) for component-first arrays (3, ...) that broadcast against each other."""
    out = a[0] * (b[1] * c[2] - b[2] * c[1])
    out -= a[1] * (b[0] * c[2] - b[2] * c[0])
    out += a[2] * (b[0] * c[1] - b[1] * c[0])
    return np.asarray(out)


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross product a × b for component-first arrays (3, ...); several times faster than numpy.cross."""
    return np.stack((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def integrals(kind: CellKind, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Integrate the basis functions of B cells, given their vertices x (k, D, B).

    Returns ∫φ_v|J| (k, B) and min J (B,), a lower bound of the Jacobian oriented so that the cell's volume is
    positive: negative where the cell may fold over itself, zero where it is flat.
    """
    if kind.simplex:
        volume = np.abs(volume_element(x[1:] - x[0])) / factorial(kind.dim)
        return np.broadcast_to(volume / kind.vertices, (kind.vertices, volume.size)), volume
    if kind.name == "hexahedron":
        jacobian = hexahedron_jacobian(x).reshape(27, -1)
        out = _SIMPSON_BASIS @ jacobian
        sign = np.sign(out.sum(0))
        return out * sign, (_BERNSTEIN @ jacobian * sign).min(0)
    return _quad(x)


def _quad(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    bottom, right, top, left = x[1] - x[0], x[2] - x[1], x[2] - x[3], x[3] - x[0]
    pairs = ((bottom, left), (bottom, right), (top, right), (top, left))
    if x.shape[1] == 2:
        corner = np.stack([volume_element(np.stack(pair)) for pair in pairs])  # (4, B)
        sign = np.sign(corner.sum(0))
        return _QUAD_MASS @ corner * sign, (corner * sign).min(0)
    normal = np.stack([cross(*pair) for pair in pairs])  # (4, 3, B)
    mean = normal.mean(0)
    unit = mean / np.maximum(np.sqrt((mean**2).sum(0)), np.finfo(float).tiny)
    length = np.sqrt((np.tensordot(_QUAD_GAUSS, normal, 1) ** 2).sum(1))  # (G, B)
    return _QUAD_GAUSS_BASIS @ length, (normal * unit).sum(1).min(0)


def hexahedron_jacobian(x: FloatArray) -> FloatArray:
    """J of trilinear hexahedra x (8, 3, B) on the nodes {0, ½, 1}³ -> (3, 3, 3, B)."""
    # ∂x/∂ξ_a does not depend on ξ_a, so each derivative is needed on a 3×3 face only and broadcasts along its own axis.
    along = []
    for axis in range(3):
        shape = [3, 3, 3]
        shape[axis] = 1
        along.append(np.tensordot(_HEX_DERIVATIVE[axis], x, 1).reshape(*shape, *x.shape[1:]))
    return determinant(*(np.moveaxis(d, -2, 0) for d in along))


def hexahedron_minimum(x: FloatArray) -> FloatArray:
    """Lowest J of hexahedra (8, 3, B) -> (B,), on a 9×9×9 lattice, oriented like ``integrals``."""
    jacobian = hexahedron_jacobian(x)
    sign = np.sign(np.tensordot(_SIMPSON_BASIS.sum(0), jacobian.reshape(27, -1), 1))
    for _ in range(3):  # refine the first axis and rotate it to the back of the three
        jacobian = np.moveaxis(np.tensordot(_REFINE, jacobian, 1), 0, 2)
    return np.asarray((jacobian * sign).reshape(9**3, -1).min(0))


def _basis(nodes: tuple[tuple[int, ...], ...], at: FloatArray) -> FloatArray:
    """Multilinear basis functions of the vertices ``nodes`` at the places ``at`` (n, dim) -> (n, k)."""
    corner = np.array(nodes)
    return np.asarray(np.where(corner, at[:, None], 1 - at[:, None]).prod(-1))


def _derivative(axis: int) -> FloatArray:
    face = np.array([(*n[:axis], 0.0, *n[axis:]) for n in product((0, 0.5, 1), repeat=2)])
    ahead = face.copy()
    ahead[:, axis] = 1
    return _basis(_HEXAHEDRON, ahead) - _basis(_HEXAHEDRON, face)  # linear along the axis: a difference is exact


def _gauss_square(n: int) -> tuple[FloatArray, FloatArray]:
    t, w = np.polynomial.legendre.leggauss(n)
    at = np.array(list(product((t + 1) / 2, repeat=2)))
    return at, np.outer(w, w).ravel() / 4


def _kron3(m: FloatArray) -> FloatArray:
    return np.kron(m, np.kron(m, m))


_QUAD_MASS = np.array([[4, 2, 1, 2], [2, 4, 2, 1], [1, 2, 4, 2], [2, 1, 2, 4]]) / 36
_AT, _WEIGHT = _gauss_square(6)
_QUAD_GAUSS = _basis(_AROUND, _AT)  # (36, 4)
_QUAD_GAUSS_BASIS = _QUAD_GAUSS.T * _WEIGHT  # (4, 36)
_LATTICE = np.array(list(product((0, 0.5, 1), repeat=3)))
_SIMPSON_BASIS = _basis(_HEXAHEDRON, _LATTICE).T * _kron3(np.array([1, 4, 1]) / 6)  # (8, 27)
_HEX_DERIVATIVE = [_derivative(axis) for axis in range(3)]  # each (9, 8)
# Nodal values of a quadratic -> its Bernstein coefficients, whose minimum bounds the quadratic from below.
_BERNSTEIN = _kron3(np.array([[1, 0, 0], [-0.5, 2, -0.5], [0, 0, 1]]))
_T = np.linspace(0, 1, 9)
_REFINE = np.stack((2 * (_T - 0.5) * (_T - 1), 4 * _T * (1 - _T), 2 * _T * (_T - 0.5)), axis=1)  # (9, 3)
