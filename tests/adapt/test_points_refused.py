"""Points where a grid is expected: a message that says what to do, not a printed tensor."""

import pytest
import torch
from torch import nn

import quadnorm as qn


@pytest.mark.parametrize("way", [qn.anchor, qn.extend], ids=["anchor", "extend"])
def test_points_get_a_message(way):
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4))
    with pytest.raises(ValueError, match=r"got an array of shape \(50, 2\); for a model trained on points") as refused:
        way(model, torch.rand(50, 2))
    assert "tensor(" not in str(refused.value)
