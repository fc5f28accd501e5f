"""Meshes of other libraries: scikit-fem's, and anything with ``.points`` and ``.cells``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from quadnorm.measures.geometry.cells import KINDS
from quadnorm.measures.geometry.curved import CURVED

log = logging.getLogger("quadnorm")

# What others call the kinds of cells: meshio's names, and the numbers of VTK.
NAMES: dict[Any, str] = {
    **{name: name for name in KINDS},
    **{"tetra": "tetrahedron", "tet": "tetrahedron", "hex": "hexahedron", "tri": "triangle", "vertex": "vertex"},
    **{name: name for name in CURVED},
    "tetra10": "tetrahedron10",
    **{1: "vertex", 3: "line", 5: "triangle", 9: "quad", 10: "tetrahedron", 12: "hexahedron"},
    **{21: "line3", 22: "triangle6", 23: "quad8", 28: "quad9", 24: "tetrahedron10", 25: "hexahedron20"},
    29: "hexahedron27",
}
_CORNERS = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]  # VTK's order


def is_mesh(thing: Any) -> bool:
    """Whether a thing is a mesh of another library: ``.p`` and ``.t``, or ``.points`` and ``.cells``."""
    return all(hasattr(thing, a) for a in ("p", "t")) or all(hasattr(thing, a) for a in ("points", "cells"))


def mesh_arrays(mesh: Any) -> tuple[Any, dict[str, Any]]:
    """Points (N, D) and cells by kind. Cells of a lower dimension beside the mesh are left out, which the log notes."""
    if not is_mesh(mesh):
        raise TypeError(
            f"expected points and cells, or one mesh with .points and .cells (meshio) or .p and .t (scikit-fem); got "
            f"{type(mesh).__name__} alone"
        )
    if hasattr(mesh, "t") and hasattr(mesh, "p"):
        return _skfem(mesh)
    groups: dict[str, list[Any]] = {}
    for name, array in _named_blocks(mesh):
        if name not in NAMES:
            known = ", ".join(n for n in NAMES if isinstance(n, str) and n != "vertex")
            raise ValueError(
                f"the mesh has cells of kind {name!r}; known are {known}. Of others take the corners: the first "
                "columns, under the straight cell's name"
            )
        groups.setdefault(NAMES[name], []).append(np.asarray(array))
    dims = {name: kind.dim for name, kind in (KINDS | CURVED).items()}
    sizes = {name: dims.get(name, 0) for name, parts in groups.items() if sum(map(len, parts))}
    top = max(sizes.values(), default=0)
    if top == 0:
        raise ValueError("the mesh has no cells but points: a measure needs lines, areas or volumes")
    left = [f"{sum(map(len, groups[n]))} cells of kind {n}" for n, dim in sizes.items() if dim < top]
    if left:
        log.warning("left out beside the %d-dimensional mesh: %s", top, ", ".join(left))
    return mesh.points, {n: np.concatenate(groups[n]) for n, dim in sizes.items() if dim == top}


def _named_blocks(mesh: Any) -> Iterable[tuple[Any, Any]]:
    cells = mesh.cells
    if isinstance(cells, np.ndarray) and cells.ndim == 1:  # VTK's flat list, as pyvista has it
        cells = getattr(mesh, "cells_dict", None)
    if isinstance(cells, Mapping):
        return [(_plain(k), v) for k, v in cells.items()]
    if isinstance(cells, np.ndarray) or cells is None or isinstance(cells, str):
        raise TypeError("mesh.cells names no kinds of cells; pass points and cells: weights(mesh.points, mesh.cells)")
    blocks = []
    for block in cells:
        if hasattr(block, "type") and hasattr(block, "data"):  # meshio's CellBlock
            blocks.append((_plain(block.type), block.data))
        else:
            name, array, *_ = block
            blocks.append((_plain(name), array))
    return blocks


def _plain(name: Any) -> Any:
    return int(name) if isinstance(name, (int, np.integer)) else name


def _skfem(mesh: Any) -> tuple[Any, dict[str, Any]]:
    """Vertices and cells of a scikit-fem mesh: columns become rows, hexahedra are renumbered to VTK's order."""
    points, cells = np.asarray(mesh.p), np.asarray(mesh.t)
    dim, corners = points.shape[0], cells.shape[0]
    if getattr(mesh, "nvertices", points.shape[1]) < points.shape[1]:
        return points.T, _skfem_curved(mesh)
    name = {2: "line", 3: "triangle", 4: "quad" if dim == 2 else "tetrahedron", 8: "hexahedron"}.get(corners)
    if "Quad" in type(mesh).__name__:
        name = "quad"
    if name is None:
        raise ValueError(f"{type(mesh).__name__} has cells of {corners} vertices; known are {', '.join(KINDS)}")
    if name == "hexahedron":
        reference = np.asarray(mesh.elem.refdom.p).T.round().astype(int).tolist()
        cells = cells[[reference.index(corner) for corner in _CORNERS]]
    return points.T, {name: cells.T}


def _skfem_curved(mesh: Any) -> dict[str, Any]:
    """Quadratic cells of a scikit-fem mesh: its element says where the nodes of a cell lie."""
    at = [tuple(node) for node in np.asarray(mesh.elem().doflocs).tolist()]
    for kind in CURVED.values():
        if sorted(at) == sorted(kind.nodes):
            nodes = np.asarray(mesh.dofs.element_dofs)
            return {kind.name: nodes[[at.index(node) for node in kind.nodes]].T}
    raise ValueError(
        f"{type(mesh).__name__} has cells of {len(at)} nodes, which are not known; take the straight mesh of its "
        "vertices: points mesh.p[:, :mesh.nvertices].T, cells mesh.t.T"
    )
