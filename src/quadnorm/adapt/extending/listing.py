"""The report of an extended model: every call that mixes samples, and what becomes of it."""

from __future__ import annotations

from typing import Any

from torch import nn

from quadnorm.adapt.calls.following.aligned import run_under
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.planning.mixing import KINDS
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.watching.quiet import only_looking
from quadnorm.adapt.extending.carried import picks_waves
from quadnorm.adapt.extending.modes import Record, row_of
from quadnorm.adapt.report import AnchorReport

UNSEEN = "computed from the input outside of PyTorch's calls, as by NumPy"


class Listing(Record):
    """The run on the training grid, with a line for each call that mixes samples."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan)
        self.lines: dict[tuple[str, str, str, str], int] = {}

    def recorded(self, step: Step) -> None:
        outcome = what_becomes(step)
        if outcome is not None:
            line = (step.call.where, step.call.name.removeprefix("quadnorm."), *outcome)
            self.lines[line] = self.lines.get(line, 0) + 1


def what_becomes(step: Step) -> tuple[str, str] | None:
    """Action and reason for a call that mixes samples; None for one that does not."""
    call = step.call
    if not call.over:
        return None
    if call.settled:
        return None if picks_waves(step) else ("replayed", f"{_reason(call)}: its native result holds everywhere")
    row = row_of(step)
    if row is not None:
        if row.action == "carried" and not all(f.on_grid for fs in call.returned for f in fs if f.moves):
            return "left", f"{_reason(call)}, to a grid of its own, whose values only later calls see"
        return row.action, row.why
    return None


def _reason(call: Call) -> str:
    return KINDS[call.name].why if call.name in KINDS else "returns nothing that lies on the grid"


def listed(model: nn.Module, plan: CallPlan, args: Any, kwargs: Any) -> AnchorReport:
    """One line for each function in each module."""
    listing = Listing(plan)
    with only_looking(model):
        run_under(model, listing, args, kwargs)
    report = AnchorReport("")
    for (where, name, action, why), times in listing.lines.items():
        report.add(where, f"call {name}", action, why + (f" ({times} times)" if times > 1 else ""))
    for where in plan.unseen:
        report.add(where, "value", "replayed", f"{UNSEEN}: the native run's")
    return report
