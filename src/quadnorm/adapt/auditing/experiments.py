"""Experiments of an audit: the model run again with one thing changed, and what that does to its output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm._ways import AS_TRAINED, EXTENDED, NATIVE, TRANSFERRED
from quadnorm.adapt.anchoring import anchored_parts
from quadnorm.adapt.auditing.data import AuditData
from quadnorm.adapt.auditing.gaps import Restriction, module_gaps
from quadnorm.adapt.auditing.rows import AuditRow
from quadnorm.adapt.drift import drift
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.planning.steer import PADDING
from quadnorm.adapt.report import AnchorReport, size_text
from quadnorm.adapt.transfer import transfer
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.probes import Probe
from quadnorm.adapt.watching.watch import first_line
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


def totals(model: nn.Module, inputs: Iterable[Tensor], names: tuple[str, ...]) -> list[float]:
    """Discrepancy of the output at each grid from that at the first."""
    with torch.no_grad():
        outputs = [model(x) for x in inputs]
    return [drift(y, outputs[0], names) for y in outputs]


def intervene(
    rows: list[AuditRow], model: nn.Module, anchored: nn.Module, report: AnchorReport, probe: Probe, x: Tensor
) -> None:
    """Fill in ``alone`` and ``fixed`` of every row that can be anchored.

    All padding is one part; a call that cuts it off goes with it.
    """
    parts = {e.name for e in report.changed if e.call not in ("pad", "getitem")}
    pads = {e.name for e in report.changed if e.call == "pad"}
    everything = parts | ({PADDING} if pads else set())
    x0 = tensors(probe.arguments)[0]

    @cache
    def with_anchored(only: frozenset[str]) -> float:
        partly = anchored_parts(model, probe, only, anchored).eval()
        with torch.no_grad():
            return drift(partly(x), partly(x0), probe.placements)

    for row in rows:
        padding = row.kind == "call pad" or (row.name in pads - parts and not row.kind.startswith("call "))
        part = PADDING if padding else row.name
        if row.action == "anchored" and part in everything:
            row.alone = with_anchored(frozenset(everything - {part}))
            row.fixed = with_anchored(frozenset({part}))


def errors(
    models: dict[str, nn.Module], data: AuditData, names: tuple[str, ...], restrict: str
) -> dict[str, list[float]]:
    """Mean relative L² error over the batch, per way and resolution."""
    model, sizes = models[AS_TRAINED], data.grids[0]
    with torch.no_grad():
        first = model(data.fields[0])
    if not isinstance(first, Tensor):
        raise TypeError(
            f"make_input gave targets, and errors need a model that returns one tensor, got {type(first).__name__}; "
            "give inputs alone, or wrap the model to return the field that the targets are for"
        )
    models = {**models, NATIVE: AtNative(model, sizes, names, restrict)}
    if EXTENDED in models:
        models[EXTENDED] = Extended(model, sizes, names, "first", restrict)
    native = next(iter(data.inputs))
    if native in data.targets:
        pairs = (data.inputs[native], data.targets[native])
        models[TRANSFERRED] = transfer(model, sizes, names, pairs, restrict=restrict)
    return {way: [_error(m, data.inputs[n], y) for n, y in data.targets.items()] for way, m in models.items()}


def _error(model: nn.Module, x: Tensor, target: Tensor) -> float:
    with torch.no_grad():
        gap, size = (t.flatten(1).norm(dim=1) for t in (model(x) - target, target))
    return float((gap / size).mean())
