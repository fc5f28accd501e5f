"""Ranges of the parameters of problems: declared with each parameter, checked here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``above`` excludes ``low`` itself, ``below`` excludes ``high``.

    >>> str(Range(0, 1, above=True))
    'above 0 and at most 1'
    """

    low: float
    high: float
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and (
            value < self.high if self.below else value <= self.high
        )

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.above else f"at least {self.low:g}"
        return f"{low} and {'below' if self.below else 'at most'} {self.high:g}"


# Ranges that several problems share. The upper limits keep a typing error from asking for all memory.
Modes = Annotated[int, Range(1, 4096)]
Fine = Annotated[int, Range(5, 4097)]
Tolerance = Annotated[float, Range(1e-14, 1e-2)]
Decay = Annotated[float, Range(0, 20)]
Positive = Annotated[float, Range(0, 1e9, above=True)]
PoissonRatio = Annotated[float, Range(-1, 0.5, above=True, below=True)]  # at ½ the material is incompressible
Nonnegative = Annotated[float, Range(0, 1e9)]


@cache
def _declared(cls: type) -> dict[str, tuple[type, Range | None]]:
    """Type and range of the fields that hold one plain value."""
    hints = get_type_hints(cls, include_extras=True)
    declared: dict[str, tuple[type, Range | None]] = {}
    for f in fields(cls):
        hint, limits = hints[f.name], None
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            limits = next((n for n in notes if isinstance(n, Range)), None)
        if hint in (int, float, str, bool):
            declared[f.name] = (hint, limits)
    return declared


def check_parameters(problem: Any) -> None:
    """Raise a ValueError for values of a wrong type or out of range; an integer given for a float becomes a float."""
    cls: Any = type(problem)
    for name, (kind, limits) in _declared(cls).items():
        value = getattr(problem, name)
        if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            value = float(value)
            object.__setattr__(problem, name, value)
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if right and kind in (int, float):
            right = math.isfinite(value) and (limits is None or value in limits)
        if not right:
            expected = {int: "an integer", float: "a number", str: "text", bool: "true or false"}[kind]
            raise ValueError(
                f"{problem.name}: {name} must be {expected}{'' if limits is None else f' {limits}'}, got {value!r}"
            )
