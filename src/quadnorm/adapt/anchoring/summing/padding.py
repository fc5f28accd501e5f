"""Padding by samples, kept at its length in space, and the slices that cut it off again."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from quadnorm.adapt.anchoring.summing.weights import Weighted, nothing, register
from quadnorm.adapt.calls.following.steps import Step, StepRow


def _pads_grid(step: Step) -> bool:
    """Whether samples are added around the grid; those that complete a stencil's inner samples are not padding."""
    pairs = [(a, b) for a, b in zip(step.call.given[0], step.call.returned[0], strict=True) if a.on_grid and a != b]
    return bool(pairs) and all(e >= 0 for a, _ in pairs for e in a.extra)


def _pad(step: Step) -> Tensor:
    assert isinstance(step, Weighted)
    g, nodes = step.given, step.nodes
    x, pads = g["input"], list(g["pad"])
    for at in range(len(pads) // 2):
        before, after = step.call.given[0][-1 - at], step.call.returned[0][-1 - at]
        if not (before.on_grid and after.on_grid and len(before.axes) == before.fold == 1):
            continue
        k, (e0,), (e1,) = before.axes[0], before.extra, after.extra
        first = nodes.origin(k, e1) - nodes.origin(k, e0)
        last = nodes.extra(k, e1) - nodes.extra(k, e0) - first
        pads[2 * at : 2 * at + 2] = [first, last]
    return F.pad(x, pads, g.get("mode", "constant"), g.get("value"))


register("pad", StepRow("anchored", "padding by samples → by the same length in space", _pads_grid, nothing, _pad))


def _cuts_padding(step: Step) -> bool:
    """Whether a slice leaves out padded samples; one that leaves out samples of the grid is a shift or a stencil."""
    if not step.call.returned or len(step.call.given[0]) != len(step.call.returned[0]):
        return False
    pairs = list(zip(step.call.given[0], step.call.returned[0], strict=True))
    cut = [(a, b) for a, b in pairs if a.on_grid and b.on_grid and a.axes == b.axes and a.extra != b.extra]
    return bool(cut) and all(x > y >= 0 or x == y for a, b in cut for x, y in zip(a.extra, b.extra, strict=True))


def _cut(step: Step) -> Any:
    assert isinstance(step, Weighted)
    x, index = step.args[0], step.args[1]
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(i, Tensor) or i is None for i in items):
        return step.run()
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.ndim - len(items) + 1)
    items += [slice(None)] * (x.ndim - len(items))
    for dim, (a, b) in enumerate(zip(step.call.given[0], step.call.returned[0], strict=True)):
        if a.on_grid and b.on_grid and len(a.axes) == 1 and a.axes == b.axes and a.extra != b.extra:
            k, nodes = a.axes[0], step.nodes
            start = nodes.origin(k, a.extra[0]) - nodes.origin(k, b.extra[0])
            items[dim] = slice(start, start + nodes.shape[k] + nodes.extra(k, b.extra[0]))
    return step.func(x, tuple(items))


register("getitem", StepRow("anchored", "cuts the padding off where it ends in space", _cuts_padding, nothing, _cut))
