"""Runs that follow a plan: branches and numbers of steps that change, running statistics."""

import pytest
import torch
from torch import nn

import quadnorm as qn
from tests.adapt.small import FINE, WAYS, N, field, mean


@pytest.mark.parametrize("way", WAYS)
def test_branches_and_steps_may_change(way):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 1, 1)

        def forward(self, x, steps=2, positive=False):
            for _ in range(steps):
                x = x + self.c(x) - mean(x)
            return torch.relu(x) if positive else x

    torch.manual_seed(0)
    model = Loop()
    used = way(model, N, "endpoint")
    for steps, positive in ((2, False), (3, False), (1, True), (2, False)):
        y, plain = used(field(FINE), steps, positive), model(field(FINE), steps, positive)
        assert (y - plain).norm() < 0.03 * plain.norm()


def test_an_extended_model_in_training_counts_a_batch_once():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1))
    extended = qn.extend(model, N, "endpoint").train()
    before = model[1].running_mean.clone()
    for _ in range(3):
        extended(field(FINE)).sum().backward()
    assert model[1].num_batches_tracked == 3
    assert not torch.equal(model[1].running_mean, before)
    assert extended(torch.zeros(0, 1, FINE, FINE)).shape == (0, 1, FINE, FINE)
