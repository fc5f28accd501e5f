"""A trained model, made consistent across resolutions without retraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.anchored import AnchoredCalls
from quadnorm.adapt.anchoring.by_modules import anchor_modules
from quadnorm.adapt.anchoring.trace import Example, call
from quadnorm.adapt.calls import Call, CallPlan, Step, WeightedStep
from quadnorm.adapt.clouds.anchored import anchor_points
from quadnorm.adapt.clouds.base import refuse_placement
from quadnorm.adapt.drift import Drifts, failure_on_finer_grid, measure_drifts
from quadnorm.adapt.follow import run_under
from quadnorm.adapt.forms import moving
from quadnorm.adapt.listing import CallListing, action_and_reason
from quadnorm.adapt.models import check_module, model_grid, own_placement, trial_copy
from quadnorm.adapt.nodes import CountedNodes
from quadnorm.adapt.operations import anchoring
from quadnorm.adapt.patches import is_function
from quadnorm.adapt.placement import example_and_placement, open_question
from quadnorm.adapt.probes import Probe, make_probe
from quadnorm.adapt.report import AnchorReport, Entry, Reason, grid_text, with_times
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watch import CannotFollowError, leaving_no_trace
from quadnorm.measures.base import Shape

SAME_TOKENS = "attends to tokens of which there are as many on every grid: no sum over samples"
BY_SIZE = ("Linear", "MultiheadAttention")  # modules of which sizes alone do not tell whether they mix samples


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
        seen = f": {Reason.NATIVE_VALUE.value}" if sums else ""
        report.add(module, "value", "unchanged" if sums else "left", Reason.OUT_OF_SIGHT.value + seen)
    return wrapped if sums else model


class _Listing(CallListing):
    """The run on the training grid; ``still``: counting is the integral on its axes, so that sums stay as they are."""

    def __init__(self, plan: CallPlan, still: bool) -> None:
        super().__init__(plan)
        self.counted_nodes = CountedNodes(plan.native, plan.native, plan.placements, plan.origins)
        self.still = still

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        operation = anchoring(WeightedStep(call, func, args, kwargs, self.counted_nodes))
        if is_function(func) and call.axes:
            self.add(call, "left", Reason.OPAQUE.value)
        elif call.name in ("trapezoid", "trapz") and self._from_end_to_end(call):
            if call.lost_axes:
                self.add(call, "unchanged", Reason.TRAPEZOID.value)
        elif operation is not None:
            why = Reason.INTEGRAL if self.still else operation.anchored
            self.add(call, "unchanged" if self.still else "anchored", why.value)
        else:
            step = Step(call, func, args, kwargs, self.nodes, result=result)
            if action_and_reason(step) is not None and not (call.operation and call.operation.only_pairs(step)):
                why = Reason.UNKNOWN if call.operation is None else call.operation.reason
                self.add(call, "left", f"{why.short}; {Reason.NO_MEASURE.value}")

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
            action, why = "left", Reason.UNUSED_PADDING.value
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


TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # of the largest output; half precision has 2e-2


def anchor(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    *,
    example: Any = None,
    layout: str | None = None,
    share: bool = False,
    force: bool = False,
) -> nn.Module:
    r"""A copy of a trained model whose every spatial sum runs under the measure of its training grid.

    A model that counts samples has learned with the counting measure of its training grid. Per endpoint-inclusive
    axis that is

    .. math:: (1 - 1/n_0)\,\text{trapezoid} + (1/n_0)\,(\delta_{first} + \delta_{last})/2

    and on another grid counting is another measure, at distance O(h). The copy keeps the measure: at ``resolution``
    its outputs are the model's, elsewhere they differ from them by O(h²). Nothing is trained.

    Modules that are known are anchored by rules: PyTorch's norms over space, global average pools and attention;
    everything that owns a ``measure``, such as this package's norms, spectral convolutions, attention and operators;
    neuraloperator's norms and spectral convolutions; and what :func:`register_anchor` teaches. Everything else is
    anchored by its calls, seen as they happen: ``torch.fft``, reductions, norms, products and attention over samples,
    whatever form they are written in; padding by samples keeps its length in space. The copy is then an
    :class:`quadnorm.adapt.AnchoredCalls`, which runs the model under a mode and does not compile.
    ``copy.anchor_report`` says what was anchored, what was not, and why, and how far the output drifts on a finer grid
    as it is, anchored, extended (:func:`quadnorm.extend`) and at the training grid: ``print`` it.

    Args:
        model: any module; it is not touched. The copy keeps hooks, mode, dtype, device, and modules that are shared
            stay shared.
        resolution: samples per axis of the training grid, a number for all axes or one each.
        placement: where the samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``, ``left``.
            Default: what the model says of itself (``model.placement``), else ``endpoint``. On cell-centred and
            periodic axes counting already is the integral, and nothing changes.
        example: an input at the training resolution: a tensor, a tuple of arguments or a dict of keyword arguments.
            It is run once to see the grid in each module (in U-shaped models they differ), to find sums outside of
            modules, and to compare the copy with the model. Or a function of the resolution that gives such inputs,
            or pairs of input and target: then the data itself says where its samples lie, and a contradiction with
            ``placement`` is an error. By default random numbers are tried; where they do not
            work, an example is needed.
        layout: where the channels of fields are, as for :func:`quadnorm.extend`; default what fits the example. With
            ``points``, ``resolution`` is the number of points in a cloud of training, and the copy an
            :class:`quadnorm.adapt.AnchoredPoints`, which is called with each point's control volume.
        share: share the parameters with the model instead of copying them.
        force: return the copy also where anchoring makes the drift on a smooth input larger, which is an error
            otherwise.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv2d(4, 1, 1))
    >>> fixed = anchor(model, 17)
    >>> x = torch.randn(2, 1, 17, 17)
    >>> torch.equal(fixed(x), model(x))
    True
    >>> print(fixed.anchor_report)  # doctest: +ELLIPSIS
    anchored at 17×17, endpoint samples: 1 sum anchored, 0 left
    module  kind       action    why
    ------  ---------  --------  -------------------
    1       GroupNorm  anchored  counting → anchored
    note: compared with the model on random input at 17×17: equal to 0.0e+00 of the largest output
    note: drift from 17×17 to 33×33 on a smooth input: as it is ..., anchor ..., extend ..., at_native 0.0e+00; take ...
    """
    if layout == "points":
        refuse_placement(placement)
        return anchor_points(model, resolution, example, share)
    check_module(model, "anchor")
    sizes, names = model_grid(model, resolution, placement)
    example, placed, check = example_and_placement(example, sizes, placement, own_placement(model, len(sizes)))
    names = placed or names
    anchored_copy, report, look = anchor_modules(model, sizes, names, example, share)
    without_values = any(p.is_meta for p in model.parameters())
    probe = None
    if look.example is not None and not without_values:
        probe = _probe(model, sizes, names, look.example, layout)
    if probe is not None:
        anchored_copy = anchor_calls(anchored_copy, probe, report)
    _require_sums(report)
    if look.example is None:
        raise ValueError(look.source)
    report.title = _title(report, sizes, names)
    report.notes.append(_compare(model, anchored_copy, look.example, look.source))
    if probe is not None:
        _note_drifts(report, measure_drifts(model, anchored_copy, probe), force)
    if check is not None:
        question = open_question(names)
        report.notes.append(f"placement, from the data: {check}" + (f"; {question}" if question else ""))
    anchored_copy.anchor_report = report  # type: ignore[assignment]
    return anchored_copy


def _probe(model: nn.Module, sizes: Shape, names: tuple[str, ...], example: Any, layout: str | None) -> Probe | None:
    """The example as fields of a known layout; None for other shapes, on which only rules for modules work."""
    try:
        return make_probe(model, sizes, names, example, layout, lambda arguments: None)
    except ValueError:
        if layout is not None:
            raise
        return None


def _require_sums(report: AnchorReport) -> None:
    """Refuse a model without any sum that is anchored, or need not be."""
    if not report.changed and not report.unchanged:
        others = "\n".join(f"  {e.name or '(model)'} ({e.kind}): {e.why}" for e in report.left)
        raise ValueError(
            "found no spatial sum that could be anchored in the model"
            + (f"; these were left as they are:\n{others}" if others else "")
            + "".join(f"\n{note}" for note in report.notes)
            + "\nteach your own modules with register_anchor; quadnorm.extend or quadnorm.at_native may serve"
        )


def _title(report: AnchorReport, sizes: Shape, names: tuple[str, ...]) -> str:
    n, m = len(report.changed), len(report.left)
    return f"anchored at {grid_text(sizes, names)}: {n} sum{'s' * (n != 1)} anchored, {m} left"


def _note_drifts(report: AnchorReport, drifts: Drifts, force: bool) -> None:
    """Add the drift of each way to the report; an error where anchoring makes it larger, unless ``force``."""
    report.notes.append(str(drifts))
    if drifts.worse and not force:
        raise ValueError(
            f"anchoring makes this model worse: {drifts}. quadnorm.{drifts.take.split(',')[0]} does not; "
            f"force=True (--force) anchors all the same\n{report}"
        )


def _compare(model: nn.Module, anchored_copy: nn.Module, example: Example, source: str) -> str:
    """A note on how far the copy's output is from the model's at the training resolution; an error if it is far."""
    a, b = (tensors(call(trial_copy(m), example)) for m in (model, anchored_copy))
    if any(t.is_meta for t in a):
        return (
            "not compared with the model, and its calls outside of modules not looked at: a model on the meta device "
            "has no values; anchor again once it has"
        )
    gaps = []
    for s, t in zip(a, b, strict=True):
        if not (s.is_floating_point() or s.is_complex()) or s.numel() == 0:
            continue
        if not torch.isfinite(s).all():
            return f"not compared with the model: its own output on {source} is not finite; pass example="
        gap = ((s - t).abs().max() / s.abs().max().clamp_min(torch.finfo(s.dtype).tiny)).item()
        if not gap <= TOLERANCE.get(s.abs().dtype, 2e-2):
            raise RuntimeError(
                f"the anchored copy differs from the model by {gap:.1e} of the largest output at the training "
                f"resolution, on {source}; "
                f"a registered rule may be wrong, or a module sees another grid than expected: pass example="
            )
        gaps.append(gap)
    if not gaps:
        return f"not compared with the model: on {source} it returned no tensor of real or complex numbers"
    return f"compared with the model on {source}: equal to {max(gaps):.1e} of the largest output"
