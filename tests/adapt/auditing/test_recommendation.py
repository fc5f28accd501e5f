"""Which way the audit recommends, and what it says of the data."""

import math

import torch
from torch import nn

import quadnorm
from quadnorm.adapt import anchor, at_native, audit, extend
from quadnorm.operators import FNO
from tests.adapt.auditing.networks import network
from tests.adapt.fields import smooth


def test_recommendation_from_targets():
    """Truths made by each way in turn: the audit must find the one that made them."""
    torch.manual_seed(0)
    model = FNO(width=6, modes=3, layers=1).double().requires_grad_(False)
    ways = {"anchor": anchor(model, 9), "at_native": at_native(model, 9), "extend": extend(model, 9)}

    def field(n):  # with scales that the training grid misses
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + 0.5 * torch.sin(8 * math.pi * r)[:, None]

    for name, way in ways.items():
        result = audit(model, lambda n, way=way: (field(n), way(field(n))), [9, 17, 33], interventions=False)
        assert result.recommendation.startswith(name), str(result)
        assert max(result.errors[name]) < 1e-12
    as_it_is = audit(model, lambda n: (field(n), model(field(n))), [9, 17, 33], interventions=False)
    assert as_it_is.recommendation.startswith("nothing")
    assert as_it_is.detail > 0.1
    assert "within 2 %" not in as_it_is.recommendation


def test_aliasing_of_the_input_is_told_from_leaks():
    """A wave between the training samples: what remains after anchoring disappears with it."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4))

    def field(n):
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + torch.sin(8 * math.pi * r)[:, None]

    assert "aliasing of the input" in audit(model, field, [9, 17, 33, 65], interventions=False).rest


def test_the_data_says_which_way_it_favours():
    """Smooth on nested grids, fine inputs, kinks, grids that do not nest, coarser ones, samples that end early."""
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.Conv1d(4, 1, 1)).double()

    def axis(n, left=False):
        return torch.arange(n, dtype=torch.float64) / (n - (not left))

    def favoured(field, sizes, target=None, **more):
        def make(n):
            r = axis(n, "placement" in more)
            x, y = (f(r)[None, None] for f in (field, target or field))
            return (x, y) if target else x

        result = audit(model, make, sizes, interventions=False, **more)
        assert f"as a rule, such data favours {result.favours}" in str(result)
        return result.favours

    def fine(r):
        return torch.exp(r) + 0.5 * torch.sin(24 * math.pi * r)

    def kinks(r):
        return 1 + 0.2 * torch.sin(9 * math.pi * r + 1).abs()

    assert favoured(torch.exp, [17, 33, 65]).startswith("at_native: inputs are smooth")
    assert favoured(torch.exp, [17, 40]).startswith("at_native: inputs are smooth")
    assert favoured(fine, [17, 65]).startswith("anchor or extend if outputs have")
    assert favoured(fine, [17, 65], torch.exp).startswith("at_native: what upsampling misses")
    assert favoured(fine, [17, 40]).startswith("anchor: the input has fine scales and the grids do not nest")
    assert favoured(torch.exp, [33, 17]).startswith("extend or at_native")
    assert favoured(torch.exp, [16, 32], placement="left").endswith("where upsampling extrapolates")
    for constant, way in (
        (0.0, "at_native"),
        (1.13, "anchor or extend: targets have kinks"),
    ):  # errors of 100 and 5 %
        model[2].weight.data.zero_()
        model[2].bias.data.fill_(constant)
        assert favoured(torch.exp, [17, 65], kinks).startswith(way)


def test_the_recommendation_can_be_typed():
    """The last line is Python that runs."""
    model = network(nn.GroupNorm(1, 4))
    for sizes in ([9, 17, 33], [(9, 9), (17, 17), (33, 33)]):
        how = str(audit(model, lambda n: smooth(n if isinstance(n, int) else n[0]), sizes)).splitlines()[-1]
        names = {"quadnorm": quadnorm, "model": model}
        fixed = eval(how.removeprefix("  in Python: "), names)
        assert "anchored at 9×9" in fixed.anchor_report.title
