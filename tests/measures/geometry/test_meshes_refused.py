"""Meshes at the edge of what is a mesh: accepted while there is a volume, refused with the cell that is wrong."""

import doctest

import numpy as np
import pytest

import quadnorm.measures.geometry.meshes as module
from quadnorm.measures.geometry.meshes import cell_weights, lumped_weights
from tests.measures.geometry.small_meshes import HEX, cubes, dense_integrals, lattice, triangles

# --- what is accepted at the edge ------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_thin_cells_are_cells(offset, unit):
    """Boundary layers have aspect ratios of 1e6 and more; neither their place nor their unit matters."""
    thin = 1e-6 if offset else 1e-10
    x = (lattice([0.0, 1.0], [0.0, thin]) + offset) * unit
    height = (x[1, 1] - x[0, 1]) * (x[2, 0] - x[0, 0])
    assert cell_weights(x, cubes(2, 2)).item() == pytest.approx(height, rel=1e-9)
    assert cell_weights(x, triangles(2, 2)).sum().item() == pytest.approx(height, rel=1e-9)


def test_collapsed_edges_are_allowed():
    """A quad with a repeated vertex is a triangle, a hexahedron with a collapsed face edge a wedge."""
    x = [[0.0, 0], [1, 0], [0, 1]]
    assert cell_weights(x, {"quad": [[0, 1, 2, 2]]}).item() == pytest.approx(0.5, rel=1e-14)
    wedge = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]])
    assert cell_weights(wedge, [[0, 1, 2, 2, 3, 4, 5, 5]]).item() == pytest.approx(0.5, rel=1e-14)


TWISTED_BUT_VALID = [[5, -7, -2], [9, 6, -3], [13, 12, 5], [0, 4, -7], [0, -5, 3], [11, -3, 5], [11, 3, 9], [0, 17, 10]]
FOLDED_DEEP_INSIDE = [
    [6, 3, -4],
    [13, -3, 5],
    [8, 17, 3],
    [-3, 5, 3],
    [3, 1, 3],
    [5, -7, 11],
    [11, 11, 13],
    [0, 14, 15],
]


def test_hexahedron_is_checked_in_its_interior():
    """J of the second is positive at all corners, edge middles, face middles and the centre, and yet changes sign."""
    valid = np.array(TWISTED_BUT_VALID) / 10
    np.testing.assert_allclose(lumped_weights(valid, [range(8)]), dense_integrals(HEX, valid), rtol=1e-12)
    with pytest.raises(ValueError, match=r"1 of 1 hexahedron cells are folded .* cell 0 = \[0, 1, 2"):
        cell_weights(np.array(FOLDED_DEEP_INSIDE) / 10, [range(8)])


# --- refusals --------------------------------------------------------------------------------------------------------

SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
CUBE = np.array(HEX, dtype=float)


@pytest.mark.parametrize(
    ("points", "cells", "message"),
    [
        (
            SQUARE,
            [[0, 1, 1], [0, 1, 2], [2, 2, 3]],
            r"2 of 3 triangle cells are degenerate \(their area is zero\): cell 0 ",
        ),
        (SQUARE * 0.1 + 0.7, [[0, 2, 2]], "degenerate"),
        ([[0.1, 0.1], [0.2, 0.2], [0.7, 0.7]], [[0, 1, 2]], "degenerate"),
        ([[1e6 + 0.1, 0.3], [1e6 + 0.2, 0.6], [1e6 + 0.7, 2.1]], [[0, 1, 2]], "degenerate"),
        (CUBE, [[0, 1, 2, 3]], r"1 of 1 tetrahedron cells are degenerate \(their volume"),
        (SQUARE, [[2, 2]], r"line cells are degenerate \(their length"),
        (CUBE, [[0, 1, 2, 3, 0, 1, 2, 3]], "1 of 1 hexahedron cells are degenerate"),
        (SQUARE, [[0, 1, 3, 2]], "degenerate"),  # a symmetric bow tie: its two halves cancel
        ([[0.0, 0], [3, 0], [0, 1], [2, 2]], [[0, 1, 2, 3]], "1 of 1 quad cells are folded or self-intersecting"),
        ([[0.0, 0], [4, 0], [1, 1], [0, 4]], [[0, 1, 2, 3]], "folded"),  # an arrowhead
        ([[0.0, 0, 1], [4, 0, 1], [1, 1, 1], [0, 4, 1]], {"quad": [[0, 1, 2, 3]]}, "folded"),
        (CUBE, [[0, 1, 3, 2, 4, 5, 6, 7]], r"folded.*number vertices around the bottom, then around the top"),
        (SQUARE, [[0, 1, 4]], r"1 of 1 cells point outside the 4 points.* row 0: \[0, 1, 4\]; indices run from 0 to 3"),
        (SQUARE, [[0, 1, 2], [0, 1, -1]], r"1 of 2 cells .* row 1"),
        (SQUARE, {"triangle": [[0, 1, 9]]}, r"cells\['triangle'\] row 0"),
        (SQUARE, [0, 1, 2], r"cells must be \(M, k\).*got shape \(3,\)"),
        (SQUARE, {"quad": [[0, 1, 2]]}, r"cells\['quad'\] must be \(M, 4\), got shape \(1, 3\)"),
        (SQUARE, [[0, 1, 2, 3, 0]], "cells have 5 vertices each"),
        (SQUARE, np.empty((0, 3), dtype=int), "no cells"),
        (SQUARE, {}, "no cells"),
        (SQUARE, {"triangles": [[0, 1, 2]]}, "unknown kind of cell 'triangles'; did you mean 'triangle'"),
        (SQUARE, {"triangle": [[0, 1, 2]], "line": [[0, 1]]}, r"mix dimensions: triangle \(2-D\), line \(1-D\)"),
        (SQUARE, {"tetrahedron": [[0, 1, 2, 3]]}, "a tetrahedron is 3-D but points are 2-D"),
        (SQUARE[:, :1], [[0, 1, 2]], "a triangle is 2-D but points are 1-D"),
        (SQUARE[:, 0], [[0, 1]], r"points must be \(N, D\).*got shape \(4,\)"),
        (np.zeros((4, 4)), [[0, 1]], r"got shape \(4, 4\)"),
        (np.zeros((0, 2)), [[0, 1]], "no points"),
        ([[0.0, 0], [1, np.nan], [np.inf, 1]], [[0, 1, 2]], r"2 of 3 points have NaN .* point 1: \[1.0, nan\]"),
    ],
)
def test_bad_meshes_are_refused(points, cells, message):
    for function in (cell_weights, lumped_weights):
        with pytest.raises(ValueError, match=message):
            function(points, cells)


def test_bad_cells_far_down_are_named():
    cells = np.tile([0, 1, 2], (9000, 1))
    cells[[4500, 8999]] = [0, 1, 1]
    with pytest.raises(
        ValueError, match=r"2 of 9000 triangle .* cell 4500 = \[0, 1, 1\]; cell 8999 = \[0, 1, 1\]; remove"
    ):
        lumped_weights(SQUARE, cells)
    quads = np.tile([0, 1, 2, 3], (5000, 1))
    with pytest.raises(ValueError, match=r"1 of 5000 quad cells are folded .* cell 4600 ="):
        cell_weights([*SQUARE, (0.2, 0.2)], np.where(np.arange(5000)[:, None] == 4600, [0, 1, 4, 3][::-1], quads))


@pytest.mark.parametrize(
    ("points", "cells", "message"),
    [
        (SQUARE, [[0.0, 1.0, 2.0]], "cells must hold integers .* got dtype float64"),
        (SQUARE, np.ones((1, 3), dtype=bool), "got dtype bool"),
        (SQUARE + 1j, [[0, 1, 2]], "points must be real numbers, got dtype complex128"),
    ],
)
def test_wrong_types_are_refused(points, cells, message):
    with pytest.raises(TypeError, match=message):
        cell_weights(points, cells)


def test_examples_in_the_docstrings():
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 2)
