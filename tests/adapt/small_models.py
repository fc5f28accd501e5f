"""Models that several tests of this room anchor."""

import torch
from torch import nn


class Transpose(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4), nn.GELU(), nn.InstanceNorm2d(4), nn.Conv2d(4, 1, 1))
