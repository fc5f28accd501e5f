"""Which module of a model depends on the resolution, by how much, of which order, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.anchoring.by_calls import anchor_calls
from quadnorm.adapt.anchoring.by_modules import anchor_modules
from quadnorm.adapt.auditing.commute import Restriction, run
from quadnorm.adapt.auditing.experiments import (
    ROUNDING,
    Resolution,
    check_runs,
    errors,
    intervene,
    orders,
    spacing,
    totals,
)
from quadnorm.adapt.auditing.layout import ChannelsFirst, channels_first, inside, layout_of_inputs
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.auditing.rows import add_call_rows, extending_evaluates, module_rows
from quadnorm.adapt.auditing.traits import between, traits
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.inputs.probes import Probe
from quadnorm.adapt.extending.extend import gap_at_training_nodes
from quadnorm.adapt.extending.extended import Extended
from quadnorm.adapt.models import check_module, model_grid, own_placement, trial_copy
from quadnorm.adapt.placing import decided_placement, placement_of_data
from quadnorm.adapt.report import AnchorReport, size_text
from quadnorm.measures.base import Shape

MakeInput = Callable[[Any], "Tensor | tuple[Tensor, Tensor]"]


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

    Modules are compared between the training grid and the finest of the others, or the coarsest where none is finer.
    For every module, with x on the finer of the two and R the restriction to the coarser:

    - *introduced*: ‖R M x − M R x‖ / ‖R M x‖. Zero for whatever acts on single samples; everything else is the
      module's own doing.
    - *cumulative*: how far its output is from the other grid's run, its input's deviation included.
    - *order*: p in h^p, from what it introduces between successive grids. Sums that count samples have p = 1 on
      endpoint-inclusive grids.
    - *alone*: the model's discrepancy if everything but this module is anchored; *fixed*: if only this module is. These
      are experiments, not correlations: one module's measure is exchanged and the model run again.

    Args:
        model: takes (B, C, \*spatial) or (B, \*spatial, C); untouched, run in eval mode.
        make_input: ``make_input(n)`` gives the input at resolution n, or a pair (input, target). Where its channels are
            shows in the axis that has the same length at all resolutions. With targets the
            audit measures the error of the model as it is, anchored, extended, and run at the training grid, and
            recommends one. It also says which way such data favours as a rule: :class:`Audit`'s ``traits``.
        resolutions: the training resolution first, then others, finer or coarser, best such that one of two grids
            contains the other; three or more give orders.
        placement: where samples lie, as for :func:`quadnorm.anchor`. The data's own evidence is checked against it.
        restrict: how the input goes to the training grid for the run there; see :func:`quadnorm.at_native`.
        interventions: whether to make the experiments, two runs at the compared grid for each module that can be
            anchored.

    Returns:
        An :class:`Audit`: ``print`` it; ``to_frame()``, ``figure()``, ``html(path)``.

    >>> import torch
    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> field = lambda n: torch.exp(torch.linspace(0, 1, n))[None, None]
    >>> result = audit(model, field, [17, 33, 65, 129])
    >>> [row.name for row in result.leaks], round(result.leaks[0].order, 1)
    (['1'], 1.0)
    """
    check_module(model, "audit")
    inputs, targets = _inputs(make_input, resolutions)
    last = layout_of_inputs([tuple(x.shape) for x in inputs.values()]) == "last"
    if last:
        inputs, targets = ({n: channels_first(t) for n, t in fields.items()} for fields in (inputs, targets))
        model = ChannelsFirst(model)
    _check_grids(inputs, resolutions)
    grids: list[Shape] = [tuple(x.shape[2:]) for x in inputs.values()]
    sizes, names = model_grid(model, grids[0], placement)
    check = placement_of_data(list(inputs.values()))
    names = decided_placement(check, placement, len(sizes), own_placement(model, len(sizes))) or names
    far = grids.index(compared_with(grids[0], grids))
    native, other = (list(inputs.values())[k] for k in (0, far))
    fine, coarse = (other, native) if grids[far] == _finer(grids[0], grids[far]) else (native, other)
    trial = trial_copy(model)
    check_runs(trial, inputs.values())
    reference = run(trial, coarse).outputs
    gaps = run(trial, fine, Restriction(tuple(fine.shape[2:]), tuple(coarse.shape[2:]), names), reference)
    slopes = orders(trial, list(inputs.values()), grids, names, gaps.introduced)
    fixed, report = _try_anchor(model, sizes, names, native)
    rows = module_rows(model, gaps.introduced, gaps.cumulative, slopes, report)
    on_coarse = _try_extend(trial, tuple(coarse.shape[2:]), names, coarse)
    if on_coarse is not None:
        add_call_rows(rows, on_coarse, report, fine)
    extended = _try_extend(trial, sizes, names, native, verify=True)
    by_way = {"as it is": totals(trial, inputs.values(), names)}
    # One more experiment: the same input without what lies between the coarser grid's samples.
    smooth, detail = between(fine, tuple(coarse.shape[2:]), names)
    smoothed = None
    if extended is not None and extending_evaluates(rows):
        by_way["extended"] = totals(extended, inputs.values(), names)
    if fixed is not None:
        by_way["anchored"] = totals(trial_copy(fixed), inputs.values(), names)
        smoothed = totals(trial_copy(fixed), [coarse, smooth], names)[1]
        if interventions:
            intervene(rows, model, report, sizes, names, native, other)
    if last:
        rows, report = inside(rows, report)
    return Audit(
        resolutions=[_label(n) for n in inputs],
        spacings=[spacing(g, names) for g in grids],
        rows=rows,
        totals=by_way,
        errors=errors(trial, fixed, extended, sizes, names, restrict, inputs, targets) if targets else {},
        left=report.left,
        floor=ROUNDING.get(native.dtype, 1e-2),
        grid=check,
        traits=traits(detail, list(targets.values())[far] if targets else None, grids, sizes, names),
        compared=far,
        placements=names,
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
    if len({x.ndim for x in inputs.values()}) > 1:
        shapes = " and ".join(str(tuple(x.shape)) for x in inputs.values())
        raise ValueError(f"make_input gave different numbers of axes at different resolutions: {shapes}")
    return inputs, targets


def _check_grids(inputs: dict[Resolution, Tensor], resolutions: Sequence[Resolution]) -> None:
    """Refuse inputs (B, C, *spatial) that are not the same fields on different grids."""
    shapes = {tuple(x.shape[2:]) for x in inputs.values()}
    if len(shapes) != len(inputs):
        raise ValueError(f"make_input gave the same grid for different resolutions: {sorted(shapes)}")
    rows = [n for n in resolutions if inputs[n].ndim == 3 and inputs[n].shape[2] == _square(n) > 1]
    if rows:
        raise ValueError(
            f"make_input({rows[0]!r}) gave {_square(rows[0])} samples in a row, which do not say how they make a grid; "
            "wrap the model in a module that takes (B, C, *spatial) and puts the samples in a row itself"
        )
    if len({x.shape[:2] for x in inputs.values()}) > 1:
        shapes_given = " and ".join(str(tuple(x.shape)) for x in inputs.values())
        raise ValueError(
            "make_input gave different batches or channels at different resolutions; expected the same fields as "
            f"(B, C, *spatial) or (B, *spatial, C), got {shapes_given}"
        )


def _square(n: Resolution) -> int:
    """How many samples a grid with n samples per axis has, if it has two axes or as many as n says."""
    return n * n if isinstance(n, int) else prod(n) if len(n) > 1 else 0


def compared_with(native: Shape, grids: Sequence[Shape]) -> Shape:
    """The grid whose run is compared with the training grid's: the finest, or the coarsest where none is finer.

    >>> compared_with((33,), [(33,), (65,), (17,)]), compared_with((65,), [(65,), (33,), (17,)])
    ((65,), (17,))
    """
    others = [g for g in grids if g != native]
    finest = max(others, key=prod)
    return finest if prod(finest) > prod(native) else min(others, key=prod)


def _finer(a: Shape, b: Shape) -> Shape:
    return a if prod(a) >= prod(b) else b


def _label(n: Resolution) -> str:
    return str(n) if isinstance(n, int) else size_text(n)


def _try_anchor(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor
) -> tuple[nn.Module | None, AnchorReport]:
    fixed, report, _ = anchor_modules(model, sizes, names, x, share=True)
    fixed = anchor_calls(fixed, Probe(((x,), {}), "first", sizes, names, "the training input"), report)
    return (fixed if report.changed else None), report


def _try_extend(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor, verify: bool = False
) -> Extended | None:
    """The extended model; None where its calls cannot be followed, or with ``verify`` where it is not the model at the
    training nodes."""
    extended = Extended(model, sizes, names, "first", "cubic")
    try:
        plan = extended.plan((x,), {})
        if verify:
            gap_at_training_nodes(extended, plan, Probe(((x,), {}), "first", sizes, names, "the training input"))
    except CannotFollowError:
        return None
    return extended
