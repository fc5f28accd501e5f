"""Meshes and lattices that the tests of meshes and points build themselves."""

from itertools import permutations

import numpy as np

QUAD = [(0, 0), (1, 0), (1, 1), (0, 1)]
HEX = [(*xy, z) for z in (0, 1) for xy in QUAD]


def lattice(*axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def cubes(*n):
    """Quads or hexahedra of a lattice with n nodes per axis, vertices around, bottom before top."""
    index = np.arange(np.prod(n)).reshape(n)
    corners = QUAD if len(n) == 2 else HEX
    parts = [index[tuple(slice(c, m - 1 + c) for c, m in zip(corner, n, strict=True))].ravel() for corner in corners]
    return np.stack(parts, axis=1)


def triangles(n, m):
    a, b, c, d = cubes(n, m).T
    return np.concatenate((np.stack((a, b, c), 1), np.stack((a, c, d), 1)))


def tetrahedra(n):
    """Six tetrahedra per cube, one for each order of walking from a corner to the opposite one (Kuhn)."""
    cells = cubes(n, n, n)
    walk = {corner: cells[:, v] for v, corner in enumerate(HEX)}
    out = []
    for order in permutations(range(3)):
        path, at = [walk[0, 0, 0]], [0, 0, 0]
        for axis in order:
            at[axis] = 1
            path.append(walk[tuple(at)])
        out.append(np.stack(path, 1))
    return np.concatenate(out)


def octasphere(levels):
    """The octahedron, each face split in four again and again, vertices pushed out to the unit sphere."""
    x = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = x[[[a, b, c] for a in (0, 1) for b in (2, 3) for c in (4, 5)]]  # (8, 3, 3)
    for _ in range(levels):
        a, b, c = faces.transpose(1, 0, 2)
        ab, bc, ca = a + b, b + c, c + a
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = np.concatenate([np.stack(p, 1) for p in parts])
        faces /= np.linalg.norm(faces, axis=2, keepdims=True)
    points, cells = np.unique(faces.reshape(-1, 3).round(12), axis=0, return_inverse=True)
    return points, cells.reshape(-1, 3)


def dense_integrals(corners, x):
    """∫φ_v|J| of one multilinear cell by brute force: 12 Gauss points per axis, determinants one by one."""
    t, w = np.polynomial.legendre.leggauss(12)
    t, w = (t + 1) / 2, w / 2
    dim = len(corners[0])
    out = np.zeros(len(corners))
    for index in np.ndindex(*(12,) * dim):
        at = t[list(index)]
        factors = np.where(np.array(corners) == 1, at, 1 - at)  # (k, dim)
        slopes = np.where(np.array(corners) == 1, 1.0, -1.0)
        gradient = np.stack([np.delete(factors, a, 1).prod(1) * slopes[:, a] for a in range(dim)])  # (dim, k)
        tangents = gradient @ x  # (dim, D)
        out += factors.prod(1) * np.sqrt(np.linalg.det(tangents @ tangents.T)) * w[list(index)].prod()
    return out
