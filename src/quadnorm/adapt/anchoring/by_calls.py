"""Sums in a model's own calls: which there are, which can be anchored, and the model that does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from quadnorm.adapt.anchoring.drift import failure_on_finer_grid
from quadnorm.adapt.anchoring.rules.registry import INTEGRAL
from quadnorm.adapt.anchoring.summing.model import AnchoredCalls
from quadnorm.adapt.anchoring.summing.table import sum_row
from quadnorm.adapt.anchoring.summing.weights import CountedNodes, WeightedStep
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.following.aligned import run_under
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.inputs.probes import Probe
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.watching.patches import is_function
from quadnorm.adapt.calls.watching.quiet import leaving_no_trace
from quadnorm.adapt.extending.families.products import only_pairs_samples
from quadnorm.adapt.extending.report import OUT_OF_SIGHT, CallListing, action_and_reason, with_times
from quadnorm.adapt.report import AnchorReport, Entry

TRAPEZOID = "a trapezoidal sum from end to end: an integral already, to O(h²)"
LEFT = "; no measure to set: left as it is, quadnorm.extend takes its native result"
NATIVE = ": taken on the training grid"
SAME_TOKENS = "attends to tokens of which there are as many on every grid: no sum over samples"
BY_SIZE = ("Linear", "MultiheadAttention")  # modules of which sizes alone do not tell whether they mix samples
HIDDEN = "an autograd function, or a reentrant checkpoint: sums inside it cannot be seen and stay as trained"
UNUSED_PADDING = "padding by samples, which no sum that can be anchored sees"


def anchor_calls(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """The model with its own calls anchored too, where they can be followed; the report gets a line for each."""
    if any(e.kind == "field" for e in report) and failure_on_finer_grid(model, probe) is None:
        report.entries = _fields_of_a_model_that_runs(model, report)
    before = list(report.entries)
    try:
        report.entries = [e for e in before if not e.kind.startswith("call ")]
        wrapped = _wrapped(model, probe, report)
    except CannotFollowError as error:
        report.entries = before
        report.notes.append(f"calls outside of modules could not be followed: {error}")
        return model
    failure = None if wrapped is model else failure_on_finer_grid(wrapped, probe)
    if failure is None:
        if wrapped is not model and failure_on_finer_grid(model, probe) is not None:  # only its fields were in the way
            report.entries = [_interpolated_field(e) for e in report.entries]
        return wrapped
    why = "the model does not run with this sum anchored: left as it is"
    report.entries = [
        replace(e, action="left", why=why) if e.kind.startswith("call ") and e.action == "anchored" else e
        for e in report.entries
    ]
    report.notes.append(f"sums in calls were left: with them anchored the model fails on another grid ({failure})")
    return model


def _wrapped(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """The model, wrapped if calls of its own can be anchored; adds a line to the report for each call that mixes."""
    opaque = frozenset(e.name for e in report if _settled_by_rule(e))
    if "" in opaque:
        return model
    wrapped = AnchoredCalls(model, probe.resolution, probe.placements, probe.layout, opaque)
    plan = wrapped.plan(*probe.arguments, probe.resolution)
    _correct_lines_by_size(report, plan)
    still = all(p in ("cell", "periodic") for p in probe.placements) and not plan.jumps and not plan.origins
    listing = _Listing(plan, still)
    with leaving_no_trace(model):
        run_under(model, listing, *probe.arguments, opaque)
    sums = any(action == "anchored" and name not in ("pad", "getitem") for _, name, action, _ in listing.lines)
    _add_lines(report, listing, sums)
    for module in plan.unseen:
        report.add(module, "value", *(("unchanged", OUT_OF_SIGHT + NATIVE) if sums else ("left", OUT_OF_SIGHT)))
    return wrapped if sums else model


class _Listing(CallListing):
    """The run on the training grid; ``still``: counting is the integral on its axes, so that sums stay as they are."""

    def __init__(self, plan: CallPlan, still: bool) -> None:
        super().__init__(plan)
        self.counted_nodes = CountedNodes(plan.native, plan.native, plan.placements, plan.origins)
        self.still = still

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        row = sum_row(WeightedStep(call, func, args, kwargs, self.counted_nodes))
        if is_function(func) and call.axes:
            self.add(call, "left", HIDDEN)
        elif call.name in ("trapezoid", "trapz") and self._from_end_to_end(call):
            if call.lost_axes:
                self.add(call, "unchanged", TRAPEZOID)
        elif row is not None:
            self.add(call, *(("unchanged", INTEGRAL) if self.still else ("anchored", row.why)))
        else:
            step = Step(call, func, args, kwargs, self.nodes, result=result)
            outcome = None if only_pairs_samples(step) else action_and_reason(step)
            if outcome is not None:
                self.add(call, "left", outcome[1].split(":")[0] + LEFT)

    def _from_end_to_end(self, call: Call) -> bool:
        return all(self.plan.placements[k] == "endpoint" for k in call.lost_axes)


def _settled_by_rule(entry: Entry) -> bool:
    """Whether a rule has the last word on a module.

    Not on padding, whose call can be anchored, nor on a subclass with a forward of its own, which no rule has looked
    into.
    """
    if entry.kind == "field" or entry.kind.startswith("call "):
        return False
    if entry.action in ("anchored", "unchanged"):
        return True
    return (
        bool(entry.name)
        and entry.kind not in BY_SIZE
        and "Pad" not in entry.kind
        and "forward of its own" not in entry.why
    )


def _correct_lines_by_size(report: AnchorReport, plan: CallPlan) -> None:
    """Correct the lines of modules that were left because of their sizes, and that mix no samples after all."""
    single = {e.name for e in report if e.action == "left" and _acts_on_single_samples(e, plan)}
    report.entries = [
        replace(e, action="unchanged", why=SAME_TOKENS) if e.kind == "MultiheadAttention" and e.name in single else e
        for e in report
        if e.kind != "Linear" or e.name not in single
    ]


def _acts_on_single_samples(entry: Entry, plan: CallPlan) -> bool:
    """Whether runs on other grids show that a module mixes no samples, whatever its sizes look like.

    Such as a Linear as wide as the grid, or attention to latent tokens, of which there are as many on every grid.
    """
    calls = [c for c in plan.calls if c.module == entry.name]
    if entry.kind == "Linear":
        return any(c.name == "linear" and any(moving(f) for f in c.result_forms) for c in calls)
    attention = [c for c in calls if c.name == "multi_head_attention_forward"]
    keys = [c.argument_forms[1] for c in attention if len(c.argument_forms) > 1]
    return entry.kind in BY_SIZE and bool(keys) and not any(moving(k[:1]) for k in keys)


def _add_lines(report: AnchorReport, listing: CallListing, sums: bool) -> None:
    """Add the lines of a listing to a report; ``sums``: whether any sum among them is anchored, not padding alone."""
    by_rule = {e.name for e in report}
    for (module, name, action, why), times in listing.lines.items():
        if not sums and action == "anchored":
            action, why = "left", UNUSED_PADDING
        if action != "anchored" and module in by_rule:
            continue  # the module's own line says it better
        if action == "anchored":  # what a rule said of the module holds no more; other calls' lines do
            report.entries = [e for e in report if e.name != module or e.action != "left" or e.kind.startswith("call ")]
        report.add(module, f"call {name}", action, with_times(why, times))


def _fields_of_a_model_that_runs(model: nn.Module, report: AnchorReport) -> list[Entry]:
    """The lines for a model that runs on another grid, which tensors with one value per training sample would prevent.

    A vector has its length by chance, such as a bias of 256 channels on 16×16; other tensors the model resamples.
    """
    entries = []
    for e in report:
        if e.kind == "field":
            owner, _, name = e.name.rpartition(".")
            if getattr(model.get_submodule(owner), name).ndim == 1:
                continue
            e = replace(e, action="unchanged", why=f"{e.why.split(':')[0]}: the model takes them to other grids itself")
        entries.append(e)
    return entries


def _interpolated_field(entry: Entry) -> Entry:
    """The line of a field that meets samples of other grids at their nodes; other lines as they are."""
    if entry.kind != "field":
        return entry
    return replace(entry, action="unchanged", why=f"{entry.why.split(':')[0]}: interpolated to other grids by splines")
