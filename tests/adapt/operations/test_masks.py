"""Means over the samples that are there, as people write them: by boolean masks, by NaN, by counting."""

import pytest
import torch

import quadnorm as qn
from tests.adapt.models import Calls, field
from tests.adapt.ways import gaps

SPACE = (2, 3)


def there(x):
    return x.tanh() < 2  # everywhere


MEANS = {
    "mask": lambda x: (x * there(x)).sum(SPACE, keepdim=True) / there(x).sum(SPACE, keepdim=True),
    "whole numbers": lambda x: (x * there(x)).sum(SPACE, keepdim=True) / there(x).long().sum(SPACE, keepdim=True),
    "count_nonzero": lambda x: (x * there(x)).sum(SPACE, True) / there(x).count_nonzero(SPACE)[..., None, None],
    "nanmean": lambda x: x.nanmean(SPACE, keepdim=True),
    "nansum": lambda x: x.nansum(SPACE, keepdim=True) / (~x.isnan()).sum(SPACE, keepdim=True),
}


@pytest.mark.parametrize("form", MEANS)
def test_masked_means_are_anchored(form):
    """The number of samples is that of the training grid, a share of samples need not be whole."""
    model = Calls(lambda x: x - MEANS[form](x)).eval()
    anchored = qn.anchor(model, (17, 17), "endpoint")
    assert not anchored.anchor_report.left
    assert torch.equal(anchored(field(17, 17)), model(field(17, 17)))
    (raw, by_calls, extended), _ = gaps(model)
    assert by_calls < 0.15 * raw
    assert extended < 1e-5


def test_samples_without_a_value_count_nowhere():
    """A constant field with holes has its own mean under every measure: nothing of the holes may enter."""
    model = Calls(lambda x: x.nanmean(SPACE, keepdim=True).expand_as(x)).eval()
    anchored = qn.anchor(model, (17, 17), "endpoint")
    x = torch.ones(1, 1, 33, 33)
    expected = anchored(x)
    x[..., :9, 20:] = torch.nan
    torch.testing.assert_close(anchored(x), expected)
