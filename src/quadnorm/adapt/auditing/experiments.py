"""Experiments of an audit: the model run again with one thing changed, and what that does to its output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring import anchored_parts
from quadnorm.adapt.auditing.commute import Restriction, module_gaps, relative
from quadnorm.adapt.auditing.data import Resolution
from quadnorm.adapt.auditing.rows import AuditRow, extending_evaluates
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.probes import Probe
from quadnorm.adapt.report import AnchorReport, size_text
from quadnorm.adapt.transfer import transfer
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watch import first_line
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

ROUNDING = {torch.float64: 1e-12, torch.float32: 2e-6}  # relative differences below are rounding


def spacing(grid: Shape, names: tuple[str, ...]) -> float:
    """The largest distance between neighbouring samples, of all axes."""
    return max(1 / max(n - (p == "endpoint"), 1) for n, p in zip(grid, names, strict=True))


def orders(
    model: nn.Module, inputs: list[Tensor], grids: list[Shape], names: tuple[str, ...], introduced: dict[str, float]
) -> dict[str, float]:
    """Least-squares slope of log(introduced between successive grids) against log h."""
    order = sorted(range(len(grids)), key=lambda k: -spacing(grids[k], names))
    steps = [
        (spacing(grids[a], names), module_gaps(model, inputs[b], Restriction(grids[b], grids[a], names)).introduced)
        for a, b in pairwise(order)
    ]
    floor = ROUNDING.get(inputs[0].dtype, 1e-2)
    fitted = {}
    for name in introduced:
        points = [(math.log(h), math.log(gap[name])) for h, gap in steps if gap.get(name, 0) > floor]
        if len({h for h, _ in points}) > 1:  # grids refined along one axis may share the largest h
            log_h, log_gap = zip(*points, strict=True)
            fitted[name] = float(np.polyfit(log_h, log_gap, 1)[0])
    return fitted


def check_runs(model: nn.Module, inputs: Iterable[Tensor]) -> None:
    """Raise if the model does not run at one of the grids, or returns nothing that could be compared."""
    for x in inputs:
        grid = size_text(x.shape[2:])
        try:
            with torch.no_grad():
                y = model(x)
        except Exception as error:  # whatever the model's own code makes of another grid
            why = first_line(error)
            raise ValueError(
                f"the model does not run at {grid} ({why}), and an audit compares its own runs on several grids; "
                "quadnorm.extend takes models with fields of their training grid's size, quadnorm.at_native any model"
            ) from error
        if not tensors(y):
            raise TypeError(f"an audit needs a model that returns tensors, got {type(y).__name__}")


def discrepancy(output: Any, native: Any, names: tuple[str, ...]) -> float:
    """How far an output is from the training grid's, the worst of its tensors: fields at the nodes of the coarser of
    their grids along each axis, other tensors as they are."""
    worst = 0.0
    for y, y0 in zip(tensors(output), tensors(native), strict=True):
        a, b = y, y0
        if a.shape != b.shape and a.ndim == b.ndim == len(names) + 2:
            common = tuple(map(min, a.shape[2:], b.shape[2:]))
            a, b = (t if tuple(t.shape[2:]) == common else carry(t, common, names) for t in (a, b))
        if a.shape == b.shape and (b.is_floating_point() or b.is_complex()):
            worst = max(worst, relative(a, b))
    return worst


def totals(model: nn.Module, inputs: Iterable[Tensor], names: tuple[str, ...]) -> list[float]:
    """Discrepancy of the output at each grid from that at the first."""
    with torch.no_grad():
        outputs = [model(x) for x in inputs]
    return [discrepancy(y, outputs[0], names) for y in outputs]


@dataclass(frozen=True)
class Ways:
    """The model under audit and what the ways make of it, for trial runs; None where a way does not serve."""

    as_it_is: nn.Module
    anchored: nn.Module | None
    extended: Extended | None
    sizes: Shape
    names: tuple[str, ...]


def discrepancies(ways: Ways, inputs: Sequence[Tensor], rows: Sequence[AuditRow]) -> dict[str, list[float]]:
    """:func:`totals` of every way; of extending only if it evaluates anything between the training nodes."""
    by_way = {"as trained": totals(ways.as_it_is, inputs, ways.names)}
    if ways.extended is not None and extending_evaluates(rows):
        by_way["extended"] = totals(ways.extended, inputs, ways.names)
    if ways.anchored is not None:
        by_way["anchored"] = totals(ways.anchored, inputs, ways.names)
    return by_way


def intervene(
    rows: list[AuditRow], model: nn.Module, anchored: nn.Module, report: AnchorReport, probe: Probe, x: Tensor
) -> None:
    """Fill in ``alone`` and ``fixed`` of every row that can be anchored."""
    summing = {e.name for e in report.changed if e.call not in ("pad", "getitem") and e.kind != "constant"}
    x0 = tensors(probe.arguments)[0]

    def with_anchored(only: set[str]) -> float:
        partly_anchored = anchored_parts(model, probe, only, anchored).eval()
        with torch.no_grad():
            return discrepancy(partly_anchored(x), partly_anchored(x0), probe.placements)

    for row in rows:
        if row.action == "anchored" and row.name in summing:
            row.alone = with_anchored(summing - {row.name})
            row.fixed = with_anchored({row.name})


def errors(
    ways: Ways, restrict: str, inputs: Mapping[Resolution, Tensor], targets: Mapping[Resolution, Tensor]
) -> dict[str, list[float]]:
    """Mean relative L² error over the batch, per way and resolution."""
    with torch.no_grad():
        first = ways.as_it_is(next(iter(inputs.values())))
    if not isinstance(first, Tensor):
        raise TypeError(
            f"make_input gave targets, and errors need a model that returns one tensor, got {type(first).__name__}; "
            "give inputs alone, or wrap the model to return the field that the targets are for"
        )
    models: dict[str, nn.Module] = {"as trained": ways.as_it_is}
    if ways.anchored is not None:
        models["anchored"] = ways.anchored
    models["run at the training grid"] = AtNative(ways.as_it_is, ways.sizes, ways.names, restrict)
    if ways.extended is not None:
        models["extended"] = Extended(ways.as_it_is, ways.sizes, ways.names, "first", restrict)
    native = next(n for n, x in inputs.items() if tuple(x.shape[2:]) == ways.sizes)
    if native in targets:
        pairs = (inputs[native], targets[native])
        models["transferred"] = transfer(ways.as_it_is, ways.sizes, ways.names, pairs, restrict=restrict)
    return {way: [_error(model, inputs[n], y) for n, y in targets.items()] for way, model in models.items()}


def _error(model: nn.Module, x: Tensor, target: Tensor) -> float:
    with torch.no_grad():
        gap, size = (t.flatten(1).norm(dim=1) for t in (model(x) - target, target))
    return float((gap / size).mean())
