"""Where the grid begins inside a padded axis: how many of the extra samples come before it."""

from __future__ import annotations

from typing import Any

from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.planning.plan import Call
from quadnorm.adapt.calls.watching.watch import TENSOR


def origin_after(call: Call, origins: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """(grid axis, extra samples) → how many of these come first, for what this call returns."""
    reader = READERS.get(call.name)
    if reader is None or not call.returned or not call.given:
        return {}
    before, after = call.given[0], call.returned[0]
    if len(before) != len(after):
        return {}
    result = {}
    for dim, shift in reader(bound(call.name, call.args, call.kwargs), len(before)).items():
        a, b = before[dim], after[dim]
        if a.on_grid and b.on_grid and len(a.axes) == 1 and a.axes == b.axes and a.extra != b.extra:
            start = origins.get((a.axes[0], a.extra[0]), 0)
            result[a.axes[0], b.extra[0]] = start + shift
    return result


def _pad(given: dict[str, Any], ndim: int) -> dict[int, int]:
    pads = tuple(given.get("pad") or ())
    return {ndim - 1 - k: int(pads[2 * k]) for k in range(len(pads) // 2)}


def _slices(given: dict[str, Any], ndim: int) -> dict[int, int]:
    index = given.get("index")
    items = list(index) if isinstance(index, tuple) else [index]
    if any(item is None or item is TENSOR for item in items):
        return {}
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (ndim - len(items) + 1)
    return {
        dim: -item.start
        for dim, item in enumerate(items)
        if isinstance(item, slice) and isinstance(item.start, int) and item.start > 0
    }


READERS = {"pad": _pad, "getitem": _slices}
