"""The layout of inputs at scattered points: volumes, coordinates and fields in one tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

POINTS = "points"  # the placement of inputs (B, 1 + d + C, N): volumes, coordinates, fields
CARRIED = ("volume", "x", "y")  # the first channels of inputs at points of the plane


@dataclass(frozen=True)
class PointFields:
    """The parts of an input on points: volumes (B, N), 0 for padding; coordinates (B, d, N); fields (B, C, N).

    >>> inputs = PointFields.unpacked(torch.arange(8.0).reshape(1, 4, 2), dim=2)
    >>> inputs.volumes, inputs.fields
    (tensor([[0., 1.]]), tensor([[[6., 7.]]]))
    >>> inputs.packed().shape
    torch.Size([1, 4, 2])
    """

    volumes: Tensor
    places: Tensor
    fields: Tensor

    @classmethod
    def unpacked(cls, x: Tensor, dim: int) -> PointFields:
        """The parts of x (B, 1 + d + C, N), as views."""
        return cls(x[:, 0], x[:, 1 : 1 + dim], x[:, 1 + dim :])

    def packed(self) -> Tensor:
        """(B, 1 + d + C, N)."""
        return torch.cat([self.volumes.unsqueeze(1), self.places, self.fields], 1)


def volumes(x: Tensor) -> Tensor:
    """The volumes (B, N) of an input on points, whatever its dimension."""
    return x[:, 0]
