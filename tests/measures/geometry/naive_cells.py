"""Control volumes the slow and obvious way: products on lattices, cells cut out bisector by bisector."""

import numpy as np
from scipy.spatial import ConvexHull, HalfspaceIntersection


def control_volumes(*axes):
    """Half a cell at the ends of each axis, and products of these."""
    out = np.ones(1)
    for a in axes:
        out = np.multiply.outer(out, np.convolve(np.diff(a), [0.5, 0.5]))
    return out.ravel()


def clip(polygon, normal, offset):
    """The part of a convex polygon with normal·x ≤ offset, walking along its edges one by one."""
    out = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        a, b = normal @ p - offset, normal @ q - offset
        if a <= 0:
            out.append(p)
        if a * b < 0:
            out.append(p + (q - p) * (a / (a - b)))
    return out


def shoelace(polygon):
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True)) / 2


def naive_areas(points, outline):
    """Each cell is the outline (convex, counter-clockwise) cut by the bisector with every other point."""
    out = []
    for i, p in enumerate(points):
        cell = [np.array(v, dtype=float) for v in outline]
        for j, q in enumerate(points):
            if i != j:
                # relative to p, so that small cells keep their digits
                cell = [v + p for v in clip([v - p for v in cell], q - p, (q - p) @ (q - p) / 2)]
        out.append(shoelace([v - p for v in cell]) if cell else 0.0)
    return np.array(out)


def naive_volumes(points, walls, count=None):
    """Each cell is the intersection of the walls (n·x + c ≤ 0) and the bisectors with every other point."""
    out = []
    for i, p in enumerate(points[:count]):
        q = np.delete(points, i, axis=0) - p
        half = np.vstack((np.c_[q, -(q**2).sum(1) / 2], np.c_[walls[:, :3], walls[:, :3] @ p + walls[:, 3]]))
        out.append(ConvexHull(HalfspaceIntersection(half, np.zeros(3)).intersections).volume)
    return np.array(out)


BOX_WALLS = np.vstack((np.c_[-np.eye(3), np.zeros(3)], np.c_[np.eye(3), -np.ones(3)]))
