"""A trained model, made consistent across resolutions without retraining."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.anchoring.by_calls import anchor_calls
from quadnorm.adapt.anchoring.by_modules import anchor_modules
from quadnorm.adapt.anchoring.drift import Drifts, measure_drifts
from quadnorm.adapt.anchoring.trace import Example, call
from quadnorm.adapt.calls.inputs.probes import Probe, make_probe
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.models import check_module, model_grid, own_placement, trial_copy
from quadnorm.adapt.placing import example_and_placement, open_question
from quadnorm.adapt.report import AnchorReport, grid_text
from quadnorm.measures.base import Shape

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
        layout: where the channels of fields are, as for :func:`quadnorm.extend`; default what fits the example.
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
