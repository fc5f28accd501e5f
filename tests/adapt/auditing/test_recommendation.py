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
    ways = {
        "anchor": anchor(model, 9, "endpoint"),
        "at_native": at_native(model, 9, "endpoint"),
        "extend": extend(model, 9, "endpoint"),
    }

    names = {"anchor": "anchored", "at_native": "run at the training grid", "extend": "extended"}

    def field(n):  # with scales that the training grid misses
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + 0.5 * torch.sin(8 * math.pi * r)[:, None]

    for name, way in ways.items():
        result = audit(
            model, lambda n, way=way: (field(n), way(field(n))), [9, 17, 33], interventions=False, placement="endpoint"
        )
        assert max(result.errors[names[name]]) < 1e-12
        as_good = max(result.errors["transferred"]) < 1e-12  # then one answer is enough
        assert result.recommendation.startswith("transfer" if as_good else name), str(result)
    as_it_is = audit(
        model, lambda n: (field(n), model(field(n))), [9, 17, 33], interventions=False, placement="endpoint"
    )
    assert as_it_is.recommendation.startswith("nothing")
    assert as_it_is.detail > 0.1


def test_aliasing_of_the_input_is_told_from_leaks():
    """A wave between the training samples: what remains after anchoring disappears with it."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4))

    def field(n):
        r = torch.arange(n, dtype=torch.float64) / (n - 1)
        return smooth(n) + torch.sin(8 * math.pi * r)[:, None]

    assert (
        "aliasing of the input" in audit(model, field, [9, 17, 33, 65], interventions=False, placement="endpoint").rest
    )


def test_one_recommendation_and_none_of_accuracy_without_targets():
    """Drift from the training grid is no error: without targets the audit says so, and names transfer."""
    model = network(nn.GELU(), nn.GroupNorm(1, 4))
    text = str(audit(model, smooth, [9, 17, 33], placement="endpoint", interventions=False))
    assert text.startswith("recommended: transfer, with pairs at the training grid")
    assert "nothing can be said of the ways' errors" in text
    assert text.count("recommended") == 1
    assert "favours" not in text


def test_transfer_is_recommended_where_it_is_as_good_as_any():
    """Targets of the model's own native run, smooth: all that keep its sums are equal, and transfer is named."""
    torch.manual_seed(0)
    model = FNO(width=6, modes=3, layers=1).double().requires_grad_(False)
    truth = at_native(model, 9, "endpoint")
    result = audit(
        model,
        lambda n: (smooth(n), truth(smooth(n)) + 0.05 * smooth(n)),
        [9, 17, 33],
        interventions=False,
        placement="endpoint",
    )
    assert result.recommendation.startswith("transfer, by the mean error"), str(result)
    assert set(result.errors) == {
        "as trained",
        "anchored",
        "extended",
        "run at the training grid",
        "transferred",
    }


def test_the_recommendation_can_be_typed():
    """The second line is Python that runs."""
    model = network(nn.GroupNorm(1, 4))
    for sizes in ([9, 17, 33], [(9, 9), (17, 17), (33, 33)]):
        how = str(
            audit(model, lambda n: smooth(n if isinstance(n, int) else n[0]), sizes, placement="endpoint")
        ).splitlines()[1]
        names = {"quadnorm": quadnorm, "model": model, "x": smooth(9), "y": smooth(9)}
        moved = eval(how.removeprefix("  in Python: "), names)
        assert moved.resolution == (9, 9)
        assert moved.placements == ("endpoint", "endpoint")
