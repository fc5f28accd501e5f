"""Constant fields among the arguments of calls: coordinates, tables, what was computed out of sight."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call
from quadnorm.adapt.calls.planning.runs import GridRuns, with_other_data
from quadnorm.adapt.calls.trees import Arguments
from quadnorm.adapt.calls.watching.watch import WatchedRun


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
        nodes = Nodes(runs.native, shape, runs.placements)
        restricted = other
        for dim, f in enumerate(forms):
            if f.on_grid and other.shape[dim] == f.size(shape):
                restricted = nodes.restrict(restricted, dim, f, wrap=False)
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
