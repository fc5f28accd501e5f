"""A trained model, made consistent across resolutions without retraining."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.adapted import trial
from quadnorm.adapt.anchored import AnchoredCalls
from quadnorm.adapt.clouds.anchored import anchor_points
from quadnorm.adapt.clouds.base import refuse_placement
from quadnorm.adapt.drift import Drifts, failure_on_finer_grids, measure_drifts
from quadnorm.adapt.models import (
    check_module,
    deep_copy,
    paths_of_modules,
    shared_text,
    trial_copy,
)
from quadnorm.adapt.modules import anchor_modules, is_module_of_its_own
from quadnorm.adapt.placement import open_question, placed_grid
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.listing import AnchorListing, kind_of
from quadnorm.adapt.planning.steer import PADDING
from quadnorm.adapt.report import AnchorReport, Reason, grid_text, with_times
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.probes import Probe, make_probe
from quadnorm.adapt.watching.watch import CannotFollowError, leaving_no_trace, trial_output
from quadnorm.measures.base import Shape

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # of the largest output; half precision has 2e-2


@trial()
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

    A model is anchored by its calls, seen as they happen: ``torch.fft``, reductions, norms, pools, products and
    attention over samples, whatever module or form they are written in; padding that a sum sees keeps its length in
    space. The copy is then an :class:`quadnorm.adapt.AnchoredCalls`. Only modules that own a ``measure``, such as this
    package's norms, spectral convolutions and operators, and what :func:`register_anchor` teaches, are anchored as
    modules. ``copy.anchor_report`` says what was anchored, what was not, and why, and how far the output drifts on a
    finer grid as trained, anchored, extended (:func:`quadnorm.extend`) and run at the training grid: ``print`` it.

    Args:
        model: any module; it is not touched. The copy keeps hooks, mode, dtype, device, and modules that are shared
            stay shared.
        resolution: samples per axis of the training grid, a number for all axes or one each.
        placement: where the samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``, ``left``,
            ``interior``. Never assumed: it is needed unless the model says it (``model.placement``) or ``example``
            shows it. On cell-centred and periodic axes counting already is the integral, and nothing changes.
        example: an input at the training resolution: a tensor, a tuple of arguments or a dict of keyword arguments.
            It is run on the training grid and around it to see the model's calls, and to compare the copy with the
            model. Or a function of the resolution that gives such inputs,
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
    >>> fixed = anchor(model, 17, "endpoint")
    >>> x = torch.randn(2, 1, 17, 17)
    >>> torch.equal(fixed(x), model(x))
    True
    >>> print(fixed.anchor_report)  # doctest: +ELLIPSIS
    anchored at 17×17, endpoint samples: 1 sum anchored, 0 left
    module  kind       action    why
    ------  ---------  --------  -------------------
    1       GroupNorm  anchored  counting → anchored
    note: compared with the model on random input at 17×17: equal to 0.0e+00 of the largest output
    note: drift from 17×17 to 33×33 on a smooth input: as trained ..., anchored ..., extended ..., run at ...
    """
    if layout == "points":
        refuse_placement(placement)
        return anchor_points(model, resolution, example, share)
    check_module(model, "anchor")
    sizes, names, example, check = placed_grid(model, resolution, placement, example)
    copied, report = deep_copy(model, share), AnchorReport("")
    probe = make_probe(copied, sizes, names, example, layout, partial(trial_output, copied))
    anchored_copy = anchored_model(copied, probe, report)
    _require_sums(report)
    report.title = _title(report, sizes, names)
    report.notes.append(_compare(model, anchored_copy, probe))
    if not any(p.is_meta for p in model.parameters()):
        _note_drifts(report, measure_drifts(model, anchored_copy, probe), force)
    if check is not None:
        question = open_question(names)
        report.notes.append(f"placement, from the data: {check}" + (f"; {question}" if question else ""))
    if isinstance(anchored_copy, AnchoredCalls):
        anchored_copy.example = probe.arguments
    anchored_copy.anchor_report = report  # type: ignore[assignment]
    return anchored_copy


def anchored_model(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """The model with its sums anchored; the report gets a line for each. ``model`` is a copy that may be changed.

    Raises CannotFollowError where its calls cannot be followed, or it does not run on other grids once anchored.
    """
    model = anchor_modules(
        model, probe.resolution, probe.placements, probe.arguments, report, partial(_padding, model, probe)
    )
    wrapped = _wrapped(model, probe)
    if wrapped is None:
        return model
    try:
        plan = wrapped.plan(*probe.arguments, probe.resolution)
    except CannotFollowError as error:
        if not report.changed or failure_on_finer_grids(model, probe) is not None:
            raise
        report.notes.append(f"calls outside of modules with a measure could not be followed: {error}")
        return model
    listing = AnchorListing(plan)
    with leaving_no_trace(model):
        run_under(model, listing, *probe.arguments, wrapped.opaque)
    _add_lines(report, listing, model)
    for module in plan.unseen:
        seen = f": {Reason.NATIVE_VALUE.text()}" if listing.changes else ""
        report.add(module, "value", "unchanged" if listing.changes else "left", Reason.OUT_OF_SIGHT.text() + seen)
    return _running(model, wrapped, probe, report, listing)


def anchored_parts(model: nn.Module, probe: Probe, only: Container[str], whole: nn.Module) -> nn.Module:
    """A copy in which only the named modules (and :data:`PADDING`) are anchored, for experiments: parameters are
    shared, and the plans of ``whole``, which is anchored in all."""
    copied = deep_copy(model, share=True)
    padding = partial(_padding, copied, probe)
    copied = anchor_modules(
        copied, probe.resolution, probe.placements, probe.arguments, AnchorReport(""), padding, only
    )
    if not isinstance(whole, AnchoredCalls):
        return copied
    names = frozenset(name for name in (PADDING, *dict(copied.named_modules())) if name in only)
    parts = AnchoredCalls(copied, probe.resolution, probe.placements, probe.layout, whole.opaque, names)
    parts.share_plans(whole)
    return parts


def _wrapped(model: nn.Module, probe: Probe) -> AnchoredCalls | None:
    """The model, set to anchor its calls; None if it is one module of its own, whose calls are its own affair."""
    if is_module_of_its_own(model):
        return None
    opaque = frozenset(name for name, m in model.named_modules() if is_module_of_its_own(m))
    return AnchoredCalls(model, probe.resolution, probe.placements, probe.layout, opaque)


def _padding(model: nn.Module, probe: Probe) -> dict[tuple[int, int], int]:
    """For (axis, samples padded to it) how many of these come first; empty where the model cannot be followed."""
    wrapped = _wrapped(model, probe)
    try:
        return {} if wrapped is None else wrapped.plan(*probe.arguments, probe.resolution).origins
    except CannotFollowError:
        return {}


def _running(
    model: nn.Module, wrapped: AnchoredCalls, probe: Probe, report: AnchorReport, listing: AnchorListing
) -> nn.Module:
    """The model that runs on other grids: itself if no call needs anchoring, else wrapped; an error if neither does."""
    if any(p.is_meta for p in model.parameters()):
        return wrapped if listing.changes else model
    failure = failure_on_finer_grids(model, probe)
    _list_fields(model, probe.resolution, report, listing.weights, runs=failure is None)
    if failure is None and not listing.changes:
        return model
    failure_wrapped = failure_on_finer_grids(wrapped, probe)
    if failure_wrapped is None:
        return wrapped
    raise CannotFollowError(
        f"the anchored model does not run on other grids ({failure_wrapped}); quadnorm.at_native runs any model at its "
        f"training grid\n{report}"
    )


def _add_lines(report: AnchorReport, listing: AnchorListing, model: nn.Module) -> None:
    """Add the lines of a listing to a report."""
    paths = paths_of_modules(model)
    for (module, name, action, why), times in listing.lines.items():
        if not listing.changes and action == "anchored":
            action, why = "left", Reason.UNUSED_PADDING.text()
        shared = shared_text(paths[id(model.get_submodule(module))])
        report.add(module, kind_of(model, module, name), action, with_times(why, times) + shared, name)

    for module in listing.coordinates:
        report.add(module, "constant", "anchored", Reason.COORDINATES.text())


def _list_fields(model: nn.Module, sizes: Shape, report: AnchorReport, weights: set[int], runs: bool) -> None:
    """A line for each parameter or buffer with one value per training sample.

    Not for ``weights``, the ids of tensors that products contract with, nor for vectors of a model that ``runs`` on
    other grids: these have the grid's size by chance, such as a bias of 256 channels on 16×16.
    """
    if len(sizes) == 1:
        return
    reason = Reason.FIELD_RESAMPLED if runs else Reason.FIELD_INTERPOLATED
    norms = {e.name for e in report if e.call in ("layer_norm", "rms_norm")}
    for owner, module in model.named_modules():
        if is_module_of_its_own(module) or owner in norms:
            continue
        for name, t in (*module._parameters.items(), *module._buffers.items()):
            if t is None or id(t) in weights or not _holds(t.shape, sizes) or (runs and t.ndim == 1):
                continue
            report.add(f"{owner}.{name}" if owner else name, "field", "unchanged", reason.text(str(tuple(t.shape))))


def _holds(shape: Sequence[int], sizes: Shape) -> bool:
    """Whether a tensor's shape has the grid's axes side by side, or in one."""
    d = len(sizes)
    return any(tuple(shape[k : k + d]) == sizes for k in range(len(shape) - d + 1)) or prod(sizes) in shape


class NothingToAnchorError(ValueError):
    """The model sums over space nowhere, or nowhere that an anchored measure could be set."""


def _require_sums(report: AnchorReport) -> None:
    """Refuse a model without any sum that is anchored, or need not be."""
    if not report.changed and not any(e.action == "unchanged" and e.kind != "field" for e in report):
        others = "\n".join(f"  {e.name or '(model)'} ({e.kind}): {e.why}" for e in report.left)
        raise NothingToAnchorError(
            "found no spatial sum that could be anchored in the model"
            + (f"; these were left as they are:\n{others}" if others else "")
            + "".join(f"\n{note}" for note in report.notes)
            + "\nteach your own modules with register_anchor; quadnorm.transfer may serve"
        )


def _title(report: AnchorReport, sizes: Shape, names: tuple[str, ...]) -> str:
    n, m = len(report.changed), len(report.left)
    return f"anchored at {grid_text(sizes, names)}: {n} sum{'s' * (n != 1)} anchored, {m} left"


def _note_drifts(report: AnchorReport, drifts: Drifts, force: bool) -> None:
    """Add the drift of each way to the report; an error where anchoring makes it larger, unless ``force``."""
    report.notes.append(str(drifts))
    if drifts.worse and not force:
        raise ValueError(
            f"anchoring makes this model worse: {drifts}; force=True (--force) anchors all the same\n{report}"
        )


def _compare(model: nn.Module, anchored_copy: nn.Module, probe: Probe) -> str:
    """A note on how far the copy's output is from the model's at the training resolution; an error if it is far."""
    source = probe.source
    args, kwargs = probe.arguments
    options = probe.grid_option(probe.resolution) if isinstance(anchored_copy, AnchoredCalls) else {}
    a = tensors(trial_output(trial_copy(model), probe.arguments))
    b = tensors(trial_output(trial_copy(anchored_copy), (args, {**kwargs, **options})))
    if any(t.is_meta for t in a):
        return "not compared with the model: on the meta device it has no values; anchor again once it has"
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
