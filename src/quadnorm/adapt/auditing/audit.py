"""Which module of a model depends on the resolution, by how much, of which order, and what helps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.anchor import anchored_parts, by_calls, examined
from quadnorm.adapt.anchoring.trace import scratch
from quadnorm.adapt.auditing.call_gaps import call_gaps
from quadnorm.adapt.auditing.commute import Restriction, relative, run
from quadnorm.adapt.auditing.report import Audit, AuditRow
from quadnorm.adapt.calls.examples import Probe
from quadnorm.adapt.calls.plan import CannotFollowError
from quadnorm.adapt.calls.table import KINDS
from quadnorm.adapt.extending.extended import Extended
from quadnorm.adapt.models import check_module, model_grid, own_placement
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.placing import seen_placement, settled_placement
from quadnorm.adapt.report import AnchorReport
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

Resolution = int | tuple[int, ...]
MakeInput = Callable[[Any], "Tensor | tuple[Tensor, Tensor]"]
ROUNDING = {torch.float64: 1e-12, torch.float32: 2e-6}  # relative differences below are rounding


def audit(
    model: nn.Module,
    make_input: MakeInput,
    resolutions: Sequence[Resolution],
    *,
    placement: str | Sequence[str] | None = None,
    restrict: str = "cubic",
    interventions: bool = True,
) -> Audit:
    r"""Run a model on the same continuous input at several grids and tell what depends on the grid.

    For every module, with R the restriction to the training grid:

    - *introduced*: ‖R M x − M R x‖ / ‖R M x‖ at the finest grid. Zero for whatever acts on single samples; everything
      else is the module's own doing.
    - *cumulative*: how far its output is from the training grid's run, its input's deviation included.
    - *order*: p in h^p, from what it introduces between successive grids. Sums that count samples have p = 1 on
      endpoint-inclusive grids.
    - *alone*: the model's discrepancy if everything but this module is anchored; *fixed*: if only this module is. These
      are experiments, not correlations: one module's measure is exchanged and the model run again.

    Args:
        model: takes (B, C, \*spatial); untouched, run in eval mode.
        make_input: ``make_input(n)`` gives the input at resolution n, or a pair (input, target). With targets the
            audit measures the error of the model as it is, anchored, run at the training grid, and anchored with
            native values, and recommends one.
        resolutions: the training resolution first, then others, best nested in it; three or more give orders.
        placement: where samples lie, as for :func:`quadnorm.anchor`. The data's own evidence is checked against it.
        restrict: how the input goes to the training grid for the run there; see :func:`quadnorm.at_native`.
        interventions: whether to make the experiments, two runs at the finest grid for each module that can be
            anchored.

    Returns:
        An :class:`Audit`: ``print`` it; ``to_frame()``, ``figure()``, ``html(path)``.

    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> field = lambda n: torch.exp(torch.linspace(0, 1, n))[None, None]
    >>> result = audit(model, field, [17, 33, 65, 129])
    >>> [row.name for row in result.leaks], round(result.leaks[0].order, 1)
    (['1'], 1.0)
    """
    check_module(model, "audit")
    inputs, targets = _inputs(make_input, resolutions)
    grids: list[Shape] = [tuple(x.shape[2:]) for x in inputs.values()]
    sizes, names = model_grid(model, grids[0], placement)
    check = seen_placement(list(inputs.values()))
    names = settled_placement(check, placement, len(sizes), own_placement(model, len(sizes))) or names
    native, finest = next(iter(inputs.values())), max(inputs.values(), key=lambda x: x.shape[2:].numel())
    trial = scratch(model)
    reference = run(trial, native).outputs
    gaps = run(trial, finest, Restriction(tuple(finest.shape[2:]), sizes, names), reference)
    orders = _orders(trial, list(inputs.values()), grids, names, gaps.introduced)
    fixed, report = _try_anchor(model, sizes, names, native)
    rows = _rows(model, gaps.introduced, gaps.cumulative, orders, report)
    extended = _try_extend(trial, sizes, names, native)
    if extended is not None:
        _add_calls(rows, extended, report, finest)
    totals = {"as it is": _totals(trial, inputs.values(), sizes, names)}
    # One more experiment: the same input without what lies between the training grid's samples.
    smooth = carry(carry(finest, sizes, names), tuple(finest.shape[2:]), names)
    smoothed = None
    if extended is not None and _evaluates(rows):
        totals["extended"] = _totals(extended, inputs.values(), sizes, names)
    if fixed is not None:
        totals["anchored"] = _totals(scratch(fixed), inputs.values(), sizes, names)
        smoothed = _totals(scratch(fixed), [native, smooth], sizes, names)[1]
        if interventions:
            _intervene(rows, model, report, sizes, names, native, finest)
    return Audit(
        resolutions=[_label(n) for n in inputs],
        spacings=[_spacing(g, names) for g in grids],
        rows=rows,
        totals=totals,
        errors=_errors(trial, fixed, extended, sizes, names, restrict, inputs, targets) if targets else {},
        left=report.left,
        floor=ROUNDING.get(finest.dtype, 1e-2),
        grid=check,
        detail=relative(smooth, finest),
        smoothed=smoothed,
    )


def _inputs(
    make_input: MakeInput, resolutions: Sequence[Resolution]
) -> tuple[dict[Resolution, Tensor], dict[Resolution, Tensor]]:
    if len(resolutions) < 2:
        raise ValueError(f"an audit needs the training resolution and at least one other, got {resolutions!r}")
    inputs: dict[Resolution, Tensor] = {}
    targets: dict[Resolution, Tensor] = {}
    for n in resolutions:
        sample = make_input(n)
        x, y = sample if isinstance(sample, tuple) else (sample, None)
        if not isinstance(x, Tensor) or x.ndim < 3:
            what = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"make_input({n!r}) must give a tensor (B, C, *spatial) or a pair of them, got {what}")
        inputs[n] = x
        if y is not None:
            targets[n] = y
    shapes = {tuple(x.shape[2:]) for x in inputs.values()}
    if len(shapes) != len(inputs):
        raise ValueError(f"make_input gave the same grid for different resolutions: {sorted(shapes)}")
    if len({x.shape[:2] for x in inputs.values()}) > 1:
        shapes_given = " and ".join(str(tuple(x.shape)) for x in inputs.values())
        raise ValueError(
            "make_input gave different batches or channels at different resolutions; expected the same fields as "
            f"(B, C, *spatial), got {shapes_given}; if the model takes (B, *spatial, C), wrap it in a module that "
            "moves the axis"
        )
    return inputs, targets


def _label(n: Resolution) -> str:
    return str(n) if isinstance(n, int) else "×".join(map(str, n))


def _spacing(grid: Shape, names: tuple[str, ...]) -> float:
    return max(1 / max(n - (p == "endpoint"), 1) for n, p in zip(grid, names, strict=True))


def _try_anchor(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor
) -> tuple[nn.Module | None, AnchorReport]:
    fixed, report, _, _ = examined(model, sizes, names, x, share=True)
    fixed = by_calls(fixed, Probe(((x,), {}), "first", sizes, names, "the training input"), report)
    return (fixed if report.changed else None), report


def _try_extend(model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor) -> Extended | None:
    extended = Extended(model, sizes, names, "first", "cubic")
    try:
        extended.plan((x,), {})
    except CannotFollowError:
        return None
    return extended


def _evaluates(rows: list[AuditRow]) -> bool:
    """Whether extending evaluates anything between the training nodes; kernels and pools are only interpolated."""
    fixed = ("kernel", "order", "slice", "padding")
    calls = [r.kind.removeprefix("call ") for r in rows if r.kind.startswith("call ")]
    return any(r.action == "anchored" for r in rows) or any(
        name in KINDS and KINDS[name].family not in fixed for name in calls
    )


def _add_calls(rows: list[AuditRow], extended: Extended, report: AnchorReport, x: Tensor) -> None:
    """A row for each function that mixes samples outside of modules that have a row as such."""
    known = frozenset(e.name for e in report if not e.kind.startswith("call "))
    calls = {(e.name, e.kind): e for e in report if e.kind.startswith("call ")}
    gaps = call_gaps(extended.model, extended.plan((x,), {}), (x,), {}, tuple(x.shape[2:]), frozenset())
    for (where, name), gap in gaps.items():
        if where in known:
            continue
        entry = calls.get((where, f"call {name}"))
        action, why = (entry.action, entry.why) if entry else ("left", KINDS[name].why if name in KINDS else "")
        cause = KINDS[name].why if name in KINDS else why
        rows.append(AuditRow(name=where, kind=f"call {name}", introduced=gap, action=action, why=cause))
        for row in rows:
            if row.name == where and not row.kind.startswith("call ") and not row.action:
                row.container = True


def _orders(
    model: nn.Module, inputs: list[Tensor], grids: list[Shape], names: tuple[str, ...], introduced: dict[str, float]
) -> dict[str, float]:
    """Least-squares slope of log(introduced between successive grids) against log h."""
    order = sorted(range(len(grids)), key=lambda k: -_spacing(grids[k], names))
    steps = [
        (_spacing(grids[a], names), run(model, inputs[b], Restriction(grids[b], grids[a], names)).introduced)
        for a, b in pairwise(order)
    ]
    floor = ROUNDING.get(inputs[0].dtype, 1e-2)
    orders = {}
    for name in introduced:
        points = [(math.log(h), math.log(gap[name])) for h, gap in steps if gap.get(name, 0) > floor]
        if len(points) > 1:
            orders[name] = slope(points)
    return orders


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the least-squares line through the points (x, y)."""
    x, y = (sum(p[k] for p in points) / len(points) for k in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def _totals(model: nn.Module, inputs: Iterable[Tensor], sizes: Shape, names: tuple[str, ...]) -> list[float]:
    """Discrepancy of the output at each grid from that at the training grid, on the training grid's nodes."""
    with torch.no_grad():
        outputs = [model(x) for x in inputs]
    if any(not isinstance(y, Tensor) for y in outputs):
        raise TypeError(f"an audit needs a model that returns one tensor, got {type(outputs[0]).__name__}")
    on_grid = [carry(y, sizes, names) if y.shape[2:] != outputs[0].shape[2:] else y for y in outputs]
    return [relative(y, on_grid[0]) for y in on_grid]


def _rows(
    model: nn.Module,
    introduced: dict[str, float],
    cumulative: dict[str, float],
    orders: dict[str, float],
    report: AnchorReport,
) -> list[AuditRow]:
    entries = {e.name: e for e in report if not e.kind.startswith("call ")}
    rows = []
    for name, module in model.named_modules():
        if name not in introduced and name not in entries:
            continue
        entry = entries.get(name)
        inside = any(other != name and other.startswith(f"{name}." if name else "") for other in introduced)
        rows.append(
            AuditRow(
                name=name,
                kind=type(module).__name__,
                introduced=introduced.get(name),
                cumulative=cumulative.get(name),
                order=orders.get(name),
                container=inside and (entry is None or entry.action != "left"),
                action="" if entry is None else entry.action,
                why="" if entry is None else entry.why,
            )
        )
    return rows


def _intervene(
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


def _errors(
    model: nn.Module,
    fixed: nn.Module | None,
    extended: nn.Module | None,
    sizes: Shape,
    names: tuple[str, ...],
    restrict: str,
    inputs: dict[Resolution, Tensor],
    targets: dict[Resolution, Tensor],
) -> dict[str, list[float]]:
    """Mean relative L² error over the batch, per way and resolution."""
    ways: dict[str, nn.Module] = {"as it is": model}
    if fixed is not None:
        ways["anchor"] = scratch(fixed)
    ways["at_native"] = AtNative(model, sizes, names, restrict)
    if extended is not None:
        ways["extend"] = Extended(model, sizes, names, "first", restrict)
    errors: dict[str, list[float]] = {}
    with torch.no_grad():
        for way, m in ways.items():
            errors[way] = []
            for n, y in targets.items():
                gap, size = (t.flatten(1).norm(dim=1) for t in (m(inputs[n]) - y, y))
                errors[way].append(float((gap / size).mean()))
    return errors
