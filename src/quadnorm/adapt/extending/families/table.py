"""The table of the functions that can be extended, filled by the other modules of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quadnorm.adapt.calls.following.steps import Step


@dataclass(frozen=True)
class StepRow:
    """How one family of functions is extended.

    ``mixes(step)`` says whether the call mixes samples; ``keep(step)`` what the native run stores; ``replay(step)``
    gives the result on the new grid. ``action`` and ``why`` are for the report.
    """

    action: str
    why: str
    mixes: Callable[[Step], bool]
    keep: Callable[[Step], Any]
    replay: Callable[[Step], Any]


ROWS: dict[str, StepRow] = {}


def register(names: Iterable[str], row: StepRow) -> None:
    """One row for several functions."""
    ROWS.update(dict.fromkeys(names, row))


def step_row(step: Step) -> StepRow | None:
    """How a call is extended; None if it acts on single samples."""
    row = ROWS.get(step.call.name)
    return row if row is not None and step.call.axes and row.mixes(step) else None
