"""Meshes of other libraries, known by the names of their points and cells."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from quadnorm.measures.geometry.cells import KINDS
from quadnorm.measures.geometry.coordinates import to_numpy
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
_BOXES = {8: ("quad", [0, 1, 3, 2]), 11: ("hexahedron", [0, 1, 3, 2, 4, 5, 7, 6])}  # VTK's pixels and voxels
_CORNERS = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]  # VTK's order


_PAIRS = (("p", "t"), ("points", "cells"), ("points", "faces"), ("vertices", "faces"))


def is_mesh(thing: Any) -> bool:
    """Whether a thing is a mesh of another library, by the names of its points and cells."""
    return any(hasattr(thing, a) and hasattr(thing, b) for a, b in _PAIRS) or _converts(thing)


def _converts(thing: Any) -> bool:
    """Whether it is one of pyvista's structured grids, which make their cells only when asked."""
    return hasattr(thing, "points") and hasattr(thing, "cast_to_unstructured_grid")


def mesh_arrays(mesh: Any) -> tuple[Any, dict[str, Any]]:
    """Points (N, D) and cells by kind. Cells of a lower dimension beside the mesh are left out, which the log notes.

    Known are scikit-fem (``.p``, ``.t``), meshio and pyvista's grids (``.points``, ``.cells``), pyvista's surfaces
    (``.points``, ``.faces``), trimesh (``.vertices``, ``.faces``), and PhysicsNeMo's simplices (``.points``, ``.cells``
    of shape (M, k)).
    """
    if not is_mesh(mesh):
        raise TypeError(
            f"expected points and cells, or one mesh with .points and .cells (meshio, pyvista, PhysicsNeMo), .points "
            f"and .faces (pyvista's surfaces) or .p and .t (scikit-fem); got {type(mesh).__name__} alone"
        )
    if hasattr(mesh, "t") and hasattr(mesh, "p"):
        return _skfem(mesh)
    if not hasattr(mesh, "cells") and not hasattr(mesh, "faces"):
        mesh = mesh.cast_to_unstructured_grid()
    points = mesh.points if hasattr(mesh, "points") else mesh.vertices
    groups: dict[str, list[Any]] = {}
    for name, array in _named_blocks(mesh):
        if name in _BOXES:
            name, order = _BOXES[name]
            array = np.asarray(array)[:, order]
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
    return points, {n: np.concatenate(groups[n]) for n, dim in sizes.items() if dim == top}


def _named_blocks(mesh: Any) -> Iterable[tuple[Any, Any]]:
    if not hasattr(mesh, "cells"):
        return _polygons(to_numpy(mesh.faces))
    cells = mesh.cells
    if getattr(cells, "ndim", 0) == 1:  # VTK's flat list, as pyvista has it
        cells = getattr(mesh, "cells_dict", None)
    if isinstance(cells, Mapping):
        return [(_plain(k), v) for k, v in cells.items()]
    if getattr(cells, "ndim", 0) == 2 and (name := _simplices(mesh, cells)):
        return [(name, to_numpy(cells))]
    if hasattr(cells, "ndim") or cells is None or isinstance(cells, str):
        raise TypeError("mesh.cells names no kinds of cells; pass points and cells: weights(mesh.points, mesh.cells)")
    blocks = []
    for block in cells:
        if hasattr(block, "type") and hasattr(block, "data"):  # meshio's CellBlock
            blocks.append((_plain(block.type), block.data))
        else:
            name, array, *_ = block
            blocks.append((_plain(name), array))
    return blocks


def _simplices(mesh: Any, cells: Any) -> str:
    """The kind of cells (M, k), if it is certain: four corners may be a quadrilateral unless the mesh denies it."""
    k = cells.shape[1]
    sure = k < 4 or getattr(mesh, "n_manifold_dims", None) == k - 1
    return {2: "line", 3: "triangle", 4: "tetrahedron"}.get(k, "") if sure else ""


def _polygons(faces: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Triangles and quadrilaterals of a surface: (M, k), or VTK's flat list (3, i, j, k, 4, i, j, k, l, …)."""
    if faces.ndim == 2:
        return [(_polygon(faces.shape[1]), faces)]
    blocks: dict[int, list[np.ndarray]] = {}
    at = 0
    while at < len(faces):
        count = int(faces[at])
        blocks.setdefault(count, []).append(faces[at + 1 : at + 1 + count])
        at += count + 1
    return [(_polygon(count), np.stack(rows)) for count, rows in blocks.items()]


def _polygon(corners: int) -> str:
    name = {3: "triangle", 4: "quad"}.get(corners)
    if name is None:
        raise ValueError(f"the surface has faces of {corners} corners; expected 3 or 4: triangulate it first")
    return name


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
