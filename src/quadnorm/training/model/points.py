"""Operators on scattered points as training calls them: one input tensor, one output tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.norms.factory import is_norm
from quadnorm.operators.domain import COUNTING
from quadnorm.problems.points import PointFields
from quadnorm.training.model.normalised import Normalised, moments


class OnPoints(Normalised):
    """:class:`Normalised` for inputs (B, 1 + d + C, N): channel 0 has the control volumes, the next d the coordinates.

    Points with volume 0 are padding. A sum over space with the measure ``counting`` counts the other points; any other
    measure means quadrature, which on points is a sum with control volumes. The norms (``operator.params.norm``) and
    the operator's own sums (``operator.params.measure``) are set separately. Measures are read at every call, so they
    can be changed after training.

    x (B, 1 + d + C, N) -> y (B, C', N); y is 0 at padding, and so is the truth, so that plain errors need no mask.

    >>> from quadnorm.operators import Transolver
    >>> model = OnPoints(Transolver(width=8, layers=1, norm="quad", measure="trapezoid"), 1, 1)
    >>> model(torch.rand(2, 4, 30)).shape
    torch.Size([2, 1, 30])
    """

    def fit(self, x: Tensor, y: Tensor) -> None:
        """Take μ and σ of the fields from all points that are not padding."""
        inputs = self._unpacked(x)
        there = inputs.volumes > 0
        for side, values in (("x", inputs.fields), ("y", y)):
            mean, std = moments(values.transpose(1, 2)[there].T.unsqueeze(0))  # (1, C, points)
            getattr(self, f"{side}_mean").copy_(mean)
            getattr(self, f"{side}_std").copy_(std)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        inputs = self._unpacked(x)
        volume = inputs.volumes
        there = (volume > 0).to(volume.dtype)
        encoded = (inputs.fields - self.x_mean[:, None]) / self.x_std[:, None]
        y: Tensor = self.operator(
            encoded.transpose(1, 2),
            coordinates=inputs.places.transpose(1, 2),
            weights=there if self.sums_count else volume,
            norm_weights=there if self.norms_count else volume,
            **options,
        ).transpose(1, 2)
        y = y * self.y_std[:, None] + self.y_mean[:, None]
        return torch.where(there.unsqueeze(1) > 0, y, torch.zeros((), dtype=y.dtype, device=y.device))

    def _unpacked(self, x: Tensor) -> PointFields:
        return PointFields.unpacked(x, dim=x.shape[1] - 1 - len(self.x_mean))

    @property
    def sums_count(self) -> bool:
        """Whether the operator's own sums count points."""
        return bool(getattr(self.operator, "measure", COUNTING) == COUNTING)

    @property
    def norms_count(self) -> bool:
        """Whether the norms count points."""
        norms = (m for m in self.operator.modules() if is_norm(m))
        return all(getattr(m, "measure", COUNTING) == COUNTING for m in norms)


def check_takes_points(make: Callable[..., nn.Module], name: str) -> None:
    """Raise unless the operator's ``forward`` takes coordinates."""
    forward = getattr(make, "forward", None)
    if forward is None or "norm_weights" not in inspect.signature(forward).parameters:
        raise ValueError(
            f"operator {name!r} needs samples on a grid, but this problem's samples lie on a mesh; choose galerkin or "
            f"transolver"
        )
