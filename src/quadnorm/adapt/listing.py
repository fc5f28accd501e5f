"""The report of an extended model: every call that mixes samples, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from quadnorm.adapt.calls import Call, CallPlan, Step
from quadnorm.adapt.follow import Observed, run_under
from quadnorm.adapt.operations.base import KINDS, step_row
from quadnorm.adapt.operations.stencils import picks_waves
from quadnorm.adapt.report import AnchorReport
from quadnorm.adapt.watch import leaving_no_trace

OUT_OF_SIGHT = "computed from the input outside of PyTorch's calls, as by NumPy"


class CallListing(Observed):
    """A run on the training grid that collects lines about its calls, and how often each line came."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.lines: Counter[tuple[str, str, str, str]] = Counter()  # (module, function, action, why)

    def add(self, call: Call, action: str, why: str) -> None:
        """Count a line about a call."""
        self.lines[call.module, call.name.removeprefix("quadnorm."), action, why] += 1

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        outcome = action_and_reason(Step(call, func, args, kwargs, self.nodes, result=result))
        if outcome is not None:
            self.add(call, *outcome)


def with_times(why: str, times: int) -> str:
    """A reason, with how often it holds if that is more than once."""
    return f"{why} ({times} times)" if times > 1 else why


def action_and_reason(step: Step) -> tuple[str, str] | None:
    """Action and reason for a call that mixes samples; None for one that does not."""
    call = step.call
    if not call.axes:
        return None
    if call.settled:
        return None if picks_waves(step) else ("replayed", f"{_reason(call)}: its native result holds everywhere")
    row = step_row(step)
    if row is None:
        return None
    if row.action == "carried" and not call.returns_to_grid:
        return "left", f"{_reason(call)}, to a grid of its own, whose values only later calls see"
    return row.action, row.why


def _reason(call: Call) -> str:
    return KINDS[call.name].why if call.name in KINDS else "returns nothing that lies on the grid"


def report_of(model: nn.Module, plan: CallPlan, args: Any, kwargs: Any) -> AnchorReport:
    """One line for each function in each module."""
    listing = CallListing(plan)
    with leaving_no_trace(model):
        run_under(model, listing, args, kwargs)
    report = AnchorReport("")
    for (module, name, action, why), times in listing.lines.items():
        report.add(module, f"call {name}", action, with_times(why, times))
    for module in plan.unseen:
        report.add(module, "value", "replayed", f"{OUT_OF_SIGHT}: the native run's")
    return report
