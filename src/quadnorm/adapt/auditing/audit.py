"""Which module of a model depends on the resolution, by how much, of which order, and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from quadnorm._ways import ANCHORED, AS_TRAINED, EXTENDED
from quadnorm.adapt.adapted import trial
from quadnorm.adapt.anchoring import anchored_model
from quadnorm.adapt.auditing.data import ChannelsFirst, MakeInput, Resolution, read_data
from quadnorm.adapt.auditing.experiments import ROUNDING, check_runs, errors, intervene, orders, spacing, totals
from quadnorm.adapt.auditing.gaps import Restriction, module_gaps
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.auditing.rows import add_call_rows, extending_evaluates, module_rows, under_own_names
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.extending import gap_at_training_nodes
from quadnorm.adapt.models import check_module, deep_copy, grid_sizes, model_grid, own_placement, trial_copy
from quadnorm.adapt.placement import decided_placement, placement_of_data
from quadnorm.adapt.report import AnchorReport
from quadnorm.adapt.watching.probes import Probe
from quadnorm.adapt.watching.watch import CannotFollowError
from quadnorm.measures.base import Shape


@trial()
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
      are experiments, not correlations: the sums of one module, or of its own calls, are exchanged and the model run
      again.

    Padding by samples that sums see has a row of its own (all of it is one part of the experiments); what it
    introduces is the change of the mean of a field that is zero there. Other rows see padding of the right length.

    ``audit(...).number`` is one number for the model: how far its output moves when the resolution doubles, and with
    targets the factor by which its error grows (:class:`quadnorm.adapt.auditing.report.GridNumber`).

    Args:
        model: takes (B, C, \*spatial) or (B, \*spatial, C); untouched, run in eval mode.
        make_input: ``make_input(n)`` gives the input at resolution n, or a pair (input, target). Where its channels are
            shows in the axis that has the same length at all resolutions. With targets the
            audit measures the error of the model as trained, anchored, extended, run at the training grid and
            transferred (:func:`quadnorm.transfer`, with the pairs at the training grid), and recommends one.
        resolutions: the training resolution first, then others, finer or coarser, best such that one of two grids
            contains the other; three or more give orders.
        placement: where samples lie, as for :func:`quadnorm.anchor`. The data's own evidence is checked against it.
        restrict: how the input goes to the training grid for the run there; see :func:`quadnorm.at_native`.
        interventions: whether to make the experiments, two runs at the compared grid for each module that can be
            anchored.

    Returns:
        An :class:`Audit`: ``print`` it; ``number``, ``to_dict()``, ``to_frame()``, ``figure()``, ``html(path)``,
        ``badge(path)``.

    >>> import torch
    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> field = lambda n: torch.exp(torch.linspace(0, 1, n))[None, None]
    >>> result = audit(model, field, [17, 33, 65, 129], placement="endpoint")
    >>> [row.name for row in result.leaks], round(result.leaks[0].order, 1)
    (['1'], 1.0)
    """
    check_module(model, "audit")
    data = read_data(make_input, resolutions)
    if data.channels_last:
        model = ChannelsFirst(model)
    sizes = grid_sizes(model, data.grids[0])
    check = placement_of_data(data.fields)
    names = decided_placement(check, placement, len(sizes), own_placement(model, len(sizes)))
    names = model_grid(model, sizes, names if placement is None else placement)[1]
    trial = trial_copy(model)
    check_runs(trial, data.fields)
    coarse, fine = data.coarse_and_fine
    restriction = Restriction(tuple(fine.shape[2:]), tuple(coarse.shape[2:]), names)
    gaps = module_gaps(trial, fine, restriction, coarse)
    slopes = orders(trial, data.fields, data.grids, names, gaps.introduced)
    anchored, report = _try_anchor(model, sizes, names, data.fields[0])
    rows = module_rows(model, gaps, slopes, report)
    followed = _try_extend(trial, restriction.target, names, coarse)
    if followed is not None:
        add_call_rows(rows, followed, report, coarse, fine)
    floor = ROUNDING.get(fine.dtype, 1e-2)
    for row in rows:
        row.floor = floor
    ways: dict[str, nn.Module] = {AS_TRAINED: trial}
    smooth, traits = data.between(names)
    smoothed = None
    if anchored is not None:
        ways[ANCHORED] = trial_copy(anchored)
        # One more experiment: the same input without what lies between the coarser grid's samples.
        smoothed = totals(ways[ANCHORED], [coarse, smooth], names)[1]
        if interventions:
            probe = _probe(data.fields[0], sizes, names)
            intervene(rows, model, anchored, report, probe, data.fields[data.compared])
    extended = _try_extend(trial, sizes, names, data.fields[0], verify=True)
    if extended is not None:
        ways[EXTENDED] = extended
    moving = {way: m for way, m in ways.items() if way != EXTENDED or extending_evaluates(rows)}
    by_way = {way: totals(m, data.fields, names) for way, m in moving.items()}
    if data.channels_last:
        rows, report = under_own_names(rows, report)
    return Audit(
        resolutions=data.labels,
        spacings=[spacing(g, names) for g in data.grids],
        rows=rows,
        totals=by_way,
        errors=errors(ways, data, names, restrict) if data.targets else {},
        left=report.left,
        floor=floor,
        grid=check,
        traits=traits,
        compared=data.compared,
        placements=names,
        smoothed=smoothed,
    )


def _try_anchor(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor
) -> tuple[nn.Module | None, AnchorReport]:
    """The anchored model, None if nothing in it can be anchored, and the report."""
    report = AnchorReport("")
    try:
        anchored = anchored_model(deep_copy(model, share=True), _probe(x, sizes, names), report)
    except CannotFollowError as error:
        report.add("", "calls", "left", str(error).partition(";")[0])
        return None, report
    return (anchored if report.changed else None), report


def _try_extend(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], x: Tensor, verify: bool = False
) -> Extended | None:
    """The extended model; None where its calls cannot be followed.

    With ``verify`` also None where it does not agree with the model at the training nodes.
    """
    extended = Extended(model, sizes, names, "first", "cubic")
    try:
        plan = extended.plan((x,), {})
        if verify:
            gap_at_training_nodes(extended, plan, _probe(x, sizes, names))
    except CannotFollowError:
        return None
    return extended


def _probe(x: Tensor, sizes: Shape, names: tuple[str, ...]) -> Probe:
    return Probe(((x,), {}), "first", sizes, names, "the training input")
