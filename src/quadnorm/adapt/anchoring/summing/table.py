"""The table of the functions whose sums can be anchored, filled by the other modules of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quadnorm.adapt.anchoring.summing.weights import WeightedStep


@dataclass(frozen=True)
class SumRow:
    """How one family of functions is anchored.

    ``applies(step)`` says whether the call takes a sum over samples, or pads them; ``result(step)`` is what it gives
    under the training grid's measure; ``why`` stands in the report.
    """

    why: str
    applies: Callable[[WeightedStep], bool]
    result: Callable[[WeightedStep], Any]


SUMS: dict[str, SumRow] = {}


def register(names: Iterable[str], row: SumRow) -> None:
    """One row for several functions."""
    SUMS.update(dict.fromkeys(names, row))


def sum_row(step: WeightedStep) -> SumRow | None:
    """How a call's sum is anchored; None if it takes none, or none that can be."""
    row = SUMS.get(step.call.name)
    return row if row is not None and step.call.axes and row.applies(step) else None
