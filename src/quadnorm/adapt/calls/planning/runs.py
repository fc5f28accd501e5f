"""Watched runs of a model on its training grid and around it, and whether they can be laid side by side."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.grids.forms import Forms, PaddedLength, form
from quadnorm.adapt.calls.trees import Arguments, mapped, tensors
from quadnorm.adapt.calls.watching.watch import WatchedRun, watched
from quadnorm.measures.base import Shape


def refinements(placement: str, n: int) -> list[int]:
    """Sizes for the second run along an axis: one that contains the training nodes, then ones that divide as n does."""
    nested = {"endpoint": 2 * n - 1, "interior": 2 * n + 1, "cell": 3 * n}.get(placement, 2 * n)
    return list(dict.fromkeys([nested, 2 * n, n + 16]))


def refined_runs(
    model: nn.Module,
    at: Callable[[Shape], Arguments],
    native: Shape,
    placements: tuple[str, ...],
    opaque: frozenset[str],
) -> tuple[Shape, list[WatchedRun]]:
    """For each axis the first refinement that the model runs on, and that run; the other axes stay as they are."""
    refined: list[int] = []
    runs: list[WatchedRun] = []
    for k, n in enumerate(native):
        errors = []
        for m in refinements(placements[k], n):
            shape = (*native[:k], m, *native[k + 1 :])
            try:
                runs.append(run(model, at(shape), opaque))
            except Exception as error:
                why = str(error).splitlines()[0] if str(error) else repr(error)
                errors.append(f"on {'×'.join(map(str, shape))}: {why}")
                continue
            refined.append(m)
            break
        else:
            raise CannotFollowError(
                f"the model runs on {'×'.join(map(str, native))} but not on other grids ({'; '.join(errors)}); "
                "quadnorm.at_native runs it at its training grid always"
            )
    return tuple(refined), runs


def run(model: nn.Module, arguments: Arguments, opaque: frozenset[str]) -> WatchedRun:
    """One run, in which all tensors among the arguments are live."""
    return watched(model, *arguments, lambda value: mapped(lambda t: t.view_as(t), value), opaque)


def with_other_data(
    base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> WatchedRun | None:
    """The run once more on the training grid with other values; None if it makes other calls."""
    args, kwargs = mapped(lambda t: 0.7 * t + 0.03 if t.is_floating_point() else t, arguments)
    try:
        again = run(model, (args, kwargs), opaque)
    except Exception:  # not a model of such inputs: nothing is learned
        return None
    return again if [c.name for c in again.calls] == [c.name for c in base.calls] else None


def check_order(base: WatchedRun, others: list[WatchedRun]) -> None:
    """Refuse a model that makes other calls on another grid."""
    for other in others:
        for k, (a, b) in enumerate(zip(base.calls, other.calls, strict=False)):
            if a.name != b.name or len(a.given) != len(b.given):
                raise CannotFollowError(
                    f"the model does something else on another grid: call {k} is {a.name} in {a.where or 'the model'} "
                    f"on its training grid and {b.name} elsewhere; quadnorm.at_native runs it at its training grid"
                )
        if len(other.calls) != len(base.calls):
            raise CannotFollowError(
                f"the model makes {len(base.calls)} calls on its training grid and {len(other.calls)} on another; "
                "quadnorm.at_native runs it at its training grid"
            )


def check_axes(base: WatchedRun, others: list[WatchedRun], outputs: tuple[Forms, ...], native: Shape) -> None:
    """Refuse a model that reads the length of one axis for another, and so works where all are alike only."""
    d = len(native)
    for slot, (t, forms) in enumerate(zip(tensors(base.output), outputs, strict=True)):
        places = [k for k in range(t.ndim - d + 1) if tuple(t.shape[k : k + d]) == native]  # channels may be as many
        tied = [any(f.moves and f.axes != (k,) for k, f in enumerate(forms[at : at + d])) for at in places]
        if d > 1 and tied and all(tied):
            at = places[-1]
            shapes = " and ".join("×".join(map(str, tensors(o.output)[slot].shape[at : at + d])) for o in others)
            raise CannotFollowError(
                f"the model returns {'×'.join(map(str, native))} samples on its training grid, but {shapes} where one "
                "axis alone is refined: it reads the length of one axis for another, and which axis is which cannot be "
                "seen; take each length from its own axis, or use quadnorm.at_native"
            )


def padded_axes(base: WatchedRun, others: list[WatchedRun], native: Shape, refined: Shape) -> list[PaddedLength]:
    """The lengths that axes of the grid have after padding, on the training grid and refined."""
    padded: list[PaddedLength] = []
    for k, seen in enumerate(base.calls):
        if seen.name != "pad" or not seen.live[0]:
            continue
        runs = [r.calls[k] for r in others]
        for dim, (n, m) in enumerate(zip(seen.given[0], seen.returned[0], strict=True)):
            before = form(native, refined, n, [r.given[0][dim] for r in runs], padded)
            if n != m and before.on_grid and len(before.axes) == before.fold == 1:
                axis = before.axes[0]
                padded.append(PaddedLength(axis, m, runs[axis].returned[0][dim]))
    return padded
