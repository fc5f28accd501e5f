"""A trained model, evaluated on any grid with the sums of its training grid."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import nn

from quadnorm._suggest import unknown
from quadnorm.adapt.adapted import trial
from quadnorm.adapt.clouds.base import refuse_placement
from quadnorm.adapt.clouds.extended import ExtendedPoints, extend_points
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.models import check_module
from quadnorm.adapt.placement import placed_grid
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.listing import listing_of, report_of
from quadnorm.adapt.planning.steer import FirstDifference, NativeResults, Record
from quadnorm.adapt.report import AnchorReport, Reason, grid_text, size_text
from quadnorm.adapt.shifting import has_stencils, own_fields, settle
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.calls import CallPlan
from quadnorm.adapt.watching.forms import refuse_state
from quadnorm.adapt.watching.nodes import at_training_nodes, relative_gap
from quadnorm.adapt.watching.probes import Probe, make_probe
from quadnorm.adapt.watching.watch import (
    CannotFollowError,
    StatefulError,
    evaluating,
    first_line,
    leaving_no_trace,
    trial_output,
)
from quadnorm.carry.lines import METHODS
from quadnorm.measures.base import Shape

MOST_CARRIED = 16  # calls whose replay differs from the native run
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}  # relative, at the training nodes; half precision has 3e-2


@overload
def extend(
    model: nn.Module, resolution: int | Sequence[int], *, layout: Literal["points"], example: Any = None
) -> ExtendedPoints: ...


@overload
def extend(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    *,
    example: Any = None,
    layout: str | None = None,
    restrict: str = "cubic",
) -> Extended: ...


@trial()
def extend(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    *,
    example: Any = None,
    layout: str | None = None,
    restrict: str = "cubic",
) -> Extended | ExtendedPoints:
    r"""A trained model on any grid, with every sum over samples taken on its training grid.

    The model runs twice: on its training grid with the restricted input, where the result of every operation that mixes
    samples is kept, and on the new grid with these results in place of its own. With :math:`s` the native sums,

    .. math:: y(r) = f\bigl(x(r), r;\; s(R x)\bigr)

    at every new node r: waves are evaluated there, statistics applied, keys and values attended to; what acts on single
    samples acts on the new ones. No sum is ever taken on the new grid, so that padding, coordinates, the FFT's period
    and the placement of the samples cannot leak. At the training nodes the output is the native run's; between them the
    network is evaluated, not interpolated (Nyström's extension).

    A kernel of several samples is an operator at the training grid's spacing: on a finer grid its taps lie as far apart
    as in training. Models with strides, pools and patches run on copies of the training grid that are shifted by parts
    of a spacing (:func:`quadnorm.adapt.shifted_runs`), also models that run on one grid only. What has no formula
    between the training nodes at all (running sums, sorting) has its native result interpolated.

    The model's own code is not needed: the calls of its forward are seen as they happen (``torch.fft``, reductions,
    norms, products, attention, whatever form they are written in), and which axes are space shows in runs on grids that
    differ in one axis. ``extended.extend_report`` lists every call that mixes samples and what becomes of it.

    Args:
        model: any module; not copied: training it trains this too.
        resolution, placement: of the training grid, as for :func:`quadnorm.anchor`.
        example: an input at the training resolution: a tensor, a tuple of arguments or a dict of keyword arguments. By
            default random numbers are tried.
        layout: which axes of fields are space. ``first`` (B, C, \*spatial), ``last`` (B, \*spatial, C), ``tokens``
            (B, N, C), the samples of the grid in a row; or axes by name as in einops, ``b t c h w``, ``b (h w) c``,
            arguments divided by commas and outputs behind an arrow: ``b h w t c, b h w -> b h w c``. Names other than
            b, c and t are the grid's; where that is wrong, a bar: ``b v h w c | h w``. Call with ``grid=(n, m)`` where
            several axes share one.
            Default: what fits the example. Or ``points``: ``resolution`` is the number of points in a cloud of
            training, and the result an :class:`quadnorm.adapt.ExtendedPoints`. On any other cloud, sums are taken over
            a subset of that size, and every point is a query, in chunks of constant memory.
        restrict: how the input goes to the training grid where grids do not nest: see :func:`quadnorm.at_native`.

    Raises:
        CannotFollowError: if the model takes another path on other grids, or the extended model does not agree with
            the native run at the training nodes.

    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> everywhere = extend(model, 9, "endpoint")
    >>> x = torch.randn(2, 1, 17)
    >>> torch.allclose(everywhere(x)[..., ::2], model(x[..., ::2]), atol=1e-6)
    True
    >>> print(everywhere.extend_report)  # doctest: +ELLIPSIS
    extended from 9, endpoint samples: 1 call replayed, 0 carried
    module  kind             action    why
    ------  ---------------  --------  ---------------------------------------------
    1       call group_norm  replayed  its mean and variance are the training grid's
    note: compared with the run at the training grid on random input at 9: equal to ... at its nodes
    note: layout: first, (B, C, *spatial), guessed; the first input has shape (1, 1, 9)
    """
    check_module(model, "extend")
    if restrict not in METHODS:
        raise ValueError(unknown("way to interpolate", restrict, METHODS))
    if layout == "points":
        refuse_placement(placement)
        return extend_points(model, resolution, example)
    if any(p.is_meta for p in model.parameters()):
        raise ValueError(
            "extending follows the values of the model's calls, and a model on the meta device has none; extend it once"
            " its parameters are loaded (quadnorm.anchor takes such a model)"
        )
    sizes, names, example, _ = placed_grid(model, resolution, placement, example)
    probe = make_probe(model, sizes, names, example, layout, partial(trial_output, model))
    extended = Extended(model, sizes, names, probe.layout, restrict)
    report, gap = _settled(extended, probe)
    replayed, dilated, carried = (
        sum(e.action == action for e in report) for action in ("replayed", "dilated", "carried")
    )
    kept = f", {dilated} dilated" if dilated else ""
    what = f"{replayed} call{'s' * (replayed != 1)} replayed{kept}, {carried} carried"
    if extended.stencils == "shifted":
        runs = extended.shifted_runs(model).runs(probe.finer)
        what = f"by runs on shifted training grids, {runs} of them for {size_text(probe.finer)}"
    report.title = f"extended from {grid_text(sizes, names)}: {what}"
    alike = f"equal to {gap:.1e} at its nodes"
    report.notes.append(f"compared with the run at the training grid on {probe.source}: {alike}")
    if probe.guessed:
        report.notes.append(probe.layout_note)
    extended.extend_report, extended.example = report, probe.arguments
    return extended


def _settled(extended: Extended, probe: Probe) -> tuple[AnchorReport, float]:
    """Decide what becomes of stencils and patches: the report, and the gap to the native run at its nodes.

    Stencils without strides are dilated. For strides, pools and patches, and for models that run on one grid only, the
    model runs on shifted training grids. Where neither works, the stencils' native results are interpolated.
    """
    model = extended.model
    try:
        plan = _carrying_what_differs(extended, probe)
    except StatefulError:
        raise
    except CannotFollowError as error:
        runs_elsewhere = error.__cause__ is None  # else it fails on other grids, as a table of positions makes it
        if runs_elsewhere and not has_stencils(model, probe):
            raise
        return _by_shifted_runs(extended, probe, AnchorReport(""), error)
    listing = listing_of(model, plan, *probe.arguments)
    report = report_of(listing)
    for at in sorted(extended.carried):
        call = plan.calls[at]
        kept = [e for e in report if (e.name, e.call) != (call.module, call.name)]
        report = AnchorReport("", kept)
        report.add(call.module, f"call {call.name}", "carried", Reason.DIFFERS.text(), call.name)
    if listing.stencils and all(listing.stencils):
        extended.stencils = "dilated"
        try:
            gap = gap_at_training_nodes(extended, plan, probe)
        except CannotFollowError:
            extended.stencils = "carried"
        else:
            words = Reason.INTERPOLATED.value, Reason.DILATED.value
            dilated = [
                replace(e, action="dilated", why=e.why.replace(*words)) if e.action == "carried" else e for e in report
            ]
            return replace(report, entries=dilated), gap
    elif listing.stencils:
        with suppress(CannotFollowError):
            return _by_shifted_runs(extended, probe, report, CannotFollowError())
    return report, gap_at_training_nodes(extended, plan, probe)


def _carrying_what_differs(extended: Extended, probe: Probe) -> CallPlan:
    """The plan of the extended model, such that it gives the native run's values at the training nodes.

    A call whose replay differs from the native run there gets its native result, interpolated, and the rest goes on.
    """
    for _ in range(MOST_CARRIED):
        plan: CallPlan = extended.plan(*probe.arguments)
        try:
            gap_at_training_nodes(extended, plan, probe)
        except CannotFollowError as error:
            differing = None if error.__cause__ is not None else _first_difference(extended, plan, probe)
            if differing is None or differing in extended.carried:
                refuse_state(extended.model, probe.at, probe.resolution, probe.placements)
                raise
            extended.carry_also(differing)
        else:
            return plan
    raise CannotFollowError(
        f"more than {MOST_CARRIED} calls of the model differ from its run at the training grid where they are "
        "evaluated at its nodes; quadnorm.at_native serves any model"
    )


def _first_difference(extended: Extended, plan: CallPlan, probe: Probe) -> int | None:
    """The first call whose replay is not the native run's at the training nodes."""
    model, shape = extended.model, probe.finer
    (args, kwargs), native = probe.at(shape), probe.arguments
    dtype = next(t.dtype for t in tensors(native) if t.is_floating_point())
    record, results = Record(plan), NativeResults(plan)
    with evaluating(model), leaving_no_trace(model):
        run_under(model, record, *native)
        run_under(model, results, *native)
        check = FirstDifference(plan, plan.nodes(shape), record.tape, results.results, TOLERANCE.get(dtype, 3e-2))
        with suppress(Exception):  # a later call may fail on what differs
            run_under(model, check, args, kwargs)
    return check.found


def _by_shifted_runs(
    extended: Extended, probe: Probe, report: AnchorReport, error: CannotFollowError
) -> tuple[AnchorReport, float]:
    """Let the model run on shifted training grids; ``error`` says why it could not be followed otherwise."""
    try:
        with evaluating(extended.model):
            extended.stencils, extended.moves_fields = "shifted", bool(own_fields(extended.model, probe))
            gap = settle(extended, probe)
    except Exception as failed:
        extended.stencils = "carried"
        raise error from failed
    why = Reason.SHIFTED_RUNS.value
    shifted = [replace(e, action="shifted", why=f"{e.why.partition(':')[0]}: {why}") for e in report]
    return AnchorReport("", shifted), gap


def _run(extended: Extended, args: Any, kwargs: Any, shape: Shape) -> Any:
    try:
        return extended(*args, **kwargs)
    except CannotFollowError:
        raise
    except Exception as error:  # whatever the model's own code makes of another grid
        why = first_line(error)
        raise CannotFollowError(
            f"the extended model does not run on {size_text(shape)} ({why}); quadnorm.at_native serves any model"
        ) from error


def gap_at_training_nodes(extended: Extended, plan: CallPlan, probe: Probe) -> float:
    """The gap to the native run at its nodes, from a run on a grid that contains them; raises if it is large."""
    shape = probe.finer
    model = extended.model
    with evaluating(model), leaving_no_trace(model):
        native = model(*probe.arguments[0], **probe.arguments[1])
        args, kwargs = probe.at(shape)
        fine = _run(extended, args, {**kwargs, **probe.grid_option(shape)}, shape)
    if not tensors(native):
        raise CannotFollowError(f"the model returned no tensor to compare, got {type(native).__name__}")
    gap = relative_gap(at_training_nodes(fine, plan.outputs, plan.nodes(shape)), tensors(native))
    dtype = next((t.dtype for t in tensors(native)), torch.float32)
    if not gap <= TOLERANCE.get(dtype, 3e-2):
        raise CannotFollowError(
            f"the extended model differs from the run at the training grid by {gap:.1e} at its nodes, on "
            f"{probe.source}: it does something with its samples that could not be followed; "
            "quadnorm.at_native serves any model"
        )
    return gap
