"""A plan made from watched runs: one on the training grid, and one more for each of its axes, refined."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._tensors import is_plain
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.functions.names import ARITHMETIC
from quadnorm.adapt.calls.grids.forms import Forms, PaddedLength, form, moving
from quadnorm.adapt.calls.planning.constants import all_forms, constant_fields, from_data, is_foreign, jumps_at_the_seam
from quadnorm.adapt.calls.planning.counts import counts, each_count, without_data
from quadnorm.adapt.calls.planning.origins import origin_after
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.planning.runs import (
    check_axes,
    check_order,
    padded_axes,
    refined_runs,
    run,
    with_other_data,
)
from quadnorm.adapt.calls.trees import Arguments, tensors
from quadnorm.adapt.calls.watching.watch import Seen, WatchedRun
from quadnorm.measures.base import Shape


def make_plan(
    model: nn.Module,
    at: Callable[[Shape], Arguments],
    native: Shape,
    placements: tuple[str, ...],
    opaque: frozenset[str] = frozenset(),
) -> tuple[CallPlan, WatchedRun]:
    """Run the model on its training grid and on refinements of one axis each; ``at`` gives the arguments on a grid.

    Modules named in ``opaque`` count as one call each, whatever they do inside.
    """
    scripted = [name for name, m in model.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        raise CannotFollowError(
            f"{scripted[0] or 'the model'} is scripted, and TorchScript shows nothing of what it calls; script the "
            "model afterwards, or use quadnorm.at_native"
        )
    base = run(model, at(native), opaque)
    refined, others = refined_runs(model, at, native, placements, opaque)
    check_order(base, others)
    padded = padded_axes(base, others, native, refined)
    calls = tuple(
        _call(seen, [r.calls[k] for r in others], native, refined, placements, padded)
        for k, seen in enumerate(base.calls)
    )
    if any(count.powers is None for call in calls for count in each_count(call.counts)):
        calls = _without_data(calls, base, model, at(native), opaque)
    origins: dict[tuple[int, int], int] = {}
    for call in calls:
        for key, origin in origin_after(call, origins).items():
            origins.setdefault(key, origin)
    outputs = tuple(
        tuple(form(native, refined, n, [tuple(o)[axis] for o in moved], padded) for axis, n in enumerate(shape))
        for shape, *moved in zip(*([tuple(t.shape) for t in tensors(r.output)] for r in (base, *others)), strict=True)
    )
    check_axes(base, others, outputs, native)
    jumps = any(
        jumps_at_the_seam(t, f, placements)
        for s, c in zip(base.calls, calls, strict=True)
        for t, f in constant_fields(s, c)
    )
    learned = any(
        t is not None and t.requires_grad and foreign
        for s, c in zip(base.calls, calls, strict=True)
        for t, foreign in zip(s.constants, c.foreign, strict=True)
    )
    unseen = from_data(calls, base, model, at(native), opaque)
    return CallPlan(native, placements, calls, outputs, origins, jumps, learned, unseen), base


def input_kind(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What decides which calls a model makes, whatever the grid: one plan serves all inputs of a kind."""
    return (
        model.training,
        is_plain(),  # under a mode our operators take other ways
        # With the batch, for models that put it on one axis with the samples.
        tuple((t.ndim, t.shape[0] if t.ndim > 2 else None, t.dtype, t.device) for t in tensors((args, kwargs))),
        tuple(sorted(kwargs)),
    )


def _call(
    seen: Seen,
    others: list[Seen],
    native: Shape,
    refined: Shape,
    placements: tuple[str, ...],
    padded: list[PaddedLength],
) -> Call:
    def forms(shapes: tuple[Shape, ...], moved: list[tuple[Shape, ...]]) -> tuple[Forms, ...]:
        result = []
        for slot, shape in enumerate(shapes):
            others = [m[slot] for m in moved]
            if any(len(o) != len(shape) for o in others):
                raise CannotFollowError(f"{seen.name} returns tensors of another rank on another grid")
            result.append(
                tuple(form(native, refined, n, tuple(o[axis] for o in others), padded) for axis, n in enumerate(shape))
            )
        return tuple(result)

    given = forms(seen.given, [o.given for o in others])
    returned = forms(seen.returned, [o.returned for o in others])
    (out_of_sight,) = forms((seen.hidden,), [(o.hidden,) for o in others])

    def differs(slot: int, t: Tensor) -> bool:
        moved, axes = [o.constants[slot] for o in others], all_forms(t, out_of_sight, given[slot])
        return is_foreign(t, moved, axes, native, refined, placements)

    foreign = tuple(t is not None and differs(slot, t) for slot, t in enumerate(seen.constants))
    if any(f and t is not None and t.ndim > len(g) for t, f, g in zip(seen.constants, foreign, given, strict=True)):
        raise CannotFollowError(
            f"{seen.name} in {seen.where or 'the model'} is given, through vmap, a field that is not the same function "
            "on all grids, such as coordinates j/n; quadnorm.at_native runs the model at its training grid"
        )
    constants = tuple(t.detach() if f and t is not None else None for t, f in zip(seen.constants, foreign, strict=True))
    return Call(
        seen.name,
        seen.where,
        seen.inplace,
        seen.live,
        seen.given,
        given,
        returned,
        foreign,
        constants,
        seen.args,
        seen.kwargs,
        counts((seen.args, seen.kwargs), [(o.args, o.kwargs) for o in others], native, refined)
        if seen.name in ARITHMETIC
        else None,
        moving(out_of_sight),
    )


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
