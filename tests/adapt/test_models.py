"""What is said of a training grid."""

import pytest
import torch
from torch import nn

import quadnorm as qn
from tests.adapt.small import FINE, field


def test_numpy_integers_are_resolutions():
    np = pytest.importorskip("numpy")
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4))
    assert qn.anchor(model, (np.int64(9), np.int32(9)), "endpoint")(field(FINE)).shape == (1, 4, FINE, FINE)


@pytest.mark.parametrize("way", [qn.anchor, qn.extend], ids=["anchor", "extend"])
def test_points_get_a_message(way):
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4))
    with pytest.raises(ValueError, match=r"got an array of shape \(50, 2\); for a model trained on points") as refused:
        way(model, torch.rand(50, 2))
    assert "tensor(" not in str(refused.value)
