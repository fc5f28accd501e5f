"""How fast the output stops depending on the grid."""

import numpy as np
import pytest
import torch

from quadnorm.measures import Anchored, Blend, Grid
from quadnorm.norms import QuadNorm


def sampled(n, dim):
    """Two smooth channels on n endpoint-inclusive nodes per axis; neither vanishes nor repeats at the boundary."""
    r = np.meshgrid(*[np.linspace(0, 1, n)] * dim, indexing="ij")
    a = np.exp(r[0]) + sum(np.sin(2 * t + k) for k, t in enumerate(r))
    b = np.cos(3 * r[-1]) * (1 + sum(r)) - 0.5
    return torch.from_numpy(np.stack([a, b])[None])


def discrepancies(measure, mode, dim, sizes):
    """Largest difference on the coarsest nodes from a grid so fine that it stands for the limit of the same measure."""
    layer = QuadNorm(2, mode=mode, num_groups=2, measure=measure, dtype=torch.float64)

    def coarse(n):
        step = (n - 1) // (sizes[0] - 1)
        return layer(sampled(n, dim))[(..., *[slice(None, None, step)] * dim)].detach()

    limit = coarse((sizes[0] - 1) * (2 ** {1: 14, 2: 7, 3: 4}[dim]) + 1)
    return np.array([(coarse(n) - limit).abs().max().item() for n in sizes])


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("mode", ["layer", "instance", "group"])
@pytest.mark.parametrize(
    ("measure", "low", "high"),
    [
        (Grid("trapezoid"), 1.9, 2.3),
        (Anchored(9), 1.9, 2.3),
        (Grid("counting"), 0.75, 1.25),
        (Blend(0.3, Grid("trapezoid")), 0.75, 1.25),
    ],
    ids=["trapezoid", "anchored", "counting", "blend"],
)
def test_order_between_grids(dim, mode, measure, low, high):
    sizes = {1: (33, 65, 129, 257), 2: (17, 33, 65), 3: (9, 17, 33)}[dim]
    e = discrepancies(measure, mode, dim, sizes)
    order = np.polyfit(np.log([n - 1 for n in sizes]), -np.log(e), 1)[0]
    assert low <= order <= high, (order, e)


def test_size_of_the_discrepancy():
    """A rate is blind to a common factor. f = r on [0, 1] has mean ½ and variance 1/12; on n nodes trapezoid has the
    variance 1/12 + h²/6 (the error of ∫r² is h²/6), so y(1) = ½/√(1/12 + h²/6); counting has (n+1)/(12(n−1)).
    """
    n = 11
    h = 1 / (n - 1)
    x = torch.linspace(0, 1, n, dtype=torch.float64)[None, None]
    quad = QuadNorm(1, eps=0.0, affine=False)(x)[0, 0, -1].item()
    uniform = QuadNorm(1, eps=0.0, affine=False, measure="counting")(x)[0, 0, -1].item()
    assert quad == pytest.approx(0.5 / np.sqrt(1 / 12 + h**2 / 6), rel=1e-12)
    assert uniform == pytest.approx(0.5 / np.sqrt((n + 1) / (12 * (n - 1))), rel=1e-12)
