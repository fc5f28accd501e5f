"""Padding by samples, kept at its length in space."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn import functional as F

from quadnorm.adapt.operations.base import Operation, register
from quadnorm.adapt.report import Reason
from quadnorm.adapt.watching.calls import Call, Step, WeightedStep
from quadnorm.adapt.watching.forms import Form


def dimensions(step: Step) -> Iterator[tuple[Form, Form]]:
    """For each dimension its form before the call and after it."""
    return zip(step.call.argument_forms[0], step.call.result_forms[0], strict=True)


class Padding(Operation):
    """``F.pad``: extension lets the model pad, and notes by how much."""

    parameters: tuple[str, ...] = ("input", "pad", "mode", "value")
    reason = Reason.PADDED
    anchored = Reason.PADDING
    carried = True

    def mixes(self, step: Step) -> bool:
        return False

    def sums(self, step: WeightedStep) -> bool:
        """Whether a sum sees the padded samples; those that only a kernel sees are as many on every grid."""
        return self.pads_grid(step) and any(
            pad in step.nodes.summed for before, after in dimensions(step) if before != after for pad in after.padding()
        )

    def pads_grid(self, step: Step) -> bool:
        """Whether samples are added around the grid; those that complete a stencil's inner samples are not padding."""
        padded = [before for before, after in dimensions(step) if before.on_grid and before != after]
        return bool(padded) and all(extra >= 0 for form in padded for extra in form.extra)

    def anchor(self, step: WeightedStep) -> Tensor:
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

    def origin_shifts(self, call: Call, ndim: int) -> dict[int, int]:
        pads = tuple(self.arguments(call.args, call.kwargs).get("pad") or ())
        return {ndim - 1 - k: int(pads[2 * k]) for k in range(len(pads) // 2)}


register("pad", Padding())
