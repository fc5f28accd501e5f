"""A trained model, made consistent across resolutions without retraining."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring import attention, rules  # noqa: F401  # their import fills the table of rules
from quadnorm.adapt.anchoring.by_calls import with_calls
from quadnorm.adapt.anchoring.calls import NO_SUMS, tensors
from quadnorm.adapt.anchoring.drift import drifts, failure
from quadnorm.adapt.anchoring.registry import Outcome, Place, apply_rule, left, rule_for
from quadnorm.adapt.anchoring.rows import watch_grid
from quadnorm.adapt.anchoring.torch_modules import OverGrid
from quadnorm.adapt.anchoring.trace import Example, Trace, call, guess_examples, scratch, trace
from quadnorm.adapt.calls.examples import Probe, make_probe
from quadnorm.adapt.calls.plan import CannotFollowError
from quadnorm.adapt.models import check_module, copied, model_grid, own_placement, replaced
from quadnorm.adapt.placing import example_and_placement, tie
from quadnorm.adapt.report import AnchorReport
from quadnorm.measures import Anchored, Measure
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
    anchored_copy, report, note, tried = examined(model, sizes, names, example, share)
    without_values = any(p.is_meta for p in model.parameters())
    probe = None if tried is None or without_values else _probe(model, sizes, names, tried, layout)
    if probe is not None:
        anchored_copy = by_calls(anchored_copy, probe, report)
    if not report.changed and not report.unchanged:
        others = "\n".join(f"  {e.name or '(model)'} ({e.kind}): {e.why}" for e in report.left)
        raise ValueError(
            "found no spatial sum that could be anchored in the model"
            + (f"; these were left as they are:\n{others}" if others else "")
            + "\nteach your own modules with register_anchor"
        )
    if tried is None:
        raise ValueError(note)
    grid = "×".join(map(str, sizes))
    n, m = len(report.changed), len(report.left)
    where = names[0] if len(set(names)) == 1 else ", ".join(names)
    report.title = f"anchored at {grid}, {where} samples: {n} sum{'s' * (n != 1)} anchored, {m} left"
    report.notes.append(_compare(model, anchored_copy, tried, note))
    measured = None if probe is None else drifts(model, anchored_copy, probe)
    if measured is not None:
        report.notes.append(str(measured))
        if measured.worse and not force:
            raise ValueError(
                f"anchoring makes this model worse: {measured}. quadnorm.{measured.take.split(',')[0]} does not; "
                f"force=True anchors all the same\n{report}"
            )
    if check is not None:
        report.notes.append(f"placement, from the data: {check}" + (f"; {tie(names)}" if tie(names) else ""))
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


def by_calls(model: nn.Module, probe: Probe, report: AnchorReport) -> nn.Module:
    """Anchor the model's own calls too, where they can be followed."""
    before = list(report.entries)
    try:
        report.entries = [e for e in before if not e.kind.startswith("call ")]
        wrapped = with_calls(model, probe, report)
    except CannotFollowError as error:
        report.entries = before
        report.notes.append(f"calls outside of modules could not be followed: {error}")
        return model
    failed = None if wrapped is model else failure(wrapped, probe)
    if failed is None:
        return wrapped
    why = "the model does not run with this sum anchored: left as it is"
    report.entries = [
        replace(e, action="left", why=why) if e.kind.startswith("call ") and e.action == "anchored" else e
        for e in report.entries
    ]
    report.notes.append(f"sums in calls were left: with them anchored the model fails on another grid ({failed})")
    return model


def examined(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], example: Example | None, share: bool
) -> tuple[nn.Module, AnchorReport, str, Example | None]:
    """The anchored copy, its report, and the probe input: described, and as tensors (None if there is none)."""
    anchored_copy = copied(model, share)
    _learn_neuralop(anchored_copy)
    seen, note, tried = _look(anchored_copy, sizes, example)
    report = AnchorReport("")
    anchored_copy = _apply(anchored_copy, sizes, names, seen, report)
    _list_fields(anchored_copy, sizes, report, seen.weights if seen else set())
    for where, name, what in seen.calls if seen else ():
        why = what if what in NO_SUMS else f"{what}; a call, no module: make it one and teach it with register_anchor"
        report.add(where, f"call {name}", "left", why)
    return anchored_copy, report, note, tried


def _learn_neuralop(model: nn.Module) -> None:
    if any(type(m).__module__.startswith("neuralop.") for m in model.modules()):
        import quadnorm.adapt.anchoring.neuralop  # noqa: F401  # its import registers the rules


# --- the run at the training resolution ------------------------------------------------------------------------------


def _known(module: nn.Module) -> bool:
    return isinstance(getattr(module, "measure", None), Measure) or not isinstance(
        rule_for(module), (Outcome, type(None))
    )


def _look(model: nn.Module, sizes: Shape, example: Example | None) -> tuple[Trace | None, str, Example | None]:
    grid = "×".join(map(str, sizes))
    if example is not None:
        if not any(_holds(t.shape, sizes) for t in tensors(example)):
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors(example)) or repr(example)
            raise ValueError(
                f"the example must be an input at the training resolution {grid}, got shapes {shapes}; "
                f"check the resolution, or pass an input on the training grid"
            )
        return trace(model, example, sizes, _known), f"the example at {grid}", example
    for x in guess_examples(model, sizes):
        try:
            return trace(model, x, sizes, _known), f"random input at {grid}", x
        except Exception:  # a guess may fail in any way; the report says that none worked
            continue
    why = (
        f"the model must be seen at work, and no input could be guessed; pass example=, an input at {grid}: a tensor, "
        "a tuple of arguments or a dict of keyword arguments"
    )
    return None, why, None


def _holds(shape: Sequence[int], sizes: Shape) -> bool:
    d = len(sizes)
    return any(tuple(shape[k : k + d]) == sizes for k in range(len(shape) - d + 1)) or prod(sizes) in shape


def _compare(model: nn.Module, anchored_copy: nn.Module, example: Example, note: str) -> str:
    a, b = (tensors(call(scratch(m), example)) for m in (model, anchored_copy))
    if any(t.is_meta for t in a):
        return (
            "not compared with the model, and its calls outside of modules not looked at: a model on the meta device "
            "has no values; anchor again once it has"
        )
    worst = 0.0
    for s, t in zip(a, b, strict=True):
        if not s.is_floating_point() or s.numel() == 0:
            continue
        if not torch.isfinite(s).all():
            return f"not compared with the model: its own output on {note} is not finite; pass example="
        gap = ((s - t).abs().max() / s.abs().max().clamp_min(torch.finfo(s.dtype).tiny)).item()
        if not gap <= TOLERANCE.get(s.dtype, 2e-2):
            raise RuntimeError(
                f"the anchored copy differs from the model by {gap:.1e} of the largest output at the training "
                f"resolution, on {note}; "
                f"a registered rule may be wrong, or a module sees another grid than expected: pass example="
            )
        worst = max(worst, gap)
    return f"compared with the model on {note}: equal to {worst:.1e} of the largest output"


# --- rules -----------------------------------------------------------------------------------------------------------


def anchored_parts(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], example: Example, only: Container[str]
) -> nn.Module:
    """A copy in which only the named modules are anchored, for experiments; parameters are shared."""
    partly_anchored = copied(model, share=True)
    _learn_neuralop(partly_anchored)
    return _apply(partly_anchored, sizes, names, trace(partly_anchored, example, sizes, _known), AnchorReport(""), only)


def _apply(
    model: nn.Module,
    sizes: Shape,
    names: tuple[str, ...],
    seen: Trace | None,
    report: AnchorReport,
    only: Container[str] | None = None,
) -> nn.Module:
    homes: dict[int, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        homes.setdefault(id(module), []).append(name)
    # Measures are read before any is set: an operator's setter also sets those of its layers.
    plan = list(model.named_modules())
    pads = any(type(m).__name__ == "DomainPadding" for _, m in plan)
    before = {id(m): m.measure for _, m in plan if isinstance(getattr(m, "measure", None), Measure)}
    for name, module in plan:
        if only is not None and name not in only:
            if id(module) in before:
                module.measure = before[id(module)]
            continue
        place = _place(name, sizes, names, seen, pads)
        outcome = _outcome(module, place, before)
        if outcome is None:
            continue
        if outcome.module is not None and outcome.module is not module:
            model = replaced(model, homes[id(module)], outcome.module)
        also = f" (the same module as {', '.join(homes[id(module)][1:])})" if len(homes[id(module)]) > 1 else ""
        inner = ""
        if isinstance(place, Place) and outcome.action == "anchored" and place.measure.anchor != sizes:
            inner = f"; sees {'×'.join(map(str, place.measure.anchor))} samples in training"
        report.add(name, _kind(module), outcome.action, outcome.why + inner + also)
    if seen is not None:
        watch_grid(model, seen.shapes, next(iter(seen.inputs.get("", ())), ()), sizes)
    return model


def _kind(module: nn.Module) -> str:
    """The name that the user knows the module by: that of the class before it was exchanged."""
    return next(c.__name__ for c in type(module).__mro__ if not c.__module__.startswith("quadnorm.adapt"))


def _outcome(module: nn.Module, place: Place | Outcome, before: dict[int, Measure]) -> Outcome | None:
    if isinstance(module, torch.jit.ScriptModule):
        return left("scripted: TorchScript has compiled its modules away; anchor before scripting")
    rule = rule_for(module)
    if isinstance(rule, Outcome) and id(module) not in before:
        return rule
    owns = id(module) in before and (rule is None or isinstance(rule, Outcome))
    if rule is None and not owns:
        return rules.plain_mean(module, place) if isinstance(place, Place) else None
    if isinstance(place, Outcome):
        return place
    if owns:
        module.measure = before[id(module)]  # type: ignore[assignment]
        return rules.own_measure(module, place)
    assert rule is not None
    assert not isinstance(rule, Outcome)
    return apply_rule(rule, module, place)


def _place(name: str, sizes: Shape, names: tuple[str, ...], seen: Trace | None, pads: bool) -> Place | Outcome:
    """Where a module stands; the outcome "left" if it stands in several places at once."""
    shapes = tuple(dict.fromkeys(seen.shapes.get(name, ()))) if seen else ()
    outputs = tuple(dict.fromkeys(seen.outputs.get(name, ()))) if seen else ()
    inputs = tuple(dict.fromkeys(seen.inputs.get(name, ()))) if seen else ()
    grids = {g for g in (_grid(s, sizes) for s in shapes) if g is not None}
    if len(grids) > 1:
        many = " and ".join("×".join(map(str, g)) for g in sorted(grids))
        return left(f"is used on several grids in one run ({many}); one module cannot stand for both")
    grid = grids.pop() if grids else sizes
    more = [n - n0 for n, n0 in zip(grid, sizes, strict=True)]
    if pads and any(more) and all(m >= 0 and m % 2 == 0 for m in more):  # the same number of samples on both sides
        measure = Anchored.padded(sizes, names, [(m // 2, m // 2) for m in more])
        names = tuple("left" if p == "periodic" else p for p in names)  # with padding around it an axis has ends
        return Place(name, measure, sizes, names, shapes, outputs, inputs)
    return Place(name, Anchored(grid, names), sizes, names, shapes, outputs, inputs)


def _grid(shape: Shape, sizes: Shape) -> Shape | None:
    """The spatial part of a tensor's shape."""
    d = len(sizes)
    for k in range(2, len(shape) - d + 1):
        if shape[k : k + d] == sizes:
            return sizes
    if shape[1 : 1 + d] == sizes or shape[:d] == sizes or (d > 1 and prod(sizes) in shape[1:]):
        return sizes
    return tuple(shape[2:]) if len(shape) == d + 2 else None


def _list_fields(model: nn.Module, sizes: Shape, report: AnchorReport, weights: set[int]) -> None:
    """Parameters and buffers with one value per training sample; not ``weights`` of products that have the grid's size
    by chance."""
    for owner, module in model.named_modules():
        if isinstance(module, OverGrid) or _known(module):
            continue
        for name, t in _own_tensors(module):
            if t is not None and id(t) not in weights and len(sizes) > 1 and _holds(t.shape, sizes):
                path = f"{owner}.{name}" if owner else name
                report.add(
                    path,
                    "field",
                    "left",
                    f"values on the training grid, shape {tuple(t.shape)}: other grids have no use for them",
                )


def _own_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    yield from module._parameters.items()
    yield from module._buffers.items()
