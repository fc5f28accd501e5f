"""How the sizes of tensors move with the grid, read off watched runs on grids that differ in one axis each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.models import transform_advice, trial_copy
from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import Arguments, mapped, tensors
from quadnorm.adapt.watching.watch import CannotFollowError, StatefulError, WatchedRun, trial_output, watched
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Form:
    r"""The size of one axis of a tensor as a function of the grid.

    ``axes`` are the grid axes that it moves with. Where ``exact``, the size is fold · Π (n_k + extra_k) over these
    axes: the samples themselves (fold 1, extra 0), padded samples (n + 9), tokens (n·m), batch and samples in one axis
    (B·n). ``extra`` is that of the training grid; padding by a share of the samples has another one on other grids
    (:meth:`quadnorm.adapt.watching.nodes.Nodes.extra`). Other sizes (n/2, n//2 + 1) move in another way. No axes: a
    constant.
    """

    axes: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    fold: int = 1
    exact: bool = True

    @property
    def moves(self) -> bool:
        """Whether the size depends on the grid."""
        return bool(self.axes)

    @property
    def on_grid(self) -> bool:
        """Whether the axis runs over samples at the grid's own spacing."""
        return self.exact and bool(self.axes)

    def padding(self) -> list[tuple[int, int]]:
        """(axis, samples padded to it on the training grid), where there are any."""
        return [(k, e) for k, e in zip(self.axes, self.extra, strict=True) if e > 0] if self.exact else []

    def sizes(self, grid: Shape) -> Shape:
        """Samples along each of ``axes`` on a grid with the training grid's number of padded ones."""
        return tuple(grid[k] + e for k, e in zip(self.axes, self.extra, strict=True))

    def size(self, grid: Shape) -> int:
        """The axis' size on such a grid, where ``exact``."""
        return self.fold * prod(self.sizes(grid))


@dataclass(frozen=True)
class PaddedLength:
    """The length of a padded grid axis, on the training grid and where that axis is refined."""

    axis: int
    native: int
    refined: int


def form(
    native: Shape, refined: Sequence[int], size: int, sizes: Sequence[int], padded: Sequence[PaddedLength] = ()
) -> Form:
    """The form of an axis that has ``size`` on the native grid and ``sizes[k]`` when axis k alone has ``refined[k]``.

    ``padded`` are the lengths that padding has been seen to make; without them n + 2·round(n/4) would look like any
    other size that moves.

    >>> form((33, 33), (65, 65), 33, (65, 33)), form((33, 33), (65, 65), 42, (42, 74)).extra
    (Form(axes=(0,), extra=(0,), fold=1, exact=True), (9,))
    >>> form((33, 33), (65, 65), 1089, (2145, 2145)).axes, form((33, 33), (65, 65), 17, (17, 33)).exact
    ((0, 1), False)
    >>> form((33,), (65,), 49, (97,), [PaddedLength(0, 49, 97)]).extra
    (16,)
    """
    axes = tuple(k for k, s in enumerate(sizes) if s != size)
    if not axes:
        return Form()
    if len(axes) == 1 and sizes[axes[0]] - size == refined[axes[0]] - native[axes[0]]:
        return Form(axes, (size - native[axes[0]],))
    lengths = []  # per axis: what it may be long, such that the size is a multiple of it on both grids
    for k in axes:
        known = {p.native for p in padded if p.axis == k and size * p.refined == sizes[k] * p.native}
        step, moved = refined[k] - native[k], sizes[k] - size
        plain, rest = divmod(step * size, moved)  # size ∝ n_k + e: moved / size = step / (n_k + e)
        lengths.append(sorted(known | ({plain} if not rest and plain > 0 else set()), reverse=True))
    for chosen in product(*lengths):  # the longest first: the least is left to be a batch
        fold, rest = divmod(size, prod(chosen))
        if rest == 0 and fold:
            return Form(axes, tuple(n - native[k] for n, k in zip(chosen, axes, strict=True)), fold)
    return Form(axes, (0,) * len(axes), exact=False)


Forms = tuple[Form, ...]


def moving(forms: Forms) -> frozenset[int]:
    """The grid axes that a tensor's shape moves with."""
    return frozenset(k for f in forms for k in f.axes)


def refinements(placement: str, n: int) -> list[int]:
    """Sizes for the second run along an axis: one that contains the training nodes, then ones that divide as n does."""
    nested = {"endpoint": 2 * n - 1, "interior": 2 * n + 1, "cell": 3 * n}.get(placement, 2 * n)
    return list(dict.fromkeys([nested, 2 * n, n + 16]))


def refined_grid(native: Shape, placements: tuple[str, ...]) -> Shape:
    """A grid that contains the training grid, finer along every axis.

    >>> refined_grid((9, 8), ("endpoint", "periodic"))
    (17, 16)
    """
    return tuple(refinements(p, n)[0] for n, p in zip(native, placements, strict=True))


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
    try:
        refined, others = _refined_runs(model, at, native, placements, opaque)
        _check_order(base, others)
    except CannotFollowError:
        refuse_state(model, at, native, placements)
        raise
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
                + (transform_advice(model) or "quadnorm.at_native runs it at its training grid always")
            )
    return tuple(refined), runs


def refuse_state(
    model: nn.Module, at: Callable[[Shape], Arguments], native: Shape, placements: tuple[str, ...]
) -> None:
    """Raise, and say so, if what a model gives depends on the calls before; for models that cannot be followed."""
    try:
        same = _runs_alike(trial_copy(model), trial_copy(model), at, native, placements)
    except TypeError:  # it cannot be copied
        return
    if not same:
        raise StatefulError(
            "the model is stateful: what it gives depends on the calls before, so that runs on several grids cannot be "
            "compared; reset its state at the start of each call, or use quadnorm.at_native, which runs it on one grid"
        )


def _runs_alike(
    used: nn.Module, fresh: nn.Module, at: Callable[[Shape], Arguments], native: Shape, placements: tuple[str, ...]
) -> bool:
    """Whether a copy gives the same twice on the training grid, on which the model has run, and then on a finer one
    what a fresh copy gives there."""
    finer = tuple(refinements(p, n)[0] for n, p in zip(native, placements, strict=True))
    try:
        if not _equal(trial_output(used, at(native)), trial_output(used, at(native))):
            return False
    except RuntimeError:  # what is left of a run on another grid does not fit
        return False
    try:
        expected = trial_output(fresh, at(finer))
    except Exception:  # it runs on one grid alone
        return True
    try:
        return _equal(expected, trial_output(used, at(finer)))
    except RuntimeError:
        return False


def _equal(a: Any, b: Any) -> bool:
    pairs = zip(tensors(a), tensors(b), strict=True)
    return all(s.shape == t.shape and torch.allclose(s, t, equal_nan=True) for s, t in pairs)


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
                    f"the forward pass differs from grid to grid: call {k} is {a.name} in {a.module or 'the model'} "
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
                "axis alone is refined: it reads the length of one axis for another, so that its axes cannot be told "
                "apart; take each length from its own axis, or use quadnorm.at_native"
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
