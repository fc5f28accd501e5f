"""Operators on grids whose axes differ in where their nodes lie, such as a channel: walls across, periodic along."""

from functools import partial

import numpy as np
import pytest
import torch

import quadnorm as qn
from quadnorm.operators import FNO, GalerkinTransformer, Transolver

MIXED = ("endpoint", "periodic")
SMALL = {"width": 4, "layers": 1, "placement": MIXED}


def operators():
    return [
        FNO(modes=2, norm="quad:instance", **SMALL),
        GalerkinTransformer(heads=2, norm="quad", **SMALL),
        Transolver(heads=2, slices=3, norm="quad", **SMALL),
    ]


def test_each_axis_has_the_nodes_and_the_weights_of_its_placement():
    """Coordinates are part of what the lift sees: x = j/(n−1) on the first axis, j/m on the second."""
    from quadnorm.operators.domain import COUNTING, positions

    r = positions(COUNTING, MIXED, (5, 4), torch.device("cpu"), torch.float64).numpy()
    np.testing.assert_allclose(r[0].reshape(5, 4)[:, 0], np.arange(5) / 4)
    np.testing.assert_allclose(r[1].reshape(5, 4)[0], np.arange(4) / 4)
    for model in operators():
        assert model.placement == MIXED
        measures = {m.measure for m in model.modules() if isinstance(m, qn.QuadNorm)}
        assert measures == {qn.Grid(("trapezoid", "periodic"))}


@pytest.mark.parametrize("model", operators(), ids=lambda m: type(m).__name__)
def test_anchored_and_extended_keep_the_output_at_the_training_grid(model):
    x = torch.randn(2, 1, 9, 8)
    anchor = partial(qn.anchor, force=True)  # one random layer with quadrature norms may drift as much anchored
    for way in (anchor, qn.extend, qn.at_native):
        used = way(model, (9, 8))  # the model says where its nodes lie
        torch.testing.assert_close(used(x), model(x), rtol=1e-4, atol=1e-5)
        assert used(torch.randn(1, 1, 17, 16)).shape == (1, 1, 17, 16)
    with pytest.raises(ValueError, match="but the model says that its samples are"):
        qn.anchor(model, (9, 8), "endpoint")


def test_equal_placements_are_one_placement():
    assert FNO(width=4, modes=2, placement=["cell", "cell"]).placement == "cell"


@pytest.mark.parametrize("wrong", [("cell",), ("cell", "cell", "cell"), ("cell", "centre"), 3, ("cell", None)])
def test_placements_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match="placement"):
        FNO(width=4, modes=2, placement=wrong)
