"""Watched runs of a model on its training grid and around it, laid side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.grids.forms import Forms, PaddedLength, form
from quadnorm.adapt.calls.grids.refinement import refinements
from quadnorm.adapt.calls.trees import Arguments, mapped, tensors
from quadnorm.adapt.calls.watching.watch import WatchedRun, watched
from quadnorm.adapt.report import size_text
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class GridRuns:
    """The same run on the training grid, and on grids that are refined along one axis each."""

    native: Shape
    refined: Shape  # samples of each axis where that axis is refined
    placements: tuple[str, ...]
    base: WatchedRun
    others: list[WatchedRun]
    padded: list[PaddedLength]

    def forms(self, shape: Shape, moved: Sequence[Shape]) -> Forms:
        """How the sizes of a tensor move, from its shape on the training grid and those on the others."""
        return tuple(
            form(self.native, self.refined, n, [other[dim] for other in moved], self.padded)
            for dim, n in enumerate(shape)
        )

    def output_forms(self) -> tuple[Forms, ...]:
        """How the sizes of the tensors move that the model returns."""
        shapes = ([tuple(t.shape) for t in tensors(run.output)] for run in (self.base, *self.others))
        return tuple(self.forms(shape, moved) for shape, *moved in zip(*shapes, strict=True))


def run_on_grids(
    model: nn.Module,
    at: Callable[[Shape], Arguments],
    native: Shape,
    placements: tuple[str, ...],
    opaque: frozenset[str],
) -> GridRuns:
    """Run the model on its training grid and around it; ``at`` gives the arguments on a grid."""
    base = watched_run(model, at(native), opaque)
    refined, others = _refined_runs(model, at, native, placements, opaque)
    _check_order(base, others)
    padded = _padded_axes(base, others, native, refined)
    return GridRuns(native, refined, placements, base, others, padded)


def _refined_runs(
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
                runs.append(watched_run(model, at(shape), opaque))
            except Exception as error:
                why = str(error).splitlines()[0] if str(error) else repr(error)
                errors.append(f"on {size_text(shape)}: {why}")
                continue
            refined.append(m)
            break
        else:
            raise CannotFollowError(
                f"the model runs on {size_text(native)} but not on other grids ({'; '.join(errors)}); "
                "quadnorm.at_native runs it at its training grid always"
            )
    return tuple(refined), runs


def watched_run(model: nn.Module, arguments: Arguments, opaque: frozenset[str]) -> WatchedRun:
    """One run, in which all tensors among the arguments are live."""
    return watched(model, *arguments, lambda value: mapped(lambda t: t.view_as(t), value), opaque)


def with_other_data(
    base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> WatchedRun | None:
    """The run once more on the training grid with other values; None if it makes other calls."""
    args, kwargs = mapped(lambda t: 0.7 * t + 0.03 if t.is_floating_point() else t, arguments)
    try:
        again = watched_run(model, (args, kwargs), opaque)
    except Exception:  # not a model of such inputs: nothing is learned
        return None
    return again if [c.name for c in again.calls] == [c.name for c in base.calls] else None


def _check_order(base: WatchedRun, others: list[WatchedRun]) -> None:
    """Refuse a model that makes other calls on another grid."""
    for other in others:
        for k, (a, b) in enumerate(zip(base.calls, other.calls, strict=False)):
            if a.name != b.name or len(a.argument_shapes) != len(b.argument_shapes):
                raise CannotFollowError(
                    f"the model does something else on another grid: call {k} is {a.name} in {a.module or 'the model'} "
                    f"on its training grid and {b.name} elsewhere; quadnorm.at_native runs it at its training grid"
                )
        if len(other.calls) != len(base.calls):
            raise CannotFollowError(
                f"the model makes {len(base.calls)} calls on its training grid and {len(other.calls)} on another; "
                "quadnorm.at_native runs it at its training grid"
            )


def check_axes(runs: GridRuns, outputs: tuple[Forms, ...]) -> None:
    """Refuse a model that reads the length of one axis for another, and so works where all are alike only."""
    native = runs.native
    d = len(native)
    for slot, (t, forms) in enumerate(zip(tensors(runs.base.output), outputs, strict=True)):
        starts = [k for k in range(t.ndim - d + 1) if tuple(t.shape[k : k + d]) == native]  # channels may be as many
        tied = [any(f.moves and f.axes != (k,) for k, f in enumerate(forms[at : at + d])) for at in starts]
        if d > 1 and tied and all(tied):
            at = starts[-1]
            shapes = " and ".join(size_text(tensors(o.output)[slot].shape[at : at + d]) for o in runs.others)
            raise CannotFollowError(
                f"the model returns {size_text(native)} samples on its training grid, but {shapes} where one "
                "axis alone is refined: it reads the length of one axis for another, and which axis is which cannot be "
                "seen; take each length from its own axis, or use quadnorm.at_native"
            )


def _padded_axes(base: WatchedRun, others: list[WatchedRun], native: Shape, refined: Shape) -> list[PaddedLength]:
    """The lengths that axes of the grid have after padding, on the training grid and refined."""
    padded: list[PaddedLength] = []
    for k, call in enumerate(base.calls):
        if call.name != "pad" or not call.live[0]:
            continue
        moved = [other.calls[k] for other in others]
        for dim, (n, m) in enumerate(zip(call.argument_shapes[0], call.result_shapes[0], strict=True)):
            before = form(native, refined, n, [c.argument_shapes[0][dim] for c in moved], padded)
            if n != m and before.on_grid and len(before.axes) == before.fold == 1:
                axis = before.axes[0]
                padded.append(PaddedLength(axis, m, moved[axis].result_shapes[0][dim]))
    return padded
