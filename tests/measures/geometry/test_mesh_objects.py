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


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (np.zeros((3, 2)), "ndarray alone"),
        (
            SimpleNamespace(points=SQUARE, cells={"triangle10": [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1]]}),
            "Of others take the corners",
        ),
        (SimpleNamespace(points=SQUARE, cells={"vertex": [[0]]}), "no cells but points"),
        (SimpleNamespace(points=SQUARE, cells=TRIANGLES), "names no kinds of cells"),
    ],
)
def test_what_is_no_mesh_is_refused(mesh, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lumped_weights(mesh)
