"""Norms of strangers that are converted: without β, frozen, parametrized, of their own classes, without numbers."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from quadnorm.adapt import convert
from quadnorm.norms import QuadNorm, QuadRMSNorm


class Doubled(nn.GroupNorm):
    """A norm that does more than its base class."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("old", [nn.LayerNorm((4, 9, 9), bias=False), QuadRMSNorm(4)])
def test_no_bias_before_none_now(old):
    new, report = convert(nn.Sequential(old), "quad")
    assert [name for name, _ in new.named_parameters()] == ["0.weight"]
    assert new[0].affine
    assert new(torch.randn(2, 4, 9, 9)).shape == (2, 4, 9, 9)
    back = report.undo(new)
    assert type(back[0]) is type(old)


def test_frozen_parameters_stay_frozen():
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm((4, 9, 9))).requires_grad_(False)
    new, report = convert(model, "quad")
    assert not any(p.requires_grad for p in new.parameters())
    new.requires_grad_(True)
    assert all(p.requires_grad for p in report.undo(new).parameters())


@pytest.mark.parametrize(
    "change",
    [
        lambda norm: parametrizations.weight_norm(norm, "weight"),
        lambda norm: nn.utils.parametrize.register_parametrization(norm, "bias", nn.Softplus()),
        lambda norm: prune.random_unstructured(norm, "weight", 0.5),
    ],
)
def test_computed_parameters_are_left_and_said(change):
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.GroupNorm(2, 4))
    change(model[1])
    x = torch.randn(2, 4, 9, 9)
    expected = model[1](x)
    new, report = convert(model, "quad", inplace=True)  # PyTorch cannot copy a pruned layer
    assert type(new[0]) is QuadNorm
    assert "is no parameter but computed" in report["1"].why
    assert torch.equal(new[1](x), expected)


def test_a_forward_of_its_own_is_said_to_be_dropped():
    _, report = convert(nn.Sequential(Doubled(2, 4), nn.GroupNorm(2, 4)), "quad")
    assert "what Doubled.forward does besides is dropped" in report["0"].why
    assert "dropped" not in report["1"].why


def test_models_without_numbers():
    with torch.device("meta"):
        model = nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm((4, 9, 9)))
    new, report = convert(model, "quad")
    assert len(report.changed) == 2
    assert all(p.is_meta for p in new.parameters())
