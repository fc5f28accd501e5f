"""The report of an extended model: every call that mixes samples, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from quadnorm.adapt.calls import Call, CallPlan, Step
from quadnorm.adapt.follow import Observed, run_under
from quadnorm.adapt.operations import extending
from quadnorm.adapt.operations.dilation import note_padding
from quadnorm.adapt.report import AnchorReport, Reason, with_times
from quadnorm.adapt.watch import leaving_no_trace

STENCILS = {Reason.KERNELS, Reason.POOLS, Reason.RESAMPLED, Reason.PATCHES, Reason.SHIFTED}


class CallListing(Observed):
    """A run on the training grid that collects lines about its calls, and how often each line came."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.lines: Counter[tuple[str, str, str, str]] = Counter()  # (module, function, action, why)
        self.stencils: list[bool] = []  # for each call that relates neighbours, whether it can be dilated

    def add(self, call: Call, action: str, why: str) -> None:
        """Count a line about a call."""
        self.lines[call.module, call.name.removeprefix("quadnorm."), action, why] += 1

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        step = Step(call, func, args, kwargs, self.nodes, result=result)
        operation = extending(step)
        if operation is not None and operation.carried and operation.reason in STENCILS and not call.settled:
            self.stencils.append(operation.dilates(step))
        if call.name == "pad":
            note_padding(step, result)
        outcome = action_and_reason(step)
        if outcome is not None:
            self.add(call, *outcome)


def action_and_reason(step: Step) -> tuple[str, str] | None:
    """Action and reason for a call that mixes samples; None for one that does not."""
    call = step.call
    if not call.axes:
        return None
    why = Reason.UNKNOWN if call.operation is None else call.operation.reason
    if call.settled:
        picked = call.operation is not None and call.operation.picks_waves(step)
        return None if picked else ("replayed", f"{why.value}: {Reason.GRID_FREE.value}")
    operation = extending(step)
    if operation is None:
        return None
    if not operation.carried:
        return "replayed", operation.extended.value
    if not call.returns_to_grid:
        return "left", f"{why.value}, {Reason.OWN_GRID.value}"
    return "carried", f"{why.value}: {Reason.INTERPOLATED.value}"


def listing_of(model: nn.Module, plan: CallPlan, args: Any, kwargs: Any) -> CallListing:
    """A run on the training grid, listed."""
    listing = CallListing(plan)
    with leaving_no_trace(model):
        run_under(model, listing, args, kwargs)
    return listing


def report_of(listing: CallListing) -> AnchorReport:
    """One line for each function in each module."""
    report = AnchorReport("")
    for (module, name, action, why), times in listing.lines.items():
        report.add(module, f"call {name}", action, with_times(why, times))
    for module in listing.plan.unseen:
        report.add(module, "value", "replayed", f"{Reason.OUT_OF_SIGHT.value}: the native run's")
    return report
