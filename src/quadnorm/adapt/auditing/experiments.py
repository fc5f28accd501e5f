"""Experiments of an audit: the model run again with one thing changed, and what that does to its output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.examine import anchored_parts
from quadnorm.adapt.anchoring.trace import scratch
from quadnorm.adapt.auditing.commute import Restriction, relative, run
from quadnorm.adapt.auditing.rows import AuditRow
from quadnorm.adapt.extending.extended import Extended
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.report import AnchorReport
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

Resolution = int | tuple[int, ...]
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
        (spacing(grids[a], names), run(model, inputs[b], Restriction(grids[b], grids[a], names)).introduced)
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


def totals(model: nn.Module, inputs: Iterable[Tensor], sizes: Shape, names: tuple[str, ...]) -> list[float]:
    """Discrepancy of the output at each grid from that at the training grid, on the training grid's nodes."""
    with torch.no_grad():
        outputs = [model(x) for x in inputs]
    if any(not isinstance(y, Tensor) for y in outputs):
        raise TypeError(f"an audit needs a model that returns one tensor, got {type(outputs[0]).__name__}")
    on_grid = [carry(y, sizes, names) if y.shape[2:] != outputs[0].shape[2:] else y for y in outputs]
    return [relative(y, on_grid[0]) for y in on_grid]


def intervene(
    rows: list[AuditRow],
    model: nn.Module,
    report: AnchorReport,
    sizes: Shape,
    names: tuple[str, ...],
    x0: Tensor,
    x: Tensor,
) -> None:
    """Fill in ``alone`` and ``fixed`` of every row that can be anchored."""
    units = {e.name for e in report.changed if not e.kind.startswith("call ")}

    def discrepancy(only: set[str]) -> float:
        partly_anchored = scratch(anchored_parts(model, sizes, names, x0, only))
        with torch.no_grad():
            return relative(carry(partly_anchored(x), sizes, names), partly_anchored(x0))

    for row in rows:
        if row.name in units:
            row.alone = discrepancy(units - {row.name})
            row.fixed = discrepancy({row.name})


def errors(
    model: nn.Module,
    fixed: nn.Module | None,
    extended: nn.Module | None,
    sizes: Shape,
    names: tuple[str, ...],
    restrict: str,
    inputs: Mapping[Resolution, Tensor],
    targets: Mapping[Resolution, Tensor],
) -> dict[str, list[float]]:
    """Mean relative L² error over the batch, per way and resolution."""
    ways: dict[str, nn.Module] = {"as it is": model}
    if fixed is not None:
        ways["anchor"] = scratch(fixed)
    ways["at_native"] = AtNative(model, sizes, names, restrict)
    if extended is not None:
        ways["extend"] = Extended(model, sizes, names, "first", restrict)
    means: dict[str, list[float]] = {}
    with torch.no_grad():
        for way, m in ways.items():
            means[way] = []
            for n, y in targets.items():
                gap, size = (t.flatten(1).norm(dim=1) for t in (m(inputs[n]) - y, y))
                means[way].append(float((gap / size).mean()))
    return means
