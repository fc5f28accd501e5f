"""Moving samples between grids, against torch's interpolation and against functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from quadnorm.problems.restrict import nearest as restricted
from quadnorm.training.resample import nearest, resample

PLACEMENTS = ("endpoint", "cell", "periodic", "left", "interior")


def nodes(placement: str, n: int) -> torch.Tensor:
    j = torch.arange(n, dtype=torch.float64)
    return {"endpoint": j / (n - 1), "cell": (j + 0.5) / n, "interior": (j + 1) / (n + 1)}.get(placement, j / n)


@pytest.mark.parametrize("shape", [(26, 20), (33, 40)])
def test_inside_cubic_is_torchs_with_the_same_kernel(shape: tuple[int, int]) -> None:
    """With antialias=True torch takes a = −1/2; when upsampling, its nodes are cell centres and nothing is smoothed."""
    field = torch.randn(2, 3, 17, 13, dtype=torch.float64)
    expected = interpolate(field, size=shape, mode="bicubic", antialias=True)
    found = resample(field, shape, "cell", "bicubic")
    inner = (..., slice(8, -8), slice(8, -8))  # torch ends its kernels at the boundary
    torch.testing.assert_close(found[inner], expected[inner], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "interior"])
def test_cubic_is_exact_for_quadratics_up_to_the_boundary(placement: str) -> None:
    for source, n in ((9, 23), (21, 8), (4, 5)):
        x, y = nodes(placement, source), nodes(placement, n)
        field, expected = ((1 + t[:, None] - 2 * t[:, None] ** 2) * (3 - t + 5 * t**2) for t in (x, y))
        torch.testing.assert_close(resample(field, (n, n), placement, "bicubic"), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_index_selection_takes_the_nearest_node(placement: str) -> None:
    for source, n in ((421, 32), (64, 16), (65, 9), (50, 49)):
        x, fine = nodes(placement, n), nodes(placement, source)
        gap = (x[:, None] - fine).abs()
        if placement == "periodic":
            gap = torch.minimum(gap, 1 - gap)
        chosen = gap[torch.arange(n), torch.from_numpy(nearest(placement, source, n))]
        assert torch.all(chosen <= gap.amin(1) + 1e-12)


def test_index_selection_is_that_of_the_problems_and_of_the_paper() -> None:
    assert np.array_equal(nearest("endpoint", 421, 32), np.round(np.linspace(0, 420, 32)).astype(int))
    for n in (33, 64, 85, 128, 211, 256):
        assert np.array_equal(nearest("endpoint", 421, n), restricted(421, "endpoint", n))


@pytest.mark.parametrize(("placement", "method"), [(p, m) for p in PLACEMENTS for m in ("index", "bicubic")])
def test_a_constant_stays_constant_and_nested_nodes_keep_their_values(placement: str, method: str) -> None:
    flat = resample(torch.full((1, 12, 12), 3.0), (7, 5), placement, method)
    torch.testing.assert_close(flat, torch.full((1, 7, 5), 3.0))
    source = {"endpoint": 17, "cell": 27, "interior": 19}.get(placement, 18)
    field = torch.randn(2, source, source, dtype=torch.float64)
    expected = {
        "endpoint": field[:, ::2, ::2],
        "cell": field[:, 1::3, 1::3],
        "interior": field[:, 1::2, 1::2],
    }.get(placement, field[:, ::2, ::2])
    torch.testing.assert_close(resample(field, expected.shape[1:], placement, method), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_cubic_is_of_third_order(placement: str) -> None:
    """f = sin(2π(x + y + 0.1)), largest error over all nodes: the seam and the boundary are no worse than the rest."""
    errors = []
    for source in (32, 64, 128):
        x, y = nodes(placement, source), nodes(placement, 299)
        field, exact = (torch.sin(2 * math.pi * (t[:, None] + t + 0.1)) for t in (x, y))
        errors.append((resample(field, (299, 299), placement, "bicubic") - exact).abs().max().item())
    assert math.log2(errors[1] / errors[2]) > 2.8
    assert errors[2] < 1e-3


def test_wrong_requests() -> None:
    with pytest.raises(ValueError, match="cannot select 33 of 17 samples"):
        resample(torch.ones(17), (33,), "endpoint", "index")
    with pytest.raises(ValueError, match="needs 4 samples per axis or more, got 3"):
        resample(torch.ones(3), (33,), "endpoint", "bicubic")
    with pytest.raises(ValueError, match="unknown way to resample 'bilinear'"):
        resample(torch.ones(17), (9,), "endpoint", "bilinear")
    with pytest.raises(ValueError, match="unknown placement 'centre'"):
        resample(torch.ones(17), (9,), "centre", "index")
