"""Cell volumes and lumped vertex weights, against calculus and against slow loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.measures.geometry.meshes import cell_weights, lumped_weights
from tests.measures.geometry.small_meshes import (
    HEX,
    QUAD,
    cubes,
    dense_integrals,
    lattice,
    octasphere,
    tetrahedra,
    triangles,
)

# --- single cells against calculus -----------------------------------------------------------------------------------


def test_simplices_have_their_textbook_volumes():
    """Segment 5; right triangle 3·4/2 = 6; corner tetrahedron 2·3·4/6 = 4; the same triangle in space."""
    assert cell_weights([[1.0], [6.0]], [[0, 1]]).tolist() == [5.0]
    assert cell_weights([[0.0, 0], [3, 4]], [[0, 1]]).tolist() == [5.0]
    assert cell_weights([[0.0, 0], [3, 0], [0, 4]], [[0, 1, 2]]).tolist() == [6.0]
    assert cell_weights([[0.0, 0, 0], [3, 0, 0], [0, 0, 4]], [[0, 1, 2]]).tolist() == [6.0]
    tet = [[0.0, 0, 0], [2, 0, 0], [0, 3, 0], [0, 0, 4]]
    assert cell_weights(tet, [[0, 1, 2, 3]]).tolist() == pytest.approx([4.0], rel=1e-15)
    assert lumped_weights(tet, [[0, 1, 2, 3]]).tolist() == pytest.approx([1.0] * 4, rel=1e-15)


def test_trapezium_splits_by_hand():
    """Base 2 at y=0, top 1 at y=1, x = ξ(2−η), y = η, so J = 2−η and the area is 3/2.

    The vertex at the origin has φ = (1−ξ)(1−η): ½∫(1−η)(2−η)dη = ½·5/6 = 5/12; above it ½∫η(2−η)dη = 1/3.
    """
    x = [[0.0, 0], [2, 0], [1, 1], [0, 1]]
    assert cell_weights(x, [[0, 1, 2, 3]]).tolist() == pytest.approx([1.5], rel=1e-15)
    expected = [5 / 12, 5 / 12, 1 / 3, 1 / 3]
    assert lumped_weights(x, [[0, 1, 2, 3]]).tolist() == pytest.approx(expected, rel=1e-15)


def test_frustum_of_a_pyramid():
    """Squares of side a=3 and b=1 at distance h=2: V = h(a²+ab+b²)/3 = 26/3."""
    x = [[-1.5, -1.5, 0], [1.5, -1.5, 0], [1.5, 1.5, 0], [-1.5, 1.5, 0]]
    x += [[-0.5, -0.5, 2], [0.5, -0.5, 2], [0.5, 0.5, 2], [-0.5, 0.5, 2]]
    assert cell_weights(x, [list(range(8))]).tolist() == pytest.approx([26 / 3], rel=1e-15)


@pytest.mark.parametrize(("corners", "name"), [(QUAD, "quad"), (HEX, "hexahedron")])
def test_multilinear_cells_against_brute_force(corners, name):
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = np.array(corners) + rng.uniform(-0.15, 0.15, (len(corners), len(corners[0])))
        got = lumped_weights(x, {name: [range(len(x))]}).numpy()
        np.testing.assert_allclose(got, dense_integrals(corners, x), rtol=1e-13)


def test_flat_quad_in_space_is_exact_and_warped_one_nearly():
    """z = xy over the unit square is the bilinear patch of its corners, with area ∫∫√(1+x²+y²) dx dy."""
    rng = np.random.default_rng(2)
    flat = np.array(QUAD) + rng.uniform(-0.2, 0.2, (4, 2))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0][:2]
    expected = lumped_weights(flat, {"quad": [[0, 1, 2, 3]]})
    torch.testing.assert_close(lumped_weights(flat @ turn + 5, {"quad": [[0, 1, 2, 3]]}), expected, rtol=1e-13, atol=0)
    warped = [[0.0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0]]
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = (t + 1) / 2, w / 2
    area = (np.sqrt(1 + t[:, None] ** 2 + t**2) * np.outer(w, w)).sum()
    assert cell_weights(warped, {"quad": [[0, 1, 2, 3]]}).item() == pytest.approx(area, rel=1e-8)


# --- meshes ----------------------------------------------------------------------------------------------------------


def graded(n, low, high):
    return low + (high - low) * np.linspace(0, 1, n) ** 1.5


MESHES = {
    "line": (lattice(graded(9, 0, 2)), np.stack((np.arange(8), np.arange(1, 9)), 1), 2.0),
    "triangle": (lattice(graded(5, 0, 2), graded(7, 1, 4)), triangles(5, 7), 6.0),
    "quad": (lattice(graded(5, 0, 2), graded(7, 1, 4)), cubes(5, 7), 6.0),
    "tetrahedron": (lattice(*[graded(4, 0, 2)] * 3), tetrahedra(4), 8.0),
    "hexahedron": (lattice(graded(4, 0, 2), graded(3, 0, 1), graded(5, 1, 4)), cubes(4, 3, 5), 6.0),
}


@pytest.mark.parametrize("name", MESHES)
def test_totals_and_partition(name):
    """Cells and vertices sum to the domain; any partition of the cells adds up; each vertex weight is positive."""
    x, cells, total = MESHES[name]
    whole = lumped_weights(x, cells)
    assert cell_weights(x, cells).sum().item() == pytest.approx(total, rel=1e-14)
    assert whole.sum().item() == pytest.approx(total, rel=1e-14)
    assert (whole > 0).all()
    half = np.random.default_rng(0).random(len(cells)) < 0.5
    parts = lumped_weights(x, cells[half]) + lumped_weights(x, cells[~half])
    torch.testing.assert_close(parts, whole, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", MESHES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_affine_maps_permutations_and_inversion(name, seed):
    """Volumes scale by |det A|, whatever its sign; renumbered vertices carry their weights along."""
    rng = np.random.default_rng(seed)
    x, cells, _ = MESHES[name]
    dim = x.shape[1]
    A = rng.normal(size=(dim, dim)) + np.eye(dim)
    scale = abs(np.linalg.det(A))
    if scale < 1e-3:
        return
    perm = rng.permutation(len(x))
    moved, renumbered = np.empty_like(x), perm[cells]
    moved[perm] = x @ A.T + rng.normal(size=dim)
    np.testing.assert_allclose(cell_weights(moved, renumbered), scale * cell_weights(x, cells), rtol=1e-10)
    np.testing.assert_allclose(lumped_weights(moved, renumbered)[perm], scale * lumped_weights(x, cells), rtol=1e-10)


@settings(max_examples=25)
@given(
    bary=st.lists(st.floats(0.05, 1), min_size=4, max_size=4),
    corners=st.lists(st.integers(-50, 50), min_size=12, max_size=12),
)
def test_splitting_a_cell_leaves_totals(bary, corners):
    """An interior point splits a tetrahedron in four and its first face in three."""
    x = np.array(corners, dtype=float).reshape(4, 3)
    if abs(np.linalg.det(x[1:] - x[0])) < 1:
        return
    inner = np.array(bary) / sum(bary) @ x
    parts = [[4 if v == w else v for v in range(4)] for w in range(4)]
    whole = cell_weights(x, [[0, 1, 2, 3]]).item()
    assert cell_weights(np.vstack((x, inner)), parts).sum().item() == pytest.approx(whole, rel=1e-9)
    on_face = np.array(bary[:3]) / sum(bary[:3]) @ x[:3]
    thirds = [[3, 1, 2], [0, 3, 2], [0, 1, 3]]
    face = cell_weights(x[:3], [[0, 1, 2]]).item()
    assert cell_weights(np.vstack((x[:3], on_face)), thirds).sum().item() == pytest.approx(face, rel=1e-9)


def test_quads_on_a_lattice_are_the_trapezoid_rule():
    """In one dimension w_i = (x_{i+1} − x_{i−1})/2 with half cells at the ends; the lattice has their products."""
    x, y = graded(6, 0, 2), graded(4, 1, 3)
    wx, wy = (np.convolve(np.diff(a), [0.5, 0.5]) for a in (x, y))
    np.testing.assert_allclose(lumped_weights(lattice(x, y), cubes(6, 4)), np.outer(wx, wy).ravel(), rtol=1e-13)


def test_mixed_mesh_concatenates_in_the_order_of_the_mapping():
    x = [[0.0, 0], [1, 0], [1, 1], [0, 1], [3, 0], [7, 7]]
    mixed = {"triangle": [[1, 4, 2]], "quad": torch.tensor([[0, 1, 2, 3]]), "line": np.empty((0, 2), dtype=int)}
    assert cell_weights(x, mixed).tolist() == [1.0, 1.0]
    swapped = {"quad": [[0, 1, 2, 3], [0, 1, 2, 3]], "triangle": [[1, 4, 2]]}
    assert cell_weights(x, swapped).tolist() == [1.0, 1.0, 1.0]
    third = 1 / 3
    expected = [0.25, 0.25 + third, 0.25 + third, 0.25, third, 0.0]  # the last vertex belongs to no cell
    assert lumped_weights(x, mixed).tolist() == pytest.approx(expected, rel=1e-15)


def test_four_columns_mean_tetrahedra_in_space_unless_a_mapping_says_quads():
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0.5], [0, 1, 0]])
    assert cell_weights(x, [[0, 1, 2, 3]]).item() == pytest.approx(0.5 / 6, rel=1e-14)
    assert cell_weights(x, {"quad": [[0, 1, 2, 3]]}).item() > 1


def test_many_cells_against_a_loop():
    """More cells than one block, random order; the reference is a Gram determinant per cell."""
    rng = np.random.default_rng(3)
    x = rng.random((500, 3))
    cells = rng.permuted(np.tile(np.arange(500), (5000, 1)), axis=1)[:, :4]
    volume, lumped = np.empty(5000), np.zeros(500)
    for i, cell in enumerate(cells):
        edges = x[cell[1:]] - x[cell[0]]
        volume[i] = abs(np.linalg.det(edges)) / 6
        lumped[cell] += volume[i] / 4
    np.testing.assert_allclose(cell_weights(x, cells), volume, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(lumped_weights(x, cells), lumped, rtol=1e-12)


def test_tensors_arrays_and_small_integers_give_one_float64_tensor():
    x, cells, _ = MESHES["triangle"]
    expected = lumped_weights(x, cells)
    for points in (torch.tensor(x, requires_grad=True), x.tolist(), np.asfortranarray(x)):
        for kind in (np.uint8, np.int32, np.int64):
            got = lumped_weights(points, cells.astype(kind))
            assert got.dtype == torch.float64
            assert not got.requires_grad
            assert torch.equal(got, expected)
    half = lumped_weights(torch.tensor(x).bfloat16(), torch.tensor(cells))
    torch.testing.assert_close(half, expected, rtol=0.1, atol=0.01)


# --- convergence -----------------------------------------------------------------------------------------------------


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize("build", [triangles, cubes])
def test_lumped_integrals_have_order_two(build):
    """∫₀¹∫₀¹ eˣ cos y = (e−1)·sin 1, on curved lattices that are not affine images of squares."""
    errors = []
    for n in (9, 17, 33, 65):
        u, v = lattice(np.linspace(0, 1, n), np.linspace(0, 1, n)).T
        x = np.stack((u + 0.1 * np.sin(np.pi * u) * np.sin(np.pi * v), v - 0.1 * u * (1 - u) * v * (1 - v)), 1)
        w = lumped_weights(x, build(n, n)).numpy()
        errors.append(abs(w @ (np.exp(x[:, 0]) * np.cos(x[:, 1])) - (np.e - 1) * np.sin(1)))
    assert errors[-1] < 1e-4
    assert np.all(np.abs(orders(errors) - 2) < 0.1)


@pytest.mark.parametrize(("build", "sizes"), [(tetrahedra, (5, 9, 17)), (lambda n: cubes(n, n, n), (5, 9, 17))])
def test_lumped_integrals_in_space_have_order_two(build, sizes):
    """∫ over the unit cube of eˣ·y²·cos z = (e−1)·(1/3)·sin 1."""
    errors = []
    for n in sizes:
        x = lattice(*[np.linspace(0, 1, n)] * 3)
        w = lumped_weights(x, build(n)).numpy()
        errors.append(abs(w @ (np.exp(x[:, 0]) * x[:, 1] ** 2 * np.cos(x[:, 2])) - (np.e - 1) * np.sin(1) / 3))
    assert errors[-1] < 2e-3
    assert np.all(np.abs(orders(errors) - 2) < 0.1)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_linear_functions_are_integrated_exactly(seed):
    """Lumped simplices are exact for linear f, whose integral over the unit square is its value at the middle."""
    rng = np.random.default_rng(seed)
    x = lattice(np.linspace(0, 1, 6), np.linspace(0, 1, 5))
    inner = ((x > 0) & (x < 1)).all(1)
    x[inner] += rng.uniform(-0.05, 0.05, (inner.sum(), 2))
    a, b = rng.normal(size=2), rng.normal()
    w = lumped_weights(x, triangles(6, 5)).numpy()
    assert w @ (x @ a + b) == pytest.approx(a.sum() / 2 + b, abs=1e-12)


def test_sphere_of_triangles():
    """Area 4π and ∫z² = 4π/3, both at order 2."""
    area, moment = [], []
    for levels in (2, 3, 4, 5):
        x, cells = octasphere(levels)
        w = lumped_weights(x, cells).numpy()
        area.append(4 * np.pi - w.sum())
        moment.append(abs(4 * np.pi / 3 - w @ x[:, 2] ** 2))
    assert 0 < area[-1] < 0.02
    assert np.all(np.abs(orders(area) - 2) < 0.1)
    assert np.all(np.abs(orders(moment)[1:] - 2) < 0.15)
