"""A plan, made from watched runs of the model on its training grid and around it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._tensors import is_plain
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.functions.names import ARITHMETIC
from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.planning.constants import (
    all_forms,
    any_jumps_at_a_seam,
    any_learned,
    is_foreign,
    modules_with_fields_from_data,
)
from quadnorm.adapt.calls.planning.counts import counts_of, each_count, without_data
from quadnorm.adapt.calls.planning.origins import origins_of
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.planning.runs import GridRuns, check_axes, run_on_grids, with_other_data
from quadnorm.adapt.calls.trees import Arguments, tensors
from quadnorm.adapt.calls.watching.watch import WatchedCall, WatchedRun
from quadnorm.measures.base import Shape


def make_plan(
    model: nn.Module,
    at: Callable[[Shape], Arguments],
    native: Shape,
    placements: tuple[str, ...],
    opaque: frozenset[str] = frozenset(),
) -> CallPlan:
    """Run the model on its training grid and on refinements of one axis each; ``at`` gives the arguments on a grid.

    Modules named in ``opaque`` count as one call each, whatever they do inside.
    """
    _refuse_scripted(model)
    runs = run_on_grids(model, at, native, placements, opaque)
    calls = tuple(
        _planned(call, [other.calls[k] for other in runs.others], runs) for k, call in enumerate(runs.base.calls)
    )
    if any(count.powers is None for call in calls for count in each_count(call.counts)):
        calls = _without_data(calls, runs.base, model, at(native), opaque)
    outputs = runs.output_forms()
    check_axes(runs, outputs)
    return CallPlan(
        native,
        placements,
        calls,
        outputs,
        origins_of(calls),
        jumps=any_jumps_at_a_seam(calls, runs.base, placements),
        learned=any_learned(calls, runs.base),
        unseen=modules_with_fields_from_data(calls, runs.base, model, at(native), opaque),
    )


def input_kind(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What decides which calls a model makes, whatever the grid: one plan serves all inputs of a kind."""
    return (
        model.training,
        is_plain(),  # under a mode our operators take other ways
        # With the batch, for models that put it on one axis with the samples.
        tuple((t.ndim, t.shape[0] if t.ndim > 2 else None, t.dtype, t.device) for t in tensors((args, kwargs))),
        tuple(sorted(kwargs)),
    )


def _refuse_scripted(model: nn.Module) -> None:
    scripted = [name for name, m in model.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        raise CannotFollowError(
            f"{scripted[0] or 'the model'} is scripted, and TorchScript shows nothing of what it calls; script the "
            "model afterwards, or use quadnorm.at_native"
        )


def _planned(call: WatchedCall, others: Sequence[WatchedCall], runs: GridRuns) -> Call:
    """A call of the training grid's run, with what its counterparts on the other grids show."""
    given = _forms(call.name, call.argument_shapes, [o.argument_shapes for o in others], runs)
    returned = _forms(call.name, call.result_shapes, [o.result_shapes for o in others], runs)
    (hidden,) = _forms(call.name, (call.hidden_sizes,), [(o.hidden_sizes,) for o in others], runs)
    foreign = _foreign(call, others, runs, given, hidden)
    counts = None
    if call.name in ARITHMETIC:
        moved = [(o.args, o.kwargs) for o in others]
        counts = counts_of((call.args, call.kwargs), moved, runs.native, runs.refined)
    return Call(
        name=call.name,
        module=call.module,
        inplace=call.inplace,
        live=call.live,
        argument_shapes=call.argument_shapes,
        argument_forms=given,
        result_forms=returned,
        foreign=tuple(t is not None for t in foreign),
        constants=foreign,
        args=call.args,
        kwargs=call.kwargs,
        counts=counts,
        hidden_axes=moving(hidden),
    )


def _forms(name: str, shapes: tuple[Shape, ...], moved: list[tuple[Shape, ...]], runs: GridRuns) -> tuple[Forms, ...]:
    """How the sizes of several tensors move, from their shapes on the training grid and on the others."""
    forms = []
    for slot, shape in enumerate(shapes):
        others = [other[slot] for other in moved]
        if any(len(other) != len(shape) for other in others):
            raise CannotFollowError(f"{name} returns tensors of another rank on another grid")
        forms.append(runs.forms(shape, others))
    return tuple(forms)


def _foreign(
    call: WatchedCall, others: Sequence[WatchedCall], runs: GridRuns, given: tuple[Forms, ...], hidden: Forms
) -> tuple[Tensor | None, ...]:
    """For each argument its value, if it is a constant field that is not the same function on all grids; else None."""
    foreign: list[Tensor | None] = []
    for slot, t in enumerate(call.constants):
        moved = [o.constants[slot] for o in others]
        if t is None or not is_foreign(t, moved, all_forms(t, hidden, given[slot]), runs):
            foreign.append(None)
            continue
        foreign.append(t.detach())
        if t.ndim > len(given[slot]):
            raise CannotFollowError(
                f"{call.name} in {call.module or 'the model'} is given, through vmap, a field that is not the same "
                "function on all grids, such as coordinates j/n; quadnorm.at_native runs the model at its training grid"
            )
    return tuple(foreign)


def _without_data(
    calls: tuple[Call, ...], base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> tuple[Call, ...]:
    """The calls without numbers that were taken for counts of samples but come from the data, such as a maximum."""
    again = with_other_data(base, model, arguments, opaque)
    if again is None:
        return calls
    return tuple(
        replace(call, counts=without_data(call.counts, (a.args, a.kwargs), (b.args, b.kwargs)))
        for call, a, b in zip(calls, base.calls, again.calls, strict=True)
    )
