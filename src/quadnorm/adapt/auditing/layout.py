"""Channels-last models under audit: which axes of the inputs are the grid's, and the model with channels first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.auditing.rows import AuditRow
from quadnorm.adapt.report import AnchorReport
from quadnorm.adapt.trees import mapped
from quadnorm.measures.base import Shape


def layout_of_inputs(shapes: Sequence[Shape]) -> str:
    """``first`` or ``last``: the axes whose lengths differ between resolutions are the grid's, the channels' is not.

    >>> layout_of_inputs([(1, 3, 17, 17), (1, 3, 33, 33)]), layout_of_inputs([(1, 17, 3), (1, 33, 3)])
    ('first', 'last')
    """
    second, last = ({shape[k] for shape in shapes} for k in (1, -1))
    return "last" if len(second) > 1 and len(last) == 1 else "first"


def channels_first(x: Tensor) -> Tensor:
    """(B, *spatial, C) → (B, C, *spatial)."""
    return x.movedim(-1, 1)


class ChannelsFirst(nn.Module):
    """A model of fields (B, *spatial, C), called with (B, C, *spatial)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The model's outputs, those with as many axes as the input with their channels first."""
        return mapped(lambda y: channels_first(y) if y.ndim == x.ndim else y, self.model(x.movedim(1, -1)))


def under_own_names(rows: list[AuditRow], report: AnchorReport) -> tuple[list[AuditRow], AnchorReport]:
    """Rows and report of a :class:`ChannelsFirst` as those of the model inside, under its own names."""
    prefix = "model"

    def renamed(entry: Any) -> Any:
        return replace(entry, name=entry.name.removeprefix(prefix).removeprefix("."))

    own = [renamed(row) for row in rows if row.name.startswith(prefix)]
    return own, replace(report, entries=[renamed(e) for e in report if e.name.startswith(prefix)])
