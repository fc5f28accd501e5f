"""Meshes of other libraries, as they come."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from quadnorm import cell_weights, lumped_weights

SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3]])


def block(kind, data):
    return SimpleNamespace(type=kind, data=np.asarray(data))


@pytest.mark.parametrize("kind", ["MeshLine", "MeshTri", "MeshQuad", "MeshTet", "MeshHex"])
def test_skfem_meshes_against_its_own_assembly(kind):
    skfem = pytest.importorskip("skfem")
    mesh = getattr(skfem, kind)().refined(2)
    shear = np.eye(len(mesh.p)) + np.triu(np.full((len(mesh.p),) * 2, 0.25), 1)
    mesh = type(mesh)(shear @ mesh.p, mesh.t)
    element = {"MeshLine": "LineP1", "MeshTri": "TriP1", "MeshQuad": "Quad1", "MeshTet": "TetP1", "MeshHex": "Hex1"}
    basis = skfem.Basis(mesh, getattr(skfem, f"Element{element[kind]}")())
    expected = skfem.LinearForm(lambda v, _: v).assemble(basis)  # ∫φ_v, by quadrature
    np.testing.assert_allclose(lumped_weights(mesh).numpy(), expected[basis.nodal_dofs[0]], rtol=1e-12)
    assert cell_weights(mesh).shape == (mesh.t.shape[1],)
    assert float(cell_weights(mesh).sum()) == pytest.approx(1.0)  # a shear keeps the volume


def test_meshio_names_and_cells_of_lower_dimension(caplog):
    mesh = SimpleNamespace(
        points=SQUARE, cells=[block("vertex", [[0]]), block("line", [[0, 1]]), block("triangle", TRIANGLES)]
    )
    with caplog.at_level(logging.WARNING, "quadnorm"):
        weights = lumped_weights(mesh)
    assert torch.equal(weights, lumped_weights(SQUARE, TRIANGLES))
    assert "1 cells of kind vertex, 1 cells of kind line" in caplog.text
    tetra = SimpleNamespace(
        points=np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), cells={"tetra": [[0, 1, 2, 3]]}
    )
    assert cell_weights(tetra).tolist() == pytest.approx([1 / 6])


def test_blocks_of_the_same_kind_come_together_and_tuples_do():
    split = SimpleNamespace(points=SQUARE, cells=[("triangle", TRIANGLES[:1]), ("triangle", TRIANGLES[1:])])
    assert torch.equal(cell_weights(split), cell_weights(SQUARE, TRIANGLES))


def test_vtk_numbers():
    mesh = SimpleNamespace(points=SQUARE, cells=np.array([3, 0, 1, 2, 3, 0, 2, 3]), cells_dict={np.uint8(5): TRIANGLES})
    assert torch.equal(lumped_weights(mesh), lumped_weights(SQUARE, TRIANGLES))


def test_pixels_and_voxels_of_vtk_count_along_the_axes():
    plane = SimpleNamespace(points=SQUARE[[0, 1, 3, 2]], cells=np.zeros(5), cells_dict={8: np.array([[0, 1, 2, 3]])})
    assert cell_weights(plane).tolist() == pytest.approx([1.0])
    corners = np.array([[x, y, z] for z in (0.0, 2.0) for y in (0.0, 1.0) for x in (0.0, 1.0)])
    box = SimpleNamespace(points=corners, cells=np.zeros(9), cells_dict={11: np.arange(8)[None]})
    assert cell_weights(box).tolist() == pytest.approx([2.0])


def test_physicsnemo_has_simplices_in_tensors():
    mesh = SimpleNamespace(
        points=torch.from_numpy(SQUARE).float(), cells=torch.from_numpy(TRIANGLES), n_manifold_dims=2
    )
    assert torch.allclose(lumped_weights(mesh), lumped_weights(SQUARE, TRIANGLES))
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    solid = SimpleNamespace(points=corners, cells=torch.tensor([[0, 1, 2, 3]]), n_manifold_dims=3)
    assert cell_weights(solid).tolist() == pytest.approx([1 / 6])


def test_surfaces_of_pyvista_and_trimesh():
    flat = SimpleNamespace(points=SQUARE, faces=np.array([3, 0, 1, 2, 3, 0, 2, 3]))
    table = SimpleNamespace(vertices=SQUARE, faces=TRIANGLES)
    quad = SimpleNamespace(points=SQUARE, faces=np.array([4, 0, 1, 2, 3]))
    assert torch.equal(lumped_weights(flat), lumped_weights(SQUARE, TRIANGLES))
    assert torch.equal(lumped_weights(table), lumped_weights(SQUARE, TRIANGLES))
    assert cell_weights(quad).tolist() == pytest.approx([1.0])


def test_structured_grids_of_pyvista_make_their_cells():
    whole = SimpleNamespace(points=SQUARE, cells=np.array([4, 0, 1, 2, 3]), cells_dict={np.uint8(9): [[0, 1, 2, 3]]})
    grid = SimpleNamespace(points=SQUARE, cast_to_unstructured_grid=lambda: whole)
    assert cell_weights(grid).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (np.zeros((3, 2)), "ndarray alone"),
        (
            SimpleNamespace(points=SQUARE, cells={"triangle10": [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1]]}),
            "Of others take the corners",
        ),
        (SimpleNamespace(points=SQUARE, cells={"vertex": [[0]]}), "no cells but points"),
        (
            SimpleNamespace(points=SQUARE, cells=np.array([[0, 1, 2, 3]])),
            "names no kinds of cells",
        ),  # or a tetrahedron?
        (SimpleNamespace(points=SQUARE, faces=np.array([5, 0, 1, 2, 3, 0])), "faces of 5 corners"),
    ],
)
def test_what_is_no_mesh_is_refused(mesh, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lumped_weights(mesh)
