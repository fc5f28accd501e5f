"""Where the grid begins inside a padded axis: how many of the extra samples come before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadnorm.adapt.calls.functions.signatures import bound, index_items
from quadnorm.adapt.calls.planning.plan import Call

Origins = dict[tuple[int, int], int]  # (grid axis, extra samples) → how many of these come first


def origins_of(calls: Sequence[Call]) -> Origins:
    """The origins of all padded axes; the first call that makes one counts."""
    origins: Origins = {}
    for call in calls:
        for key, origin in _after(call, origins).items():
            origins.setdefault(key, origin)
    return origins


def _after(call: Call, origins: Origins) -> Origins:
    """The origins in what a call returns, from those of what it is given."""
    shifts = _SHIFTS.get(call.name)
    if shifts is None or not call.result_forms or not call.argument_forms:
        return {}
    before, after = call.argument_forms[0], call.result_forms[0]
    if len(before) != len(after):
        return {}
    result = {}
    for dim, shift in shifts(bound(call.name, call.args, call.kwargs), len(before)).items():
        a, b = before[dim], after[dim]
        if a.on_grid and b.on_grid and len(a.axes) == 1 and a.axes == b.axes and a.extra != b.extra:
            start = origins.get((a.axes[0], a.extra[0]), 0)
            result[a.axes[0], b.extra[0]] = start + shift
    return result


def _by_padding(given: dict[str, Any], ndim: int) -> dict[int, int]:
    pads = tuple(given.get("pad") or ())
    return {ndim - 1 - k: int(pads[2 * k]) for k in range(len(pads) // 2)}


def _by_slice(given: dict[str, Any], ndim: int) -> dict[int, int]:
    items = index_items(given.get("index"), ndim) or []
    return {
        dim: -item.start
        for dim, item in enumerate(items)
        if isinstance(item, slice) and isinstance(item.start, int) and item.start > 0
    }


_SHIFTS = {"pad": _by_padding, "getitem": _by_slice}  # by how many samples a call moves the origin, by dimension
