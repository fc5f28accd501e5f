"""Constant fields among the arguments of calls: coordinates, tables, what was computed out of sight."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call
from quadnorm.adapt.calls.planning.runs import with_other_data
from quadnorm.adapt.calls.trees import Arguments
from quadnorm.adapt.calls.watching.watch import Seen, WatchedRun
from quadnorm.measures.base import Shape


def all_forms(t: Tensor, hidden: Forms, given: Forms) -> Forms:
    """The forms of a constant with the axes that ``vmap`` hides, which come first; a constant need not have all."""
    return (*hidden[len(hidden) - (t.ndim - len(given)) :], *given) if t.ndim > len(given) else given


def constant_fields(seen: Seen, call: Call) -> list[tuple[Tensor, Forms]]:
    """The real constants of a call, with their forms; not those of which ``vmap`` hides an axis."""
    pairs = zip(seen.constants, call.given, strict=True)
    return [(t, f) for t, f in pairs if t is not None and t.is_floating_point() and t.ndim == len(f)]


def jumps_at_the_seam(t: Tensor, forms: Forms, placements: tuple[str, ...]) -> bool:
    """Whether a field's step from the last sample of a periodic axis to the first is unlike its other steps."""
    for dim, f in enumerate(forms):
        if f.on_grid and len(f.axes) == 1 and f.fold == 1 and not f.extra[0] and placements[f.axes[0]] == "periodic":
            x = t.movedim(dim, -1)
            inside, across = torch.diff(x).abs().max(), (x[..., 0] - x[..., -1]).abs().max()
            if bool(across > 4 * inside + 1e-12):
                return True
    return False


def is_foreign(
    t: Tensor, others: list[Tensor | None], forms: Forms, native: Shape, refined: Shape, placements: tuple[str, ...]
) -> bool:
    """Whether a constant field has other values at the same places on another grid, as coordinates j/n have."""
    if not (t.is_floating_point() or t.is_complex()) or isinstance(t, nn.Parameter):
        return False
    if not moving(forms):  # a number such as 1/n
        return any(o is not None and o.shape == t.shape and not torch.equal(o, t) for o in others)
    for k, other in enumerate(others):
        if other is None or not any(f.on_grid and k in f.axes for f in forms):
            continue
        shape = (*native[:k], refined[k], *native[k + 1 :])
        nodes = Nodes(native, shape, placements)
        back = other
        for dim, f in enumerate(forms):
            if f.on_grid and other.shape[dim] == f.size(shape):
                back = nodes.restrict(back, dim, f, wrap=False)
        if back.shape != t.shape:
            return True
        scale = t.abs().max().clamp_min(1e-30)
        if not bool((back - t).abs().max() <= 1e-4 * scale):
            return True
    return False


def from_data(
    calls: tuple[Call, ...], base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> tuple[str, ...]:
    """The modules with a field that differs from grid to grid and was computed from the input out of sight."""
    if not any(any(c.foreign) for c in calls):
        return ()
    again = with_other_data(base, model, arguments, opaque)
    if again is None:
        return ()

    def differs(t: Tensor | None, other: Tensor | None) -> bool:
        return t is not None and other is not None and (t.shape != other.shape or not torch.equal(t, other))

    modules = (
        call.where
        for call, a, b in zip(calls, base.calls, again.calls, strict=True)
        if any(f and differs(*pair) for f, *pair in zip(call.foreign, a.constants, b.constants, strict=True))
    )
    return tuple(dict.fromkeys(modules))
