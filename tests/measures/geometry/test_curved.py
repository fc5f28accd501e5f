"""Quadratic cells: against scikit-fem's assembly, closed forms and the straight cells they contain."""

from math import pi
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from quadnorm import cell_weights, lumped_weights
from quadnorm.measures.geometry.curved import CURVED

skfem = pytest.importorskip("skfem")
FULL = ["MeshTri2", "MeshQuad2", "MeshTet2", "MeshHex2"]


@pytest.mark.parametrize("kind", FULL)
def test_against_scikit_fems_assembly(kind):
    """A bent mesh: volumes, and shares by the diagonal of the mass matrix that scikit-fem assembles."""
    mesh = getattr(skfem, kind)()
    p = mesh.doflocs
    bent = p + 0.05 * np.stack([np.sin(2 * p[(d + 1) % len(p)]) * p[d] for d in range(len(p))])
    mesh = type(mesh)(bent, mesh.t)
    basis = skfem.Basis(mesh, mesh.elem(), intorder=8)
    volumes = skfem.Functional(lambda w: 1.0 + 0 * w.x[0]).elemental(basis)
    np.testing.assert_allclose(cell_weights(mesh), volumes, rtol=1e-10)
    squares = skfem.LinearForm(lambda v, _: v**2)
    expected = np.zeros(p.shape[1])
    for cell in range(mesh.t.shape[1]):
        one = skfem.Basis(mesh, mesh.elem(), intorder=8, elements=np.array([cell]))
        diagonal = squares.assemble(one)
        expected += volumes[cell] * diagonal / diagonal.sum()
    np.testing.assert_allclose(lumped_weights(mesh), expected, rtol=1e-10, atol=1e-15)
    assert (lumped_weights(mesh) > 0).all()


@pytest.mark.parametrize("name", CURVED)
def test_linear_functions_are_exact_on_straight_cells(name):
    kind = CURVED[name]
    rng = np.random.default_rng(0)
    shear, shift = np.eye(kind.dim) + 0.3 * rng.random((kind.dim, kind.dim)), rng.random(kind.dim)
    nodes = np.array(kind.nodes) @ shear.T + shift
    weights = lumped_weights(nodes, {name: [list(range(kind.vertices))]}).numpy()
    corners = kind.dim + 1 if kind.simplex else 2**kind.dim
    straight = {1: "line"}.get(kind.dim) or name.rstrip("0123456789")
    reference = lumped_weights(nodes[:corners], {straight: [list(range(corners))]}).numpy()
    assert weights.sum() == pytest.approx(reference.sum(), rel=1e-12)
    np.testing.assert_allclose(weights @ nodes, reference @ nodes[:corners], rtol=1e-12)


def test_a_disc_of_quadratic_triangles_has_its_area():
    """Nodes on the circle: the error of the area falls by 16 from mesh to mesh; straight edges fall by 4."""
    errors = []
    for count in (6, 12, 24):
        corner = np.exp(2j * pi * np.arange(count) / count)
        middle = np.exp(2j * pi * (np.arange(count) + 0.5) / count)
        points = np.concatenate([[0], corner, middle, corner / 2])
        points = np.stack([points.real, points.imag], axis=1)
        k = np.arange(count)
        after = (k + 1) % count
        cells = np.stack([0 * k, 1 + k, 1 + after, 1 + 2 * count + k, 1 + count + k, 1 + 2 * count + after], axis=1)
        errors.append(abs(float(cell_weights(points, {"triangle6": cells}).sum()) - pi))
    assert errors[0] / errors[1] > 14
    assert errors[1] / errors[2] > 15
    assert errors[2] < 1e-3


def test_an_arc_in_space_has_its_length():
    t = np.linspace(0, 1, 41)
    points = np.stack([np.cos(t), np.sin(t), 0 * t], axis=1)
    cells = [[2 * k, 2 * k + 2, 2 * k + 1] for k in range(20)]
    assert float(cell_weights(points, {"line3": cells}).sum()) == pytest.approx(1.0, abs=1e-7)


def test_meshio_and_vtk_names():
    square = np.array(CURVED["quad8"].nodes)
    for name in ("quad8", 23):
        mesh = SimpleNamespace(points=square, cells={name: [list(range(8))]})
        assert cell_weights(mesh).tolist() == pytest.approx([1.0])
    tet = SimpleNamespace(points=np.array(CURVED["tetrahedron10"].nodes), cells=[("tetra10", [list(range(10))])])
    assert cell_weights(tet).tolist() == pytest.approx([1 / 6])
    assert torch.all(lumped_weights(tet) > 0)


def test_folded_and_flat_cells_are_refused():
    nodes = np.array(CURVED["triangle6"].nodes)
    folded = nodes.copy()
    folded[3] = [0.5, 0.9]  # the middle of the bottom edge, beyond the opposite corner's height
    with pytest.raises(ValueError, match="1 of 1 triangle6 cells are folded"):
        lumped_weights(folded, {"triangle6": [list(range(6))]})
    with pytest.raises(ValueError, match="1 of 1 triangle6 cells are degenerate"):
        cell_weights(nodes * [1, 0], {"triangle6": [list(range(6))]})
