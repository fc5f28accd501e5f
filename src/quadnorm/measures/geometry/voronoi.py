"""Volumes of Voronoi cells clipped to a domain, from one Delaunay tessellation.

The cell of point i is the part of space nearer to i than to any other point. Its volume is a sum over the Delaunay
simplices around i, each giving a *signed* part, because the cell's corners are the circumcentres of these simplices.
That sum is vectorised over all cells and right for every cell that lies inside the domain. The others, O(N^((d−1)/d))
along the boundary, are built one by one and clipped.

Far ghost points around the domain close all cells: every point is then an interior vertex of the tessellation, also if
there are one or two points only, or all lie on a line. A ghost is further from any place in the domain than the domain
is wide, and some true point is not, so ghosts take nothing away inside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from quadnorm.measures.geometry.cells import cross, determinant
from quadnorm.measures.geometry.coordinates import FloatArray, IntArray

_BLOCK = 1 << 14  # simplices per pass: temporaries stay small
_FLAT = 1e-13  # simplices flatter than this (Hadamard ratio) own nothing; their circumcentre is rounding noise


class UnevenError(RuntimeError):
    """The points are too unevenly spaced for the tessellation to be right in double precision."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: they are too unevenly spaced for a tessellation in double precision (spacings below about 1e-6 "
            "of the domain's width beside large ones); merge points that nearly coincide, or use delaunay_weights"
        )


@dataclass(frozen=True)
class Tessellation:
    """Delaunay simplices of n points (and ghosts after them), with what the Voronoi cells need."""

    points: FloatArray  # (n + ghosts, d)
    simplices: IntArray  # (M, d+1)
    centres: FloatArray  # (M, d): circumcentres; NaN for flat simplices
    volumes: FloatArray  # (n,): exact where the cell lies inside the domain
    reach: FloatArray  # (n,): no place of the cell is further from its point

    def incident(self, which: IntArray) -> tuple[IntArray, IntArray]:
        """Pairs (position in ``which``, simplex) for all simplices around these points, sorted by position."""
        position = np.full(len(self.points), -1)
        position[which] = np.arange(len(which))
        touched = np.flatnonzero((position[self.simplices] >= 0).any(axis=1))
        positions = position[self.simplices[touched]]  # (m, d+1)
        row, column = np.nonzero(positions >= 0)
        order = np.argsort(positions[row, column], kind="stable")
        return positions[row, column][order], touched[row[order]]


def tessellate(points: FloatArray, side: float, simplices_of: Callable[[FloatArray], IntArray]) -> Tessellation:
    """Tessellate distinct points in a domain that lies in the cube of this side around the origin."""
    n, d = points.shape
    ghosts = 1.6 * side * np.array(list(product((-1.0, 1.0), repeat=d)))  # 1.1 diagonals away from the cube's corners
    every = np.concatenate((points, ghosts))
    simplices = simplices_of(every)
    centres = np.empty((len(simplices), d))
    volumes, reach = np.zeros(len(every)), np.zeros(len(every))
    parts = _triangle_parts if d == 2 else _tetrahedron_parts
    for start in range(0, len(simplices), _BLOCK):
        block = np.ascontiguousarray(simplices[start : start + _BLOCK].T)
        x = np.take(every, block, axis=0)  # (d+1, B, d)
        # Edges start from vertex 0. Let it be the middle one: seen from a far vertex the others nearly coincide, and
        # their cross product loses the digits that thin simplices live on.
        x -= x.mean(0)
        first = np.einsum("kbd,kbd->kb", x, x).argmin(0)
        block = np.take_along_axis(block, (first + np.arange(d + 1)[:, None]) % (d + 1), axis=0)
        part, offset = parts(np.take(every, block, axis=0).transpose(0, 2, 1))
        flat = np.isnan(offset[0])
        radius = np.where(flat, 0, np.sqrt((offset**2).sum(0)))
        np.add.at(volumes, block.ravel(), np.where(flat, 0, part).ravel())
        np.maximum.at(reach, block.ravel(), np.broadcast_to(radius, block.shape).ravel())
        centres[start : start + _BLOCK] = every[block[0]] + offset.T
    return Tessellation(every, simplices, centres, volumes[:n], reach[:n])


def qhull(points: FloatArray) -> IntArray:
    """Delaunay simplices (M, d+1) from qhull: fast, any dimension, loses points where spacings differ by 1e6."""
    from scipy.spatial import Delaunay

    delaunay = Delaunay(points)
    lost = len(delaunay.coplanar)  # points that it could not tell from the surface through others
    if lost:
        raise UnevenError(f"{lost} of {len(points)} points got no Voronoi cell")
    return np.asarray(delaunay.simplices, dtype=np.intp)


def geos(points: FloatArray) -> IntArray:
    """Delaunay triangles (M, 3) from GEOS: slower and 2-D only, but its predicates work in doubled precision."""
    import shapely

    triangles = shapely.get_parts(shapely.delaunay_triangles(shapely.multipoints(points)))
    corners = shapely.get_coordinates(triangles).reshape(-1, 4, 2)[:, :3]  # rings repeat their first vertex
    # GEOS hands coordinates back, not indices; complex numbers sort and compare like pairs.
    known, cell_corners = points[:, 0] + 1j * points[:, 1], corners[..., 0] + 1j * corners[..., 1]
    order = np.argsort(known)
    return np.asarray(order[np.searchsorted(known, cell_corners, sorter=order)])


def _triangle_parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Signed areas that triangles x (3, 2, B) give their vertices (3, B), and circumcentre − vertex 0 (2, B).

    Vertex A gets (|AB|² cot C + |AC|² cot B)/8, which stays finite as an angle closes, since |AB| = 2R sin C.
    """
    u, v = x[1] - x[0], x[2] - x[0]
    w = v - u
    uu, vv, ww = (u * u).sum(0), (v * v).sum(0), (w * w).sum(0)
    area2 = u[0] * v[1] - u[1] * v[0]
    area2[np.abs(area2) <= _FLAT * np.sqrt(uu * vv)] = np.nan
    offset = np.stack((v[1] * uu - u[1] * vv, u[0] * vv - v[0] * uu)) / (2 * area2)
    scale = 1 / (8 * np.abs(area2))
    ab, ac, bc = uu * (v * w).sum(0) * scale, -vv * (u * w).sum(0) * scale, ww * (u * v).sum(0) * scale
    return np.stack((ab + ac, ab + bc, ac + bc)), offset


def _tetrahedron_parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Signed volumes that tetrahedra x (4, 3, B) give their vertices (4, B), and circumcentre − vertex 0 (3, B).

    The Voronoi face between i and j cuts the tetrahedron in the quadrilateral (mid, c_ijk, c, c_ijm) of midpoint, face
    centres and circumcentre. It is the base of two pyramids of height |e|/2 with apex i and j, each of volume
    (c−mid)×(c_ijm−c_ijk)·e / 12.
    """
    x = x - x[0]
    squares = (x * x).sum(1)
    normal = [cross(x[2], x[3]), cross(x[3], x[1]), cross(x[1], x[2])]
    det = determinant(x[1], x[2], x[3])
    det[np.abs(det) <= _FLAT * np.sqrt(squares[1:].prod(0))] = np.nan
    centre = (squares[1] * normal[0] + squares[2] * normal[1] + squares[3] * normal[2]) / (2 * det)
    faces = [_face_centre(*(x[v] for v in range(4) if v != opposite)) for opposite in range(4)]
    part = np.zeros((4, x.shape[-1]))
    # (i, j, k, m): the even permutations of the vertices, one for each edge (i, j); faces[m] is (i, j, k).
    for i, j, k, m in ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (1, 2, 0, 3), (1, 3, 2, 0), (2, 3, 0, 1)):
        pyramid = determinant(centre - (x[i] + x[j]) / 2, faces[k] - faces[m], x[j] - x[i])
        part[i] += pyramid
        part[j] += pyramid
    return part * np.sign(det) / 12, centre


def _face_centre(p: FloatArray, q: FloatArray, r: FloatArray) -> FloatArray:
    a, b = q - p, r - p
    n = cross(a, b)
    nn = (n * n).sum(0)
    nn[nn == 0] = np.nan
    return np.asarray(p + cross((a * a).sum(0) * b - (b * b).sum(0) * a, n) / (2 * nn))
