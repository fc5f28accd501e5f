"""Sums in a model's own calls: which there are, which can be anchored, and the model that does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from quadnorm.adapt.anchoring.drift import failure
from quadnorm.adapt.anchoring.summing.model import AnchoredCalls, row_of
from quadnorm.adapt.anchoring.summing.weights import Counted, Weighted
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.following.aligned import Aligned, run_under
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.functions.products import PRODUCTS
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.inputs.probes import Probe
from quadnorm.adapt.calls.planning.plan import CallPlan
from quadnorm.adapt.calls.watching.live import is_function
from quadnorm.adapt.calls.watching.quiet import only_looking
from quadnorm.adapt.calls.watching.watch import counted
from quadnorm.adapt.extending.listing import UNSEEN, what_becomes
from quadnorm.adapt.extending.products import sums_over_samples
from quadnorm.adapt.report import AnchorReport, Entry

STILL = "on cell-centred and periodic axes counting is already the integral"
INTEGRAL = "a trapezoidal sum from end to end: an integral already, to O(h²)"
LEFT = "; no measure to set: left as it is, quadnorm.extend takes its native result"
NATIVE = ": taken on the training grid"
SAME_TOKENS = "attends to tokens of which there are as many on every grid: no sum over samples"
BY_SIZE = ("Linear", "MultiheadAttention")  # modules of which sizes alone do not tell whether they mix samples
HIDDEN = "an autograd function, or a reentrant checkpoint: sums inside it cannot be seen and stay as trained"


class _Listing(Aligned):
    """The run on the training grid, with a line for each call that mixes samples."""

    def __init__(self, plan: CallPlan, still: bool) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.counted = Counted(plan.native, plan.native, plan.placements, plan.origins)
        self.still = still
        self.lines: dict[tuple[str, str, str, str], int] = {}

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if not counted(func, result):
            return result
        call = self.next_call(name)
        row = row_of(Weighted(call, func, args, kwargs, self.counted))
        if is_function(func) and call.over:
            self._add(call.where, name, "left", HIDDEN)
        elif name in ("trapezoid", "trapz") and all(self.plan.placements[k] == "endpoint" for k in call.lost):
            if call.lost:
                self._add(call.where, name, "unchanged", INTEGRAL)
        elif row is not None:
            self._add(call.where, name, *(("unchanged", STILL) if self.still else (row.action, row.why)))
        else:
            step = Step(call, func, args, kwargs, self.nodes, result=result)
            pairs = name in PRODUCTS and not sums_over_samples(step)  # scores: no sum over samples is taken yet
            outcome = None if pairs else what_becomes(step)
            if outcome is not None:
                why = outcome[1].split(":")[0]
                self._add(call.where, name, "left", why + LEFT)
        return result

    def _add(self, *line: str) -> None:
        where, name, action, why = line
        key = (where, name.removeprefix("quadnorm."), action, why)
        self.lines[key] = self.lines.get(key, 0) + 1


def _settled_by_rule(entry: Entry) -> bool:
    """Whether a rule has the last word on a module: not on padding, whose call can be anchored, nor on a subclass with
    a forward of its own, which no rule has looked into."""
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


def _acts_on_single_samples(entry: Entry, plan: CallPlan) -> bool:
    """Whether runs on other grids show that a module which was left because of its sizes mixes no samples after all: a
    Linear as wide as the grid, or attention to latent tokens, of which there are as many on every grid."""
    calls = [c for c in plan.calls if c.where == entry.name]
    if entry.kind == "Linear":
        return any(c.name == "linear" and any(moving(f) for f in c.returned) for c in calls)
    attention = [c for c in calls if c.name == "multi_head_attention_forward"]
    keys = [c.given[1] for c in attention if len(c.given) > 1]
    return entry.kind in BY_SIZE and bool(keys) and not any(moving(k[:1]) for k in keys)


def _with_calls(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """The model, wrapped if calls of its own can be anchored; adds a line to the report for each call that mixes."""
    opaque = frozenset(e.name for e in report if _settled_by_rule(e))
    if "" in opaque:
        return model
    wrapped = AnchoredCalls(model, probe.resolution, probe.placements, probe.layout, opaque)
    plan = wrapped.plan(*probe.arguments, probe.resolution)
    single = {e.name for e in report if e.action == "left" and _acts_on_single_samples(e, plan)}
    report.entries = [
        replace(e, action="unchanged", why=SAME_TOKENS) if e.kind == "MultiheadAttention" and e.name in single else e
        for e in report
        if e.kind != "Linear" or e.name not in single
    ]
    still = all(p in ("cell", "periodic") for p in probe.placements) and not plan.jumps and not plan.origins
    listing = _Listing(plan, still)
    with only_looking(model):
        run_under(model, listing, *probe.arguments, opaque)
    by_rule = {e.name for e in report}
    sums = any(action == "anchored" and name not in ("pad", "getitem") for _, name, action, _ in listing.lines)
    for (where, name, action, why), times in listing.lines.items():
        if not sums and action == "anchored":
            action, why = "left", "padding by samples, which no sum that can be anchored sees"
        if action != "anchored" and where in by_rule:
            continue  # the module's own line says it better
        if action == "anchored":  # what a rule said of the module holds no more; other calls' lines do
            report.entries = [e for e in report if e.name != where or e.action != "left" or e.kind.startswith("call ")]
        report.add(where, f"call {name}", action, why + (f" ({times} times)" if times > 1 else ""))
    for where in plan.unseen:
        report.add(where, "value", *(("unchanged", UNSEEN + NATIVE) if sums else ("left", UNSEEN)))
    return wrapped if sums else model


def _carried_field(entry: Entry) -> Entry:
    """The line of a field that meets samples of other grids at their nodes."""
    if entry.kind != "field":
        return entry
    return replace(entry, action="unchanged", why=f"{entry.why.split(':')[0]}: interpolated to other grids by splines")


def by_calls(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """Anchor the model's own calls too, where they can be followed."""
    before = list(report.entries)
    try:
        report.entries = [e for e in before if not e.kind.startswith("call ")]
        wrapped = _with_calls(model, probe, report)
    except CannotFollowError as error:
        report.entries = before
        report.notes.append(f"calls outside of modules could not be followed: {error}")
        return model
    failed = None if wrapped is model else failure(wrapped, probe)
    if failed is None:
        if wrapped is not model and failure(model, probe) is not None:  # only its fields were in the way
            report.entries = [_carried_field(e) for e in report.entries]
        return wrapped
    why = "the model does not run with this sum anchored: left as it is"
    report.entries = [
        replace(e, action="left", why=why) if e.kind.startswith("call ") and e.action == "anchored" else e
        for e in report.entries
    ]
    report.notes.append(f"sums in calls were left: with them anchored the model fails on another grid ({failed})")
    return model
