"""Python numbers among the arguments of a call: which of them count samples, and what they are on the training grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isclose, log
from typing import Any

from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Count:
    """A number that moves with the grid, such as the n of KᵀV/n.

    ``powers``: for each axis s and p where it goes as (n − s)ᵖ; None if it goes in another way. A number that goes as
    powers may depend on other things too, as the number of elements does on the batch.
    """

    native: Any
    powers: tuple[tuple[int, float], ...] | None

    def on_training_grid(self, new: Any, grid: Shape, shape: Shape) -> Any:
        """What the number ``new``, of a call on ``shape``, would be on the training grid."""
        if self.powers is None:
            return self.native
        value = new
        for n, m, (s, p) in zip(grid, shape, self.powers, strict=True):
            value = value / ((m - s) / (n - s)) ** p if m != n and p else value
        if isinstance(new, int) and isinstance(value, float) and isclose(value, round(value), rel_tol=1e-9):
            return round(value)
        return value


def counts_of(native: Any, others: list[Any], grid: Shape, refined: Shape) -> Any:
    """The nested numbers of a call with a :class:`Count` for each that moves, None for everything else.

    ``others``: the same on grids that are ``refined`` along one axis each.
    """
    if _is_number(native) and all(_is_number(o) for o in others):
        return Count(native, _powers(native, others, grid, refined)) if any(o != native for o in others) else None
    if isinstance(native, (tuple, list)) and all(_alike(native, o) for o in others):
        return tuple(counts_of(v, [o[k] for o in others], grid, refined) for k, v in enumerate(native))
    if isinstance(native, dict) and all(isinstance(o, dict) and o.keys() == native.keys() for o in others):
        return {k: counts_of(v, [o[k] for o in others], grid, refined) for k, v in native.items()}
    return None


def each_count(counts: Any) -> Iterator[Count]:
    """All counts in a nested result of :func:`counts_of`."""
    if isinstance(counts, Count):
        yield counts
    for v in counts.values() if isinstance(counts, dict) else counts if isinstance(counts, tuple) else ():
        yield from each_count(v)


def without_data(counts: Any, native: Any, again: Any) -> Any:
    """Counts without those that are no powers of the grid and differ in another run on it: they come from the data."""
    if isinstance(counts, Count):
        return None if counts.powers is None and native != again else counts
    if isinstance(counts, tuple) and _alike(native, again):
        return tuple(without_data(f, n, a) for f, n, a in zip(counts, native, again, strict=True))
    if isinstance(counts, dict) and isinstance(again, dict) and again.keys() == native.keys():
        return {k: without_data(f, native[k], again[k]) for k, f in counts.items()}
    return counts


def exchanged(counts: Any, new: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The nested arguments ``new`` with ``change(entry, number)`` for each number that has an entry in ``counts``."""
    if _is_number(new):
        return new if counts is None else change(counts, new)
    if isinstance(new, dict):
        entries = counts if isinstance(counts, dict) else {}
        return {k: exchanged(entries.get(k), v, change) for k, v in new.items()}
    if type(new) in (tuple, list) and isinstance(counts, (tuple, list)) and len(counts) == len(new):
        return type(new)(exchanged(f, v, change) for f, v in zip(counts, new, strict=True))
    return new


def numbers_of(native: Any, new: Any) -> Any:
    """The nested arguments ``new`` with the numbers of another run of the same call."""
    return exchanged(native, new, lambda kept, number: kept if _is_number(kept) else number)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _alike(a: Any, b: Any) -> bool:
    return isinstance(b, (tuple, list)) and len(a) == len(b)


def _powers(native: Any, others: list[Any], grid: Shape, refined: Shape) -> tuple[tuple[int, float], ...] | None:
    powers = [_power(native, other, n, m) for n, m, other in zip(grid, refined, others, strict=True)]
    known = tuple(power for power in powers if power is not None)
    return known if len(known) == len(powers) else None


def _power(native: Any, other: Any, n: int, m: int) -> tuple[int, float] | None:
    """The shift s and the power p, a multiple of ½, for which other/native = ((m − s)/(n − s))ᵖ."""
    if other == native:
        return 0, 0.0
    if isinstance(native, complex) or isinstance(other, complex) or native == 0 or other / native <= 0:
        return None
    for s in (0, 1):
        if n - s > 0 and m - s > 0 and n != m:
            step = log((m - s) / (n - s))
            p = round(2 * log(other / native) / step) / 2
            if p and abs(p) <= 6 and isclose(log(other / native), p * step, rel_tol=1e-6):
                return s, p
    return None
