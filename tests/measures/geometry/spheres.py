"""Points on the sphere, each made from its definition: HEALPix, Gaussian grids, icosahedra."""

import numpy as np


def healpix(nside):
    """Centres (12·nside², 3) of HEALPix pixels: 1/3-spaced rings in z around the equator, 1 − i²/(3·nside²) at the
    caps (Górski et al. 2005, eqs. 4–9); all pixels have the area 4π/(12·nside²).
    """
    out = []
    for i in range(1, 4 * nside):
        if i < nside:
            z, count, shift = 1 - i**2 / (3 * nside**2), 4 * i, 0.5
        elif i <= 3 * nside:
            z, count, shift = 4 / 3 - 2 * i / (3 * nside), 4 * nside, 0.5 * ((i - nside + 1) % 2)
        else:
            k = 4 * nside - i
            z, count, shift = -(1 - k**2 / (3 * nside**2)), 4 * k, 0.5
        phi = 2 * np.pi * (np.arange(count) + shift) / count
        r = np.sqrt(1 - z**2)
        out.append(np.stack((r * np.cos(phi), r * np.sin(phi), np.full(count, z)), axis=1))
    return np.concatenate(out)


def reduced_gaussian(n):
    """Latitudes, longitudes and exact areas of the octahedral reduced Gaussian grid O(n): 4k + 16 points on the k-th
    of 2n latitudes, k from a pole."""
    z, w = np.polynomial.legendre.leggauss(2 * n)
    lat, lon, area = [], [], []
    for k, (z_, w_) in enumerate(zip(z, w, strict=True)):
        count = 4 * (min(k, 2 * n - 1 - k) + 1) + 16
        lat += [np.degrees(np.arcsin(z_))] * count
        lon += (360 * np.arange(count) / count).tolist()
        area += [2 * np.pi * w_ / count] * count
    return np.array(lat), np.array(lon), np.array(area)


def icosahedron(splits):
    """Vertices (N, 3) on the unit sphere and triangles (20·4^splits, 3) of an icosahedron whose faces are halved."""
    g = (1 + 5**0.5) / 2
    vertices = [np.roll((0, a, b * g), k) for k in range(3) for a in (-1, 1) for b in (-1, 1)]
    points = np.array(vertices) / np.hypot(1, g)
    near = np.linalg.norm(points[:, None] - points, axis=2) < 1.1
    faces = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
    ]
    triangles = np.array(faces)
    for _ in range(splits):
        edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        unique, at = np.unique(edges, axis=0, return_inverse=True)
        middles = points[unique].sum(1)
        a, b, c = triangles.T
        ab, bc, ca = (at.reshape(-1, 3) + len(points)).T
        points = np.concatenate((points, middles / np.linalg.norm(middles, axis=1, keepdims=True)))
        triangles = np.concatenate([np.stack(t, 1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
    return points, triangles


def spherical_excess(a, b, c):
    """Area of a spherical triangle by Girard's theorem: the sum of its angles less π; slow and sure."""

    def angle(p, q, r):
        u, v = q - p * (p @ q), r - p * (p @ r)
        return np.arccos(np.clip(u @ v / np.linalg.norm(u) / np.linalg.norm(v), -1, 1))

    return angle(a, b, c) + angle(b, c, a) + angle(c, a, b) - np.pi
