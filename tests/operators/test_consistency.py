"""Whole untrained networks between grids: order 1 with counting, order 2 with quadrature and anchored measures."""

import itertools
from functools import lru_cache

import numpy as np
import pytest
import torch

from quadnorm import Anchored
from quadnorm.operators import FNO, GalerkinTransformer, Transolver

D = torch.float64
SIZES = (33, 65, 129, 257)

MODELS = {
    "fno": lambda **o: FNO(width=6, modes=4, layers=3, projection=8, **o),
    "fno-hermitian": lambda **o: FNO(width=6, modes=4, layers=3, projection=8, kernel="hermitian", **o),
    "fno-gain": lambda **o: FNO(width=6, modes=4, layers=2, projection=8, gain=True, padding=0.2, **o),
    "galerkin": lambda **o: GalerkinTransformer(width=8, heads=2, layers=2, projection=8, **o),
    "transolver": lambda **o: Transolver(width=8, heads=2, layers=2, slices=4, **o),
}


def build(name, **options):
    torch.manual_seed(0)
    return MODELS[name](**options).double()


@lru_cache
def field(n):
    """A smooth field, neither periodic nor zero on the boundary; nodes j/(n−1)."""
    t = torch.arange(n, dtype=D) / (n - 1)
    x, y = t[:, None], t[None, :]
    return (torch.exp(x - y) * torch.cos(3 * x + y))[None, None]


def gaps(model):
    """Relative L² distance of the outputs on each grid and the next, at the samples of the coarsest."""
    with torch.no_grad():
        outs = [model(field(n))[:, :, :: (n - 1) // 32, :: (n - 1) // 32] for n in SIZES]
    return np.array([float((a - b).norm() / b.norm()) for a, b in itertools.pairwise(outs)])


CASES = {
    "counting": ("layer", "counting", 0.85, 1.15),
    "quadrature": ("quad", "trapezoid", 1.9, 2.1),
    "anchored": ("anchored:33", Anchored(33), 1.9, 2.1),
    "instance-anchored": ("quad:instance", Anchored(33), 1.9, 2.15),
}


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *((name, case) for name in ("fno", "galerkin", "transolver") for case in CASES),
        *((name, case) for name in ("fno-hermitian", "fno-gain") for case in ("counting", "quadrature")),
    ],
)
def test_order(name, case):
    norm, measure, low, high = CASES[case]
    e = gaps(build(name, norm=norm, measure=measure))
    rates = np.log2(e[:-1] / e[1:])
    assert e[0] > 1e-7, "the sums do not matter to this network's output; the test would show nothing"
    assert ((low <= rates) & (rates <= high)).all(), (e, rates)


@pytest.mark.parametrize(("norm", "measure"), [("quad", "counting"), ("layer", "trapezoid")])
def test_one_counting_sum_is_enough_for_order_one(norm, measure):
    """Quadrature in the norms alone leaves the operator's own sum, and the other way round."""
    e = gaps(build("fno", norm=norm, measure=measure))
    assert np.log2(e[-2] / e[-1]) < 1.2, e


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_anchoring_changes_nothing_at_the_training_grid(name, dtype):
    counting = build(name, norm="layer").to(dtype)
    anchored = build(name, norm="anchored:33", measure=Anchored(33)).to(dtype)
    anchored.load_state_dict(counting.state_dict())
    x = field(33).to(dtype)
    with torch.no_grad():
        a, b = counting(x), anchored(x)
    assert (a - b).norm() <= (1e-5 if dtype == torch.float32 else 1e-12) * a.norm()


def test_cell_centred_grids_are_consistent_with_counting():
    """There equal weights are the midpoint rule: order 2 without any change."""
    torch.manual_seed(0)
    model = FNO(width=6, modes=4, layers=2, norm="layer", placement="cell").double()
    outs = []
    with torch.no_grad():
        for n in (27, 81, 243):  # centres of thirds: every third grid's centres are among the finer grid's
            t = (torch.arange(n, dtype=D) + 0.5) / n
            u = torch.exp(torch.cos(2 * torch.pi * t))[:, None] * torch.sin(2 * torch.pi * t)[None]  # smooth, periodic
            step = n // 27
            outs.append(model(u[None, None])[:, :, step // 2 :: step, step // 2 :: step])
    e = [float((a - b).norm()) for a, b in itertools.pairwise(outs)]
    assert np.log(e[0] / e[1]) / np.log(3) > 1.9, e
