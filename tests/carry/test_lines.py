"""Interpolation along an axis, against torch's and scipy's interpolation and against functions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import interpolate

from quadnorm.carry import carry
from quadnorm.carry.lines import Axis1D, matrix, nearest

PLACEMENTS = ("endpoint", "cell", "periodic", "left", "interior")


def nodes(placement: str, n: int) -> torch.Tensor:
    j = torch.arange(n, dtype=torch.float64)
    return {"endpoint": j / (n - 1), "cell": (j + 0.5) / n, "interior": (j + 1) / (n + 1)}.get(placement, j / n)


@pytest.mark.parametrize("shape", [(26, 20), (33, 40)])
def test_inside_cubic_is_torchs_with_the_same_kernel(shape: tuple[int, int]) -> None:
    """With antialias=True torch takes a = −1/2; when upsampling, its nodes are cell centres and nothing is smoothed."""
    field = torch.randn(2, 3, 17, 13, dtype=torch.float64)
    expected = interpolate(field, size=shape, mode="bicubic", antialias=True)
    got = carry(field, shape, "cell", "bicubic")
    inner = (..., slice(8, -8), slice(8, -8))  # torch ends its kernels at the boundary
    torch.testing.assert_close(got[inner], expected[inner], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "interior"])
def test_cubic_is_exact_for_quadratics_up_to_the_boundary(placement: str) -> None:
    for source, n in ((9, 23), (21, 8), (4, 5)):
        x, y = nodes(placement, source), nodes(placement, n)
        field, expected = ((1 + t[:, None] - 2 * t[:, None] ** 2) * (3 - t + 5 * t**2) for t in (x, y))
        torch.testing.assert_close(carry(field, (n, n), placement, "bicubic"), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_index_selection_takes_the_nearest_node(placement: str) -> None:
    for source, n in ((421, 32), (64, 16), (65, 9), (50, 49)):
        x, fine = nodes(placement, n), nodes(placement, source)
        gap = (x[:, None] - fine).abs()
        if placement == "periodic":
            gap = torch.minimum(gap, 1 - gap)
        chosen = gap[torch.arange(n), nearest(Axis1D(placement, source, placement, n))]
        assert torch.all(chosen <= gap.amin(1) + 1e-12)


def by_fractions(fine: int, fractions: list[Fraction]) -> list[int]:
    return [round(f * (fine - 1)) for f in fractions]  # Python rounds exact fractions, ties to even


@settings(max_examples=100)
@given(st.integers(2, 300), st.integers(2, 300))
def test_nearest_is_exact_rounding(n: int, extra: int) -> None:
    fine = n + extra
    expected = {
        "endpoint": [Fraction(j, n - 1) for j in range(n)],
        "cell": [Fraction(2 * j + 1, 2 * n) for j in range(n)],
        "left": [Fraction(j, n) for j in range(n)],
        "interior": [Fraction(j + 1, n + 1) for j in range(n)],
    }
    for target, fractions in expected.items():
        assert nearest(Axis1D("endpoint", fine, target, n)).tolist() == by_fractions(fine, fractions)


@settings(max_examples=100)
@given(st.integers(2, 150))
def test_nearest_is_nested_and_mirror_symmetric(n: int) -> None:
    i = nearest(Axis1D("endpoint", 421, "endpoint", n))
    assert (nearest(Axis1D("endpoint", 421, "endpoint", 2 * n - 1))[::2] == i).all()
    assert (i + i.flip(0) == 420).all()
    assert (i.diff() > 0).all()


@pytest.mark.parametrize("n", [32, 64, 85, 128, 141, 211, 256, 421])
def test_nearest_on_the_papers_grids(n: int) -> None:
    i = nearest(Axis1D("endpoint", 421, "endpoint", n))
    assert np.array_equal(i.numpy(), np.round(np.linspace(0, 420, n)))


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 30, 421])
@pytest.mark.parametrize("target", PLACEMENTS)
@pytest.mark.parametrize("source", ["endpoint", "cell", "left", "interior"])
def test_spline_is_scipys_between_any_two_placements(source: str, target: str, m: int) -> None:
    """scipy's CubicSpline with "not-a-knot" ends, which for 2 and 3 nodes is the polynomial as here."""
    from scipy.interpolate import CubicSpline

    n = 23
    if m == 1:
        expected = np.ones((n, 1))
    else:
        x, t = nodes(source, m).numpy(), nodes(target, n).numpy()
        expected = CubicSpline(x, np.eye(m), axis=0, bc_type="not-a-knot")(t)
    # beyond the old nodes both continue the last cubic, which grows with the distance in spacings
    np.testing.assert_allclose(matrix(Axis1D(source, m, target, n), "cubic"), expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("source", PLACEMENTS)
def test_a_single_sample_is_a_constant(source: str, method: str) -> None:
    assert matrix(Axis1D(source, 1, "endpoint", 5), method).tolist() == [[1.0]] * 5


@pytest.mark.parametrize("target", PLACEMENTS)
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 8, 9])
def test_periodic_cubic_is_the_trigonometric_interpolant(m: int, target: str) -> None:
    """Every wave below m/2 is exact at any node, with its sign and phase; the highest one of an even m is a cosine."""
    x, t = nodes("periodic", m), nodes(target, 7)
    carried = matrix(Axis1D("periodic", m, target, 7), "cubic")
    for k in range((m + 1) // 2):
        for wave in (torch.cos, torch.sin):
            expected = wave(2 * math.pi * k * t + 0.3)
            torch.testing.assert_close(carried @ wave(2 * math.pi * k * x + 0.3), expected, rtol=0, atol=1e-13)
    if m % 2 == 0:
        highest = (-1.0) ** torch.arange(m, dtype=torch.float64)
        torch.testing.assert_close(carried @ highest, torch.cos(math.pi * m * t), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("placement", "method"), [(p, m) for p in PLACEMENTS for m in ("nearest", "bicubic")])
def test_a_constant_stays_constant_and_nested_nodes_keep_their_values(placement: str, method: str) -> None:
    flat = carry(torch.full((1, 12, 12), 3.0), (7, 5), placement, method)
    torch.testing.assert_close(flat, torch.full((1, 7, 5), 3.0))
    source = {"endpoint": 17, "cell": 27, "interior": 19}.get(placement, 18)
    field = torch.randn(2, source, source, dtype=torch.float64)
    expected = {
        "endpoint": field[:, ::2, ::2],
        "cell": field[:, 1::3, 1::3],
        "interior": field[:, 1::2, 1::2],
    }.get(placement, field[:, ::2, ::2])
    torch.testing.assert_close(carry(field, expected.shape[1:], placement, method), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_cubic_is_of_third_order(placement: str) -> None:
    """f = sin(2π(x + y + 0.1)), largest error over all nodes: the seam and the boundary are no worse than the rest."""
    errors = []
    for source in (32, 64, 128):
        x, y = nodes(placement, source), nodes(placement, 299)
        field, exact = (torch.sin(2 * math.pi * (t[:, None] + t + 0.1)) for t in (x, y))
        errors.append((carry(field, (299, 299), placement, "bicubic") - exact).abs().max().item())
    assert math.log2(errors[1] / errors[2]) > 2.8
    assert errors[2] < 1e-3


def test_wrong_requests() -> None:
    with pytest.raises(ValueError, match="needs 4 samples per axis or more, got 3"):
        carry(torch.ones(3), (33,), "endpoint", "bicubic")
    with pytest.raises(ValueError, match="unknown way to interpolate 'bilinear'"):
        carry(torch.ones(17), (9,), "endpoint", "bilinear")
    with pytest.raises(ValueError, match="unknown placement 'centre'"):
        carry(torch.ones(17), (9,), "centre", "nearest")


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "interior", "periodic"])
@pytest.mark.parametrize(("m", "n"), [(24, 8), (17, 9), (12, 7), (8, 24), (9, 10)])
def test_means_conserve_the_integral(placement, m, n):
    """Cells are built here by bisection between neighbours; Σ |cell| value is the same before and after."""

    def sizes(count):
        j = np.arange(count)
        nodes = {
            "endpoint": j / (count - 1),
            "cell": (j + 0.5) / count,
            "left": j / count,
            "interior": (j + 1) / (count + 1),
            "periodic": j / count,
        }[placement]
        if placement == "periodic":
            return np.full(count, 1 / count)
        edges = np.concatenate([[0], (nodes[1:] + nodes[:-1]) / 2, [1]])
        return np.diff(edges)

    M = matrix(Axis1D(placement, m, placement, n), "mean").numpy()
    assert np.allclose(M.sum(1), 1)
    assert (M >= 0).all()
    assert np.allclose(sizes(n) @ M, sizes(m))


def test_means_of_cells_that_nest_are_block_means():
    x = torch.arange(12.0, dtype=torch.float64) ** 2
    assert torch.allclose(matrix(Axis1D("cell", 12, "cell", 4), "mean") @ x, x.view(4, 3).mean(1))


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "interior", "periodic"])
@pytest.mark.parametrize(("m", "n"), [(25, 9), (16, 7), (13, 12)])
def test_antialias_keeps_what_the_coarser_samples_hold(placement, m, n):
    """Restriction after interpolation is the identity; what it leaves out is orthogonal to all that can be held."""
    down = matrix(Axis1D(placement, m, placement, n), "antialias")
    up = matrix(Axis1D(placement, n, placement, m), "cubic")
    assert torch.allclose(down @ up, torch.eye(n, dtype=torch.float64), atol=1e-9)
    x = torch.randn(m, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert (up.T @ (x - up @ (down @ x))).abs().max() < 1e-9


def test_antialias_cuts_a_fourier_series_off():
    """A wave that 9 samples hold stays, a faster one vanishes instead of showing as another."""
    t = 2 * torch.pi * torch.arange(27, dtype=torch.float64) / 27
    down = matrix(Axis1D("periodic", 27, "periodic", 9), "antialias")
    slow, fast = torch.sin(3 * t), torch.cos(7 * t)
    assert torch.allclose(down @ (slow + fast), slow[::3], atol=1e-12)
    assert (matrix(Axis1D("periodic", 27, "periodic", 9), "linear") @ fast).abs().max() > 0.5


def test_antialias_on_the_way_up_is_cubic():
    axis = Axis1D("cell", 8, "cell", 16)
    assert torch.equal(matrix(axis, "antialias"), matrix(axis, "cubic"))
