"""Anchored operators of this package: native outputs, second order, every kind of norm and kernel."""

import math

import pytest
import torch
from torch import nn

from quadnorm import Anchored, Blend, Grid
from quadnorm.adapt import anchor
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from tests.adapt.fields import orders

SIZES = (17, 33, 65, 129)


def seeded(kind, **options):
    torch.manual_seed(0)
    sizes = {"width": 6, "modes": 4} if kind is FNO else {"width": 16}
    return kind(layers=2, **sizes, **options).double()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (FNO, {}),
        (FNO, {"norm": "instance", "kernel": "hermitian"}),
        (FNO, {"norm": "none", "kernel": "quadrature"}),
        (FNO, {"norm": "blend", "gain": True}),
        (FNO, {"norm": "rms", "padding": 0.25}),
        (GalerkinTransformer, {}),
        (Transolver, {}),
    ],
)
def test_native_output_stays_and_the_rest_is_of_second_order(kind, options):
    model = seeded(kind, **options)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fixed = anchor(model, 17, "endpoint")
    x = torch.randn(2, 1, 17, 17, dtype=torch.float64)
    with torch.no_grad():
        gap = (fixed(x) - model(x)).abs().max() / model(x).abs().max()
    assert gap < 1e-12
    assert min(orders(fixed, SIZES)) > 1.9
    if options.get("norm") != "rms":  # padding changes where the boundary mass sits; the rest is plainly of first order
        assert max(orders(model, SIZES)) < 1.3
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
    assert not fixed.anchor_report.left


def test_anchored_model_equals_the_one_made_with_the_measure():
    """FNO with Anchored measures from the start is the same function as the anchored FNO."""
    model = seeded(FNO)
    whole = Anchored((17, 17))
    direct = seeded(FNO, measure=whole, norm=lambda c: make_norm("anchored:17x17", c))
    direct.load_state_dict(model.state_dict())
    x = torch.randn(1, 1, 33, 33, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(anchor(model, 17, "endpoint")(x), direct(x), atol=1e-12)


def test_quadrature_norms_are_left_alone_and_blends_mixed():
    quad = anchor(seeded(FNO, norm="quad:instance"), 17, "endpoint")
    assert quad.blocks[0].norm.measure == Grid("trapezoid")
    assert "a quadrature already" in quad.anchor_report["blocks.0.norm"].why
    blend = anchor(seeded(FNO, norm="blend:0.4"), 17, "endpoint")
    assert blend.blocks[0].norm.measure == Blend(0.4, Grid("trapezoid"), Anchored((17, 17)))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_an_anchored_blend_has_the_moments_of_the_mixed_measure(alpha):
    """α·anchored + (1−α)·trapezoid, weights and statistics written out; at the training grid the blend as trained."""
    norm = make_norm(f"blend:{alpha}", 3).double()
    fixed = anchor(nn.Sequential(norm), (9, 9), "endpoint")
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    assert torch.allclose(fixed(x), norm(x), atol=1e-12)

    def axis(n, boundary):  # boundary: mass of the two end atoms beside the trapezoid rule
        w = torch.full((n,), (1 - boundary) / (n - 1), dtype=torch.float64)
        w[0] = w[-1] = (1 - boundary) / (2 * (n - 1)) + boundary / 2
        return w

    z = torch.randn(2, 3, 17, 13, dtype=torch.float64)
    w = alpha * torch.outer(axis(17, 1 / 9), axis(13, 1 / 9)) + (1 - alpha) * torch.outer(axis(17, 0), axis(13, 0))
    mean = (z * w).sum((1, 2, 3), keepdim=True) / 3
    var = ((z - mean) ** 2 * w).sum((1, 2, 3), keepdim=True) / 3
    assert torch.allclose(fixed(z), (z - mean) / torch.sqrt(var + norm.eps), atol=1e-11)
    assert w.sum().item() == pytest.approx(1, abs=1e-14)


def test_a_learned_blend_is_anchored_and_keeps_learning():
    model = nn.Sequential(make_norm("blend:learned", 3)).double()
    with torch.no_grad():
        model[0].alpha_logit.fill_(0.3)
    fixed = anchor(model, (9, 9), "endpoint")
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    assert torch.allclose(fixed(x), model(x), atol=1e-12)
    assert min(orders(fixed, (9, 17, 33, 65), channels=3)) > 1.9
    z = torch.randn(2, 3, 17, 17, dtype=torch.float64)
    fixed(z).pow(3).sum().backward()
    slope = fixed[0].alpha_logit.grad.item()
    h, values = 1e-5, []
    for step in (-h, h):
        with torch.no_grad():
            fixed[0].alpha_logit.fill_(0.3 + step)
            values.append(fixed(z).pow(3).sum().item())
    assert slope == pytest.approx((values[1] - values[0]) / (2 * h), rel=1e-5)
    assert fixed[0].alpha == pytest.approx(1 / (1 + math.exp(-0.3)), abs=1e-5)


def test_a_rule_on_the_wrong_samples_is_named():
    model = nn.Sequential(make_norm("quad", 3), make_norm("layer", 3))
    report = anchor(model, (8, 8), "cell").anchor_report
    assert "trapezoid weights belong to endpoint samples" in report["0"].why
    assert report["0"].action == "left"


def test_placement_comes_from_the_model_and_must_not_contradict_it():
    model = seeded(FNO, placement="cell")
    assert not anchor(model, 16).anchor_report.changed
    with pytest.raises(ValueError, match="the model says that its samples are 'cell'"):
        anchor(model, 16, "endpoint")


def test_anchoring_twice_changes_nothing_more():
    model = seeded(FNO)
    once = anchor(model, 17, "endpoint")
    twice = anchor(once, 17, "endpoint")
    assert not twice.anchor_report.changed
    x = torch.randn(1, 1, 33, 33, dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(once(x), twice(x))
    with pytest.raises(ValueError, match="is anchored already, at 17×17"):
        anchor(once, 33, "endpoint")


def test_layers_with_measures_of_their_own_keep_them_apart():
    """The operator's setter sets all its layers; a layer that had its own measure before must not lose it."""
    model = seeded(FNO)
    model.blocks[0].spectral.measure = "trapezoid"
    fixed = anchor(model, 17, "endpoint")
    assert fixed.blocks[0].spectral.measure == Grid("trapezoid")
    assert fixed.blocks[1].spectral.measure == Anchored((17, 17))
