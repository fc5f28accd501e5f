"""The plan of a model: its calls on any grid, made from watched runs on its training grid and around it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._tensors import is_plain
from quadnorm.adapt.operations import TABLE
from quadnorm.adapt.operations.fourier import with_shifts_back
from quadnorm.adapt.trees import Arguments, tensors
from quadnorm.adapt.watching.calls import Call, CallPlan
from quadnorm.adapt.watching.counts import counts_of, each_count, without_data
from quadnorm.adapt.watching.forms import Forms, GridRuns, check_axes, moving, run_on_grids, with_other_data
from quadnorm.adapt.watching.functions import ARITHMETIC
from quadnorm.adapt.watching.nodes import Nodes
from quadnorm.adapt.watching.watch import CannotFollowError, WatchedCall, WatchedRun
from quadnorm.measures.base import Shape

Origins = dict[tuple[int, int], int]  # (grid axis, extra samples) → how many of these come first


def origins_of(calls: Sequence[Call]) -> Origins:
    """The origins of all padded axes; the first call that makes one counts."""
    origins: Origins = {}
    for call in calls:
        for key, origin in _after(call, origins).items():
            origins.setdefault(key, origin)
    return origins


def _after(call: Call, origins: Origins) -> Origins:
    """The origins in what a call returns, from those of what it is given."""
    if call.operation is None or not call.result_forms or not call.argument_forms:
        return {}
    before, after = call.argument_forms[0], call.result_forms[0]
    if len(before) != len(after):
        return {}
    result = {}
    for dim, shift in call.operation.origin_shifts(call, len(before)).items():
        a, b = before[dim], after[dim]
        if a.on_grid and b.on_grid and len(a.axes) == 1 and a.axes == b.axes and a.extra != b.extra:
            start = origins.get((a.axes[0], a.extra[0]), 0)
            result[a.axes[0], b.extra[0]] = start + shift
    return result


def all_forms(t: Tensor, hidden: Forms, given: Forms) -> Forms:
    """The forms of a constant with the axes that ``vmap`` hides, which come first; a constant need not have all."""
    return (*hidden[len(hidden) - (t.ndim - len(given)) :], *given) if t.ndim > len(given) else given


def is_foreign(t: Tensor, others: Sequence[Tensor | None], forms: Forms, runs: GridRuns) -> bool:
    """Whether a constant field has other values at the same places on another grid, as coordinates j/n have.

    ``others``: the same argument on the grids that are refined along one axis each.
    """
    if not (t.is_floating_point() or t.is_complex()) or isinstance(t, nn.Parameter):
        return False
    if not moving(forms):  # a number such as 1/n
        return any(o is not None and o.shape == t.shape and not torch.equal(o, t) for o in others)
    for k, other in enumerate(others):
        if other is None or not any(f.on_grid and k in f.axes for f in forms):
            continue
        shape = (*runs.native[:k], runs.refined[k], *runs.native[k + 1 :])
        restricted = Nodes(runs.native, shape, runs.placements).restricted(other, forms, wrap=False)
        if restricted.shape != t.shape:
            return True
        scale = t.abs().max().clamp_min(1e-30)
        if not bool((restricted - t).abs().max() <= 1e-4 * scale):
            return True
    return False


def any_learned(calls: Sequence[Call], base: WatchedRun) -> bool:
    """Whether a foreign field is computed from parameters that are trained."""
    return any(
        t is not None and t.requires_grad and foreign
        for watched, call in zip(base.calls, calls, strict=True)
        for t, foreign in zip(watched.constants, call.foreign, strict=True)
    )


def any_jumps_at_a_seam(calls: Sequence[Call], base: WatchedRun, placements: tuple[str, ...]) -> bool:
    """Whether a real constant field jumps where a periodic axis closes; not one of which ``vmap`` hides an axis."""
    return any(
        _jumps_at_a_seam(t, forms, placements)
        for watched, call in zip(base.calls, calls, strict=True)
        for t, forms in zip(watched.constants, call.argument_forms, strict=True)
        if t is not None and t.is_floating_point() and t.ndim == len(forms)
    )


def _jumps_at_a_seam(t: Tensor, forms: Forms, placements: tuple[str, ...]) -> bool:
    """Whether a field's step from the last sample of a periodic axis to the first is unlike its other steps."""
    for dim, f in enumerate(forms):
        if f.on_grid and len(f.axes) == 1 and f.fold == 1 and not f.extra[0] and placements[f.axes[0]] == "periodic":
            x = t.movedim(dim, -1)
            inside, across = torch.diff(x).abs().max(), (x[..., 0] - x[..., -1]).abs().max()
            if bool(across > 4 * inside + 1e-12):
                return True
    return False


def modules_with_fields_from_data(
    calls: tuple[Call, ...], base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> tuple[str, ...]:
    """The modules with a foreign field that was computed from the input out of sight: it differs for other data."""
    if not any(any(c.foreign) for c in calls):
        return ()
    again = with_other_data(base, model, arguments, opaque)
    if again is None:
        return ()

    def differs(t: Tensor | None, other: Tensor | None) -> bool:
        return t is not None and other is not None and (t.shape != other.shape or not torch.equal(t, other))

    modules = (
        call.module
        for call, a, b in zip(calls, base.calls, again.calls, strict=True)
        if any(f and differs(*pair) for f, *pair in zip(call.foreign, a.constants, b.constants, strict=True))
    )
    return tuple(dict.fromkeys(modules))


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
        calls = _without_numbers_from_data(calls, runs.base, model, at(native), opaque)
    calls = with_shifts_back(calls)
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
        operation=TABLE.get(call.name),
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


def _without_numbers_from_data(
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
