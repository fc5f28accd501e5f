"""The networks that are audited."""

import torch
from torch import nn


def network(*layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 1), *layers, nn.Conv2d(4, 1, 1)).double()
