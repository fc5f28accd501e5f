"""Attention that leaks, in this package's transformers."""

import pytest
import torch
from torch import nn

from quadnorm.adapt import audit
from quadnorm.operators import GalerkinTransformer, Transolver
from tests.adapt.fields import smooth

SIZES = [9, 17, 33, 65]


def with_token_norms(kind):
    """Two blocks whose only sums over space are those of the attention."""
    torch.manual_seed(0)
    model = kind(width=8, heads=2, layers=2, norm="token").double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("kind", [GalerkinTransformer, Transolver])
def test_the_attention_that_leaks_is_named(kind):
    model = with_token_norms(kind)
    result = audit(model, smooth, SIZES, placement="endpoint")
    assert {r.name for r in result.leaks} == {"blocks.0.attention", "blocks.1.attention"}
    for row in result.leaks:
        assert row.cause.startswith("counting measure in attention")
        assert row.order == pytest.approx(1.0, abs=0.3)
        assert row.alone > 2 * result.totals["anchored"][-1]  # leaving only it as trained brings much of the leak back


@pytest.mark.parametrize("kind", [GalerkinTransformer, Transolver])
def test_an_attention_may_have_a_measure_of_its_own(kind):
    """One block's attention by quadrature, the other's counting: only the latter leaks at first order."""
    model = with_token_norms(kind)
    model.blocks[0].attention.measure = "trapezoid"
    rows = {r.name: r for r in audit(model, smooth, SIZES, placement="endpoint").rows}
    assert rows["blocks.0.attention"].order > 1.8
    assert rows["blocks.1.attention"].order < 1.3
