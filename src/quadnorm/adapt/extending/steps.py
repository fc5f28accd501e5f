"""The table of the functions that can be extended."""

from __future__ import annotations

from quadnorm.adapt.calls.following.steps import StepRow

ROWS: dict[str, StepRow] = {}


def register(names: str, row: StepRow) -> None:
    """One row for several functions."""
    for name in names.split():
        ROWS[name] = row
