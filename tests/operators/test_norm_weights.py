"""Norms and other sums of an operator on points, each with weights of their own."""

import pytest
import torch

from quadnorm.operators import GalerkinTransformer, Transolver

D = torch.float64
MAKES = {"galerkin": GalerkinTransformer, "transolver": Transolver}


@pytest.fixture(params=MAKES)
def model(request):
    torch.manual_seed(0)
    operator = MAKES[request.param](2, 1, width=8, heads=2, layers=2, norm="quad").double()
    for p in operator.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=0.5)
    return operator


def cloud():
    g = torch.Generator().manual_seed(1)
    return tuple(torch.rand(*s, generator=g, dtype=D) for s in ((3, 9, 2), (3, 9, 2), (3, 9), (3, 9)))


def test_they_follow_the_weights_unless_said_otherwise(model):
    x, r, w, other = cloud()
    y = model(x, coordinates=r, weights=w)
    torch.testing.assert_close(model(x, coordinates=r, weights=w, norm_weights=5 * w), y)  # any scale
    assert (model(x, coordinates=r, weights=w, norm_weights=other) - y).abs().max() > 1e-3


def test_only_the_norms_see_them(model):
    """The same model with norms left out of the question (γ = 0: a norm gives β, whatever it averages)."""
    x, r, w, other = cloud()
    for name, p in model.named_parameters():
        if "norm" in name and "norm_key" not in name and "norm_value" not in name:
            torch.nn.init.zeros_(p) if name.endswith("weight") else torch.nn.init.ones_(p)
    y = model(x, coordinates=r, weights=w)
    torch.testing.assert_close(model(x, coordinates=r, weights=w, norm_weights=other), y)


def test_on_a_grid_the_norm_has_a_measure_instead(model):
    with pytest.raises(ValueError, match="for scattered points"):
        model(torch.zeros(1, 2, 4, 4, dtype=D), norm_weights=torch.ones(16))
