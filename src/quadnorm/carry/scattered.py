"""Maps between point clouds and meshes: linear on the triangles (tetrahedra) between the points."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm.measures._cache import CACHE


def linear_map(source: Any, target: Any) -> tuple[Tensor, Tensor]:
    r"""Indices into the source points and weights, (M, d+1) each: :math:`f(t) \approx \sum_k w_k f(s_{i_k})`.

    Barycentric on the Delaunay triangulation of the source points: exact for linear fields, order 2. Targets
    outside of their convex hull take the nearest source point's value; targets that are source points take theirs.

    >>> index, weight = linear_map([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[0.25, 0.25]])
    >>> f = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)  # x + 2y
    >>> (f[index] * weight).sum(1)
    tensor([0.7500], dtype=torch.float64)
    """
    s, t = _points(source, "source"), _points(target, "target")
    if s.shape[1] != t.shape[1]:
        raise ValueError(f"the clouds have {s.shape[1]} and {t.shape[1]} dimensions; expected the same")
    key = tuple(hashlib.blake2b(a.tobytes(), digest_size=16).hexdigest() + str(a.shape) for a in (s, t))
    packed = CACHE.get(("scattered", *key), lambda: torch.from_numpy(_build(s, t)))
    k = packed.shape[1] // 2
    return packed[:, :k].long(), packed[:, k:]


def _points(points: Any, which: str) -> np.ndarray:
    p = np.ascontiguousarray(torch.as_tensor(points, device="cpu").detach().double().numpy())
    if p.ndim != 2 or p.shape[0] < 1 or not 1 <= p.shape[1] <= 3:
        raise ValueError(f"{which} points must have shape (N, d) with d from 1 to 3, got {p.shape}")
    if not np.isfinite(p).all():
        raise ValueError(f"{which} points hold NaN or infinite coordinates")
    return p


def _build(s: np.ndarray, t: np.ndarray) -> np.ndarray:
    try:
        from scipy.spatial import Delaunay, KDTree
    except ImportError:
        raise ImportError("carrying fields between meshes needs scipy: pip install 'quadnorm[mesh]'") from None
    d = s.shape[1]
    gap, nearest = KDTree(s).query(t)
    index = np.repeat(nearest[:, None], d + 1, axis=1)
    weight = np.zeros((len(t), d + 1))
    weight[:, 0] = 1
    between = gap > 1e-12 * np.ptp(s, axis=0).max(initial=0)
    if d == 1 and len(s) > 1:
        order = np.argsort(s[:, 0])
        x, at = s[order, 0], t[between, 0]
        k = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
        share = np.clip((at - x[k]) / (x[k + 1] - x[k]), 0, 1)
        index[between], weight[between] = np.stack([order[k], order[k + 1]], 1), np.stack([1 - share, share], 1)
    elif d > 1 and len(s) > d:
        mesh = Delaunay(s)
        cell = mesh.find_simplex(t)
        inside = between & (cell >= 0)
        frame = mesh.transform[cell[inside]]  # (M, d+1, d)
        b = np.einsum("mij,mj->mi", frame[:, :d], t[inside] - frame[:, d])
        index[inside] = mesh.simplices[cell[inside]]
        weight[inside] = np.concatenate([b, 1 - b.sum(1, keepdims=True)], 1)
    return np.concatenate([index.astype(np.float64), weight], 1)
