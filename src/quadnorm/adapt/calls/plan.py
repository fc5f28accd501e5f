"""What a model does on any grid, from a run on its training grid and one more for each axis of the grid."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._tensors import is_plain
from quadnorm.adapt.calls.forms import Form, Forms, PaddedLength, form, moving
from quadnorm.adapt.calls.nodes import Nodes
from quadnorm.adapt.calls.numbers import counts, each_count, without_data
from quadnorm.adapt.calls.origins import origin_after
from quadnorm.adapt.calls.table import ARITHMETIC
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watch import Seen, WatchedRun, watched
from quadnorm.measures.base import Shape

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """One call of the forward, the same on every grid."""

    name: str
    where: str
    inplace: bool
    live: tuple[bool, ...]
    shapes: tuple[Shape, ...]  # of the tensors among its arguments, on the training grid
    given: tuple[Forms, ...]  # how these move
    returned: tuple[Forms, ...]
    foreign: tuple[bool, ...]  # whether an argument is a constant field that is not the same function on all grids
    constants: tuple[Tensor | None, ...]  # the training grid's values of these
    args: Any
    kwargs: Any
    counts: Any = None  # which of the numbers in (args, kwargs) move with the grid

    @property
    def settled(self) -> bool:
        """Whether nothing that it returns moves with the grid: its native result holds everywhere."""
        return bool(self.returned) and not any(moving(f) for f in self.returned)

    @property
    def over(self) -> frozenset[int]:
        """Grid axes of its live arguments."""
        return frozenset().union(*(moving(f) for f, a in zip(self.given, self.live, strict=True) if a))

    @property
    def lost(self) -> frozenset[int]:
        """Grid axes that its live arguments have and its results do not."""
        return self.over - frozenset().union(*(moving(f) for f in self.returned)) if self.returned else frozenset()


@dataclass(frozen=True)
class CallPlan:
    """All calls of a forward, where padding begins, and the grid they were seen on."""

    native: Shape
    placements: tuple[str, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Forms, ...] = ()  # of the tensors that the model returns
    origins: dict[tuple[int, int], int] = field(default_factory=dict)
    jumps: bool = False  # whether a constant field, such as a coordinate, jumps where a periodic axis closes

    learned: bool = False  # whether such a field is computed from parameters that are trained

    def nodes(self, shape: Shape) -> Nodes:
        """The training grid and the grid ``shape``."""
        return Nodes(self.native, shape, self.placements, self.origins)


class CannotFollowError(RuntimeError):
    """The model does not run, or not in the same way, on grids other than its training grid."""


class OutOfStepError(CannotFollowError):
    """The model makes other calls than when it was looked at."""


def refinements(placement: str, n: int) -> list[int]:
    """Sizes for the second run along an axis: one that contains the training nodes, then ones that divide as n does."""
    nested = {"endpoint": 2 * n - 1, "interior": 2 * n + 1, "cell": 3 * n}.get(placement, 2 * n)
    return list(dict.fromkeys([nested, 2 * n, n + 16]))


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
    base = _run(model, at(native), opaque)
    refined, others = _refined_runs(model, at, native, placements, opaque)
    _check_order(base, others)
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
    jumps = any(_jumps(t, f, placements) for s, c in zip(base.calls, calls, strict=True) for t, f in _fields(s, c))
    learned = any(
        t is not None and t.requires_grad and foreign
        for s, c in zip(base.calls, calls, strict=True)
        for t, foreign in zip(s.constants, c.foreign, strict=True)
    )
    return CallPlan(native, placements, calls, outputs, origins, jumps, learned), base


def input_kind(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What decides which calls a model makes, whatever the grid: one plan serves all inputs of a kind."""
    return (
        model.training,
        is_plain(),  # under a mode our operators take other ways
        # With the batch, for models that put it on one axis with the samples.
        tuple((t.ndim, t.shape[0] if t.ndim > 2 else None, t.dtype, t.device) for t in tensors((args, kwargs))),
        tuple(sorted(kwargs)),
    )


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
                runs.append(_run(model, at(shape), opaque))
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


def _run(model: nn.Module, arguments: Arguments, opaque: frozenset[str]) -> WatchedRun:
    return watched(model, *arguments, lambda value: mapped(lambda t: t.view_as(t), value), opaque)


def _check_order(base: WatchedRun, others: list[WatchedRun]) -> None:
    for run in others:
        for k, (a, b) in enumerate(zip(base.calls, run.calls, strict=False)):
            if a.name != b.name or len(a.given) != len(b.given):
                raise CannotFollowError(
                    f"the model does something else on another grid: call {k} is {a.name} in {a.where or 'the model'} "
                    f"on its training grid and {b.name} elsewhere; quadnorm.at_native runs it at its training grid"
                )
        if len(run.calls) != len(base.calls):
            raise CannotFollowError(
                f"the model makes {len(base.calls)} calls on its training grid and {len(run.calls)} on another; "
                "quadnorm.at_native runs it at its training grid"
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
    foreign = tuple(
        t is not None and _foreign(t, [o.constants[slot] for o in others], given[slot], native, refined, placements)
        for slot, t in enumerate(seen.constants)
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
    )


def _without_data(
    calls: tuple[Call, ...], base: WatchedRun, model: nn.Module, arguments: Arguments, opaque: frozenset[str]
) -> tuple[Call, ...]:
    """The calls without numbers that were taken for counts of samples but come from the data, such as a maximum."""
    args, kwargs = mapped(lambda t: 0.7 * t + 0.03 if t.is_floating_point() else t, arguments)
    try:
        again = _run(model, (args, kwargs), opaque)
    except Exception:  # not a model of such inputs: nothing is learned
        return calls
    if [c.name for c in again.calls] != [c.name for c in base.calls]:
        return calls
    return tuple(
        replace(call, counts=without_data(call.counts, (a.args, a.kwargs), (b.args, b.kwargs)))
        for call, a, b in zip(calls, base.calls, again.calls, strict=True)
    )


def _fields(seen: Seen, call: Call) -> list[tuple[Tensor, Forms]]:
    return [(t, f) for t, f in zip(seen.constants, call.given, strict=True) if t is not None and t.is_floating_point()]


def _jumps(t: Tensor, forms: Forms, placements: tuple[str, ...]) -> bool:
    """Whether a field's step from the last sample of a periodic axis to the first is unlike its other steps."""
    for dim, f in enumerate(forms):
        if f.on_grid and len(f.axes) == 1 and f.fold == 1 and not f.extra[0] and placements[f.axes[0]] == "periodic":
            x = t.movedim(dim, -1)
            inside, across = torch.diff(x).abs().max(), (x[..., 0] - x[..., -1]).abs().max()
            if bool(across > 4 * inside + 1e-12):
                return True
    return False


def _foreign(
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


def on_grid(forms: Forms, axes: frozenset[int]) -> list[tuple[int, Form]]:
    """The dimensions of a tensor that run over samples of the given grid axes."""
    return [(dim, f) for dim, f in enumerate(forms) if f.on_grid and axes & set(f.axes)]
