"""Padding by samples, kept at its length in space, and the slices that cut it off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from quadnorm.adapt.calls import WeightedStep
from quadnorm.adapt.forms import Form
from quadnorm.adapt.functions import index_items
from quadnorm.adapt.operations.base import SumRow, register_sum


def _dimensions(step: WeightedStep) -> Iterator[tuple[Form, Form]]:
    """For each dimension its form before the call and after it."""
    return zip(step.call.argument_forms[0], step.call.result_forms[0], strict=True)


def _pads_grid(step: WeightedStep) -> bool:
    """Whether samples are added around the grid; those that complete a stencil's inner samples are not padding."""
    padded = [before for before, after in _dimensions(step) if before.on_grid and before != after]
    return bool(padded) and all(extra >= 0 for form in padded for extra in form.extra)


def _pad(step: WeightedStep) -> Tensor:
    given, nodes = step.arguments, step.nodes
    x, pads = given["input"], list(given["pad"])
    for at in range(len(pads) // 2):  # in the order of F.pad: from the last dimension
        before, after = step.call.argument_forms[0][-1 - at], step.call.result_forms[0][-1 - at]
        if not (before.on_grid and after.on_grid and len(before.axes) == before.fold == 1):
            continue
        k, (e0,), (e1,) = before.axes[0], before.extra, after.extra
        first = nodes.origin(k, e1) - nodes.origin(k, e0)
        last = nodes.extra(k, e1) - nodes.extra(k, e0) - first
        pads[2 * at : 2 * at + 2] = [first, last]
    return F.pad(x, pads, given.get("mode", "constant"), given.get("value"))


register_sum(["pad"], SumRow("padding by samples → by the same length in space", _pads_grid, _pad))


def _shortened(before: Form, after: Form) -> bool:
    return before.on_grid and after.on_grid and before.axes == after.axes and before.extra != after.extra


def _cuts_padding(step: WeightedStep) -> bool:
    """Whether a slice leaves out padded samples; one that leaves out samples of the grid is a shift or a stencil."""
    if not step.call.result_forms or len(step.call.argument_forms[0]) != len(step.call.result_forms[0]):
        return False
    extras = [
        pair
        for before, after in _dimensions(step)
        if _shortened(before, after)
        for pair in zip(before.extra, after.extra, strict=True)
    ]
    return bool(extras) and all(e0 > e1 >= 0 or e0 == e1 for e0, e1 in extras)


def _cut(step: WeightedStep) -> Any:
    x, nodes = step.args[0], step.nodes
    items = index_items(step.args[1], x.ndim)
    if items is None:
        return step.run()
    for dim, (before, after) in enumerate(_dimensions(step)):
        if _shortened(before, after) and len(before.axes) == 1:
            k = before.axes[0]
            start = nodes.origin(k, before.extra[0]) - nodes.origin(k, after.extra[0])
            items[dim] = slice(start, start + nodes.shape[k] + nodes.extra(k, after.extra[0]))
    return step.func(x, tuple(items))


register_sum(["getitem"], SumRow("cuts the padding off where it ends in space", _cuts_padding, _cut))
