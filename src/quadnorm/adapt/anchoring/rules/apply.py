"""Every module of a model given to its rule, with the grid that it sees."""

from __future__ import annotations

from collections.abc import Container
from math import prod

import torch
from torch import nn

from quadnorm.adapt.anchoring.rules.averages import plain_mean
from quadnorm.adapt.anchoring.rules.measures import own_measure
from quadnorm.adapt.anchoring.rules.registry import Outcome, Place, apply_rule, left, rule_for
from quadnorm.adapt.anchoring.running_grid import watch_grid
from quadnorm.adapt.anchoring.trace import Trace
from quadnorm.adapt.models import paths_of_modules, replace_module, shared_text
from quadnorm.adapt.report import AnchorReport, size_text
from quadnorm.measures import Anchored, Measure
from quadnorm.measures.base import Shape


def learn_neuralop(model: nn.Module) -> None:
    """Register the rules for neuraloperator's modules if the model has any of them."""
    if any(type(m).__module__.startswith("neuralop.") for m in model.modules()):
        import quadnorm.adapt.anchoring.neuralop  # noqa: F401  # its import registers the rules


def known(module: nn.Module) -> bool:
    """Whether the module owns a measure or has a rule."""
    return isinstance(getattr(module, "measure", None), Measure) or not isinstance(
        rule_for(module), (Outcome, type(None))
    )


def apply_rules(
    model: nn.Module,
    sizes: Shape,
    names: tuple[str, ...],
    traced: Trace | None,
    report: AnchorReport,
    only: Container[str] | None = None,
) -> nn.Module:
    """The model with every module anchored that can be, all or ``only`` the named ones; ``report`` gets a line each."""
    paths = paths_of_modules(model)
    # Measures are read before any is set: an operator's setter also sets those of its layers.
    modules = list(model.named_modules())
    pads = any(type(m).__name__ == "DomainPadding" for _, m in modules)
    before = {id(m): m.measure for _, m in modules if isinstance(getattr(m, "measure", None), Measure)}
    for name, module in modules:
        if only is not None and name not in only:
            if id(module) in before:
                module.measure = before[id(module)]
            continue
        place = _place(name, sizes, names, traced, pads)
        outcome = _outcome(module, place, before)
        if outcome is None:
            continue
        if outcome.module is not None and outcome.module is not module:
            model = replace_module(model, paths[id(module)], outcome.module)
        inner = ""
        if isinstance(place, Place) and outcome.action == "anchored" and place.measure.anchor != sizes:
            inner = f"; sees {size_text(place.measure.anchor)} samples in training"
        report.add(name, _kind(module), outcome.action, outcome.why + inner + shared_text(paths[id(module)]))
    if traced is not None:
        watch_grid(model, traced.shapes, next(iter(traced.inputs.get("", ())), ()), sizes)
    return model


def _kind(module: nn.Module) -> str:
    """The name that the user knows the module by: that of the class before it was exchanged."""
    return next(c.__name__ for c in type(module).__mro__ if not c.__module__.startswith("quadnorm.adapt"))


def _outcome(module: nn.Module, place: Place | Outcome, before: dict[int, Measure]) -> Outcome | None:
    """What its rule makes of a module, None if there is nothing to say; ``before``: the measures that modules own."""
    if isinstance(module, torch.jit.ScriptModule):
        return left("scripted: TorchScript has compiled its modules away; anchor before scripting")
    rule = rule_for(module)
    if isinstance(rule, Outcome) and id(module) not in before:
        return rule
    owns = id(module) in before and (rule is None or isinstance(rule, Outcome))
    if rule is None and not owns:
        return plain_mean(module, place) if isinstance(place, Place) else None
    if isinstance(place, Outcome):
        return place
    if owns:
        module.measure = before[id(module)]  # type: ignore[assignment]
        return own_measure(module, place)
    assert rule is not None
    assert not isinstance(rule, Outcome)
    return apply_rule(rule, module, place)


def _place(name: str, sizes: Shape, names: tuple[str, ...], traced: Trace | None, pads: bool) -> Place | Outcome:
    """Where a module stands; the outcome "left" if it stands in several places at once."""
    shapes = tuple(dict.fromkeys(traced.shapes.get(name, ()))) if traced else ()
    outputs = tuple(dict.fromkeys(traced.outputs.get(name, ()))) if traced else ()
    inputs = tuple(dict.fromkeys(traced.inputs.get(name, ()))) if traced else ()
    grids = {g for g in (_grid(s, sizes) for s in shapes) if g is not None}
    if len(grids) > 1:
        many = " and ".join(size_text(g) for g in sorted(grids))
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
