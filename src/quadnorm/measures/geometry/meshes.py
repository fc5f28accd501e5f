"""Weights of a mesh: the volume of each cell, and the share of each vertex."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from quadnorm._suggest import unknown
from quadnorm.measures.geometry.cells import KINDS, CellKind, hexahedron_minimum, integrals
from quadnorm.measures.geometry.coordinates import FloatArray, IntArray, as_points, to_numpy
from quadnorm.measures.geometry.curved import CURVED, CurvedKind, curved_integrals
from quadnorm.measures.geometry.mesh_objects import mesh_arrays

_BLOCK = 1 << 12  # cells per pass: a block and its temporaries stay in the cache
_ROUNDING = 32 * float(np.finfo(float).eps)
_WORD = {1: "length", 2: "area", 3: "volume"}

Kind = CellKind | CurvedKind
ALL_KINDS: dict[str, Kind] = {**KINDS, **CURVED}


class _Block(NamedTuple):
    cells: IntArray  # (k, B)
    basis: FloatArray  # (k, B): ∫φ_v over each cell


def cell_weights(points: Any, cells: Any = None) -> torch.Tensor:
    """Volume of each cell, |T| = ∫_T dx (length of a line, area of a surface).

    Args:
        points: vertex coordinates (N, D), D = 1, 2 or 3; or, alone, a mesh of scikit-fem or anything with ``.points``
            and ``.cells`` as meshio names them. Cells of a lower dimension beside it are left out, and the log says so.
        cells: connectivity (M, k) of integers; k tells the kind: 2 lines, 3 triangles, 8 hexahedra, and 4 quads in the
            plane but tetrahedra in space. Mixed meshes, and quads in space, say it in a mapping from ``"line"``,
            ``"triangle"``, ``"quad"``, ``"tetrahedron"``, ``"hexahedron"`` to such arrays; all of one dimension.
            Quadratic cells are known by name only: ``"line3"``, ``"triangle6"``, ``"quad8"``, ``"quad9"``,
            ``"tetrahedron10"``, ``"hexahedron20"``, ``"hexahedron27"``, nodes in VTK's order.

    Vertices of quads go around (either way), of hexahedra around the bottom and then around the top (VTK order).
    Inverted cells count positively. Flat cells, cells folded over themselves (J changes sign), and indices out of range
    are refused. Exact for all cells but warped quads in space (a bilinear patch, integrated with 6×6 Gauss points) and
    curved surfaces and lines (5 Gauss points per direction).

    Returns: float64 tensor (M,), the cells of a mapping one kind after the other in its order.

    >>> cell_weights([[0., 0], [2, 0], [2, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    tensor([1., 1.], dtype=torch.float64)

    ``cell_weights(skfem.MeshTri())`` and ``cell_weights(meshio.read("part.msh"))`` take the mesh itself.
    """
    x, groups = _mesh(points, cells)
    parts = [np.concatenate([b.basis.sum(0) for b in _blocks(x, kind, c)]) for kind, c in groups if len(c)]
    return torch.from_numpy(np.concatenate(parts))


def lumped_weights(points: Any, cells: Any = None) -> torch.Tensor:
    """Weight of each vertex: the integral of its basis function, w_v = Σ_T ∫_T φ_v dx (the lumped mass matrix).

    Σ_v w_v f(x_v) integrates the interpolant of f exactly, so it has order 2 on refined meshes; the weights sum to the
    mesh's volume. A simplex gives each vertex |T|/(dim+1). A vertex that no cell uses gets 0. Quadratic cells share
    their volume by the diagonal of the mass matrix, because these integrals vanish at the corners of a triangle and are
    negative at those of a tetrahedron. Arguments and refusals as in `cell_weights`; warped quads in space as there.

    Returns: float64 tensor (N,).

    >>> lumped_weights([[0., 0], [1, 0], [1, 1], [0, 1], [9, 9]], {"quad": [[0, 1, 2, 3]]})
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.0000], dtype=torch.float64)
    """
    x, groups = _mesh(points, cells)
    out = np.zeros(len(x))
    for kind, connectivity in groups:
        for block in _blocks(x, kind, connectivity):
            np.add.at(out, block.cells.ravel(), block.basis.ravel())  # flat and contiguous: numpy's fast path
    return torch.from_numpy(out)


def _mesh(points: Any, cells: Any) -> tuple[FloatArray, list[tuple[Kind, npt.NDArray[Any]]]]:
    """Check a mesh and sort its cells by kind."""
    if cells is None:
        points, cells = mesh_arrays(points)
    x = as_points(points)
    if isinstance(cells, Mapping):
        groups: list[tuple[Kind, npt.NDArray[Any]]] = []
        for name, array in cells.items():
            if name not in ALL_KINDS:
                raise ValueError(unknown("kind of cell", name, ALL_KINDS))
            kind = ALL_KINDS[name]
            groups.append((kind, _connectivity(array, len(x), f"cells[{name!r}]", kind.vertices)))
        if len({kind.dim for kind, c in groups if len(c)}) > 1:
            got = ", ".join(f"{kind.name} ({kind.dim}-D)" for kind, c in groups if len(c))
            raise ValueError(f"cells mix dimensions: {got}; lengths, areas and volumes do not add up: weigh them apart")
    else:
        array = _connectivity(cells, len(x), "cells")
        groups = [(_guess(array.shape[1], x.shape[1]), array)]
    if not any(len(c) for _, c in groups):
        raise ValueError("there are no cells: a mesh needs at least one")
    for kind, _ in groups:
        if kind.dim > x.shape[1]:
            raise ValueError(f"a {kind.name} is {kind.dim}-D but points are {x.shape[1]}-D: got shape {x.shape}")
    return x, groups


def _connectivity(cells: Any, n: int, name: str, columns: int | None = None) -> npt.NDArray[Any]:
    array = to_numpy(cells)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers (vertex indices), got dtype {array.dtype}; cast it, e.g. to int64")
    if array.ndim != 2 or (columns or array.shape[1]) != array.shape[1]:
        want = f"(M, {columns})" if columns else "(M, k), one row of vertex indices per cell"
        raise ValueError(f"{name} must be {want}, got shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= n):
        bad = np.flatnonzero(((array < 0) | (array >= n)).any(axis=1))
        raise ValueError(
            f"{bad.size} of {len(array)} cells point outside the {n} points, the first is {name} row {bad[0]}: "
            f"{array[bad[0]].tolist()}; indices run from 0 to {n - 1}"
        )
    return array


def _guess(columns: int, space: int) -> CellKind:
    quad = "quad" if space == 2 else "tetrahedron"
    name = {2: "line", 3: "triangle", 4: quad, 8: "hexahedron"}.get(columns)
    if name is None:
        raise ValueError(
            f"cells have {columns} vertices each; expected 2 (line), 3 (triangle), 4 (quad in 2-D, tetrahedron in 3-D) "
            "or 8 (hexahedron); mixed meshes are a mapping such as {'triangle': …, 'quad': …}"
        )
    return KINDS[name]


def _blocks(x: FloatArray, kind: Kind, cells: npt.NDArray[Any]) -> Iterator[_Block]:
    """Integrate block by block, so that memory stays small whatever the mesh; complain at the end about all cells."""
    # No cell's rounding error can exceed that of a cell as large as the mesh: larger Jacobians need no closer look.
    low, high = (np.array([f(column) for column in x.T]) for f in (np.min, np.max))  # 10× faster than axis=0
    size = float(np.linalg.norm(high - low))
    safe = _ROUNDING * kind.dim * (size + max(-low.min(), high.max())) * size ** (kind.dim - 1)
    flat: list[IntArray] = []
    folded: list[IntArray] = []
    for start in range(0, len(cells), _BLOCK):
        block = np.ascontiguousarray(cells[start : start + _BLOCK].T, dtype=np.intp)
        vertices = np.take(x, block, axis=0, mode="clip").transpose(0, 2, 1)  # (k, D, B); range was checked
        if isinstance(kind, CurvedKind):
            basis, lowest = curved_integrals(kind, vertices)
            doubtful = np.flatnonzero(lowest <= safe)
            is_flat = basis[:, doubtful].sum(0) <= safe
            is_folded = ~is_flat
        else:
            basis, lowest = integrals(kind, vertices)
            doubtful = np.flatnonzero(lowest <= safe)
            if doubtful.size:
                is_flat, is_folded = _defects(
                    kind, vertices[..., doubtful], basis[:, doubtful].sum(0), lowest[doubtful]
                )
        if doubtful.size:
            flat.append(doubtful[is_flat] + start)
            folded.append(doubtful[is_folded] + start)
        yield _Block(block, basis)
    if sum(map(len, flat)):
        _refuse(kind, cells, np.concatenate(flat), f"degenerate (their {_WORD[kind.dim]} is zero)", "remove them")
    if sum(map(len, folded)):
        order = "around the cell" if kind.dim == 2 else "around the bottom, then around the top"
        why = "folded or self-intersecting (their Jacobian changes sign)"
        _refuse(kind, cells, np.concatenate(folded), why, f"number vertices {order}, or repair the mesh")


def _defects(
    kind: CellKind, x: FloatArray, volume: FloatArray, lowest: FloatArray
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which cells are flat, which folded, to within the rounding error of their own size and place."""
    length = np.sqrt(((x[list(kind.corners)] - x[:, None]) ** 2).sum(2))  # (k, dim, B)
    place = np.abs(x).max((0, 1))
    error = np.zeros(x.shape[-1])
    # d(Π|e|) = Σ |δe_a| Π_{b≠a}|e_b|, and an edge is known to eps·(its length + the distance of its place from 0).
    for axis in range(kind.dim):
        others = np.delete(length, axis, axis=1).prod(1)
        error = np.maximum(error, ((length[:, axis] + place) * others).max(0))
    error *= _ROUNDING * kind.dim
    flat = volume <= error
    if kind.name == "hexahedron":
        suspects = np.flatnonzero(lowest < -error)
        lowest = lowest.copy()
        lowest[suspects] = hexahedron_minimum(x[..., suspects])
    return flat, ~flat & (lowest < -error)


def _refuse(kind: Kind, cells: npt.NDArray[Any], bad: IntArray, why: str, advice: str) -> NoReturn:
    rows = "; ".join(f"cell {i} = {cells[i].tolist()}" for i in bad[:3])
    raise ValueError(f"{bad.size} of {len(cells)} {kind.name} cells are {why}: {rows}; {advice}")
