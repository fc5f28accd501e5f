"""Biquadratic finite elements on K×K squares of the unit square: assembly by scikit-fem, fields as grids of nodes.

The nodes are the endpoint-inclusive grid of 2K+1 per axis; a field is an array (…, 2K+1, 2K+1) over (x, y). Order 3 in
L² for smooth solutions, 4 at the nodes of the squares' corners.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Forms = dict[str, Any]
Stiffness = Callable[..., Any]


@lru_cache(maxsize=2)
def forms(cells: int) -> Forms:
    """Sparse matrices of ∫uv (``mass``) and ∫∂_a u ∂_b v (``xx``, ``xy``, ``yy``; row v, column u), nodes row-major."""
    try:
        from skfem import Basis, BilinearForm, ElementQuad2, MeshQuad
    except ImportError as error:
        raise ImportError("problems on meshes need scikit-fem: pip install 'quadnorm[mesh]'") from error
    line = np.linspace(0, 1, cells + 1)
    basis = Basis(MeshQuad.init_tensor(line, line), ElementQuad2(), intorder=4)
    i, j = np.rint(basis.doflocs * (2 * cells)).astype(np.int64)
    node = i * (2 * cells + 1) + j  # of each degree of freedom
    order = np.argsort(node)

    def matrix(integrand: Callable[..., Any]) -> Any:
        return BilinearForm(integrand).assemble(basis).tocsr()[order][:, order]

    return {
        "mass": matrix(lambda u, v, _: u * v),
        "xx": matrix(lambda u, v, _: u.grad[0] * v.grad[0]),
        "xy": matrix(lambda u, v, _: u.grad[0] * v.grad[1]),
        "yy": matrix(lambda u, v, _: u.grad[1] * v.grad[1]),
    }


@lru_cache(maxsize=4)
def factored(stiffness: Stiffness, cells: int, material: tuple[float, ...]) -> tuple[Any, Any, npt.NDArray[np.int64]]:
    """LU factors of the clamped system, the mass matrix, and the inner nodes; once for all samples."""
    from scipy.sparse.linalg import splu

    parts = forms(cells)
    n = 2 * cells + 1
    inner = np.arange(n * n).reshape(n, n)[1:-1, 1:-1].ravel()
    whole = stiffness(parts, *material).tocsr()
    count = whole.shape[0] // (n * n)
    free = np.concatenate([inner + k * n * n for k in range(count)])
    lu = splu(whole[free][:, free].tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return lu, parts["mass"], inner


def solve(stiffness: Stiffness, cells: int, material: tuple[float, ...], load: F64) -> F64:
    """The solution u (C, 2K+1, 2K+1), 0 on the boundary, for a load f (C, 2K+1, 2K+1) given at the nodes."""
    lu, mass, inner = factored(stiffness, cells, material)
    count, n = len(load), load.shape[-1]
    right = np.concatenate([(mass @ f.ravel())[inner] for f in load])
    u = np.zeros((count, n * n))
    u[:, inner] = lu.solve(right).reshape(count, -1)
    return u.reshape(count, n, n)


def evaluate(u: npt.NDArray[Any], points: F64) -> F64:
    """The finite element function with nodal values u (…, 2K+1, 2K+1) at points (N, 2) of the square: (…, N).

    >>> line = np.linspace(0, 1, 5)
    >>> evaluate(line[:, None] ** 2 * line, np.array([[0.3, 0.7], [1.0, 1.0]])).round(12).tolist()
    [0.063, 1.0]
    """
    cells = (u.shape[-1] - 1) // 2
    at = np.clip(points, 0, 1) * cells
    cell = np.minimum(at.astype(np.int64), cells - 1)  # (N, 2)
    t = at - cell
    # Lagrange's polynomials of the nodes 0, ½, 1: exactly 0 and 1 at them, so boundary values stay exact.
    shape = np.stack([(2 * t - 1) * (t - 1), 4 * t * (1 - t), t * (2 * t - 1)])  # (3, N, 2)
    out = np.zeros((*u.shape[:-2], len(points)))
    for a in range(3):
        for b in range(3):
            out += shape[a, :, 0] * shape[b, :, 1] * u[..., 2 * cell[:, 0] + a, 2 * cell[:, 1] + b]
    return out
