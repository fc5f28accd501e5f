"""What a single call does to a change of grid: restrict then call, against call then restrict."""

from __future__ import annotations

from math import isfinite, prod, sqrt
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.calls.following.aligned import Aligned, run_under
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.functions.products import PRODUCTS
from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.grids.gaps import relative_gap
from quadnorm.adapt.calls.planning.plan import CallPlan
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.calls.watching.quiet import only_looking
from quadnorm.adapt.calls.watching.transforms import unhidden
from quadnorm.adapt.calls.watching.watch import TENSOR, counted
from quadnorm.adapt.extending import waves
from quadnorm.adapt.extending.listing import what_becomes
from quadnorm.adapt.extending.products import sums_over_samples
from quadnorm.measures.base import Shape


class _Compare(Aligned):
    """A run on a finer grid in which every call that mixes samples is made once more on the training grid's samples."""

    def __init__(self, plan: CallPlan, shape: Shape) -> None:
        super().__init__(plan, plan.nodes(shape))
        self.gaps: dict[tuple[str, str], float] = {}

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if not counted(func, result):
            return result
        call = self.next_call(name)
        step = Step(call, func, args, kwargs, self.nodes, result=result)
        pairs = name in PRODUCTS and not sums_over_samples(step)  # scores: no sum over samples is taken yet
        if call.over and what_becomes(step) is not None and not pairs:
            try:
                gap = self._gap(step)
            except (RuntimeError, ValueError, TypeError, IndexError, KeyError):
                return result  # it cannot be made on the other grid alone
            if gap is not None:
                key = (call.where, name.removeprefix("quadnorm."))
                self.gaps[key] = max(self.gaps.get(key, 0.0), gap)
        return result

    def _gap(self, step: Step) -> float | None:
        """How far the call on the training grid's samples is from its own result there; None if that is not told by
        the shapes."""
        call = step.call
        given = iter(
            self._native(t, f, step, shape)
            for t, f, shape in zip(tensors((step.args, step.kwargs)), call.given, call.shapes, strict=True)
        )
        native = [unhidden(t) for t in tensors(step.func(*_filled(call.args, given), **_filled(call.kwargs, given)))]
        results = zip(tensors(step.result), call.returned, strict=True)
        coarse = [
            unhidden(self._native(t, f, step, tuple(n.shape[n.ndim - t.ndim :]), result=True))
            for (t, f), n in zip(results, native, strict=True)
        ]
        gap = relative_gap(coarse, native)
        return gap if isfinite(gap) else None

    def _native(self, t: Tensor, forms: Forms, step: Step, shape: Shape, result: bool = False) -> Tensor:
        """A tensor on the training grid, where it has ``shape``: samples restricted, waves cut off and scaled."""
        forward = step.call.name in waves.FORWARD.split()
        inverse = step.call.name in waves.INVERSE.split()
        spectrum: list[int] = []
        if (forward and result) or (inverse and not result and t.is_complex()):
            spectrum = waves.transformed(step)
            t = self._spectrum(t, step, inverse)
        for dim, f in enumerate(forms):
            if dim in spectrum:
                continue
            if f.on_grid and t.shape[dim] == self.nodes.size(f):
                t = self.nodes.restrict(t, dim, f)
            elif len(f.axes) == 1 and t.shape[dim] != shape[dim] and not t.is_complex():
                # A grid of its own, such as every second sample: its nodes are taken to be of the same kind.
                t = self.nodes.on_own_grid(t, dim, f.axes[0], shape[dim])
        return t

    def _spectrum(self, t: Tensor, step: Step, inverse: bool) -> Tensor:
        dims = waves.transformed(step)
        half = step.call.name.startswith("ir" if inverse else "r")
        old, new = [], []
        forms = step.call.returned[0] if inverse else step.call.given[0]
        for at, d in enumerate(dims):
            f, last = forms[d], half and at == len(dims) - 1
            if not f.on_grid:
                continue
            n0, n = f.size(self.nodes.native), self.nodes.size(f)
            t = waves.resized(t, d, n0 // 2 + 1 if last else n0, last)
            old.append(n0)
            new.append(n)
        power = {None: 1.0, "backward": 1.0, "ortho": 0.5, "forward": 0.0}[step.given.get("norm")]
        return t * float(sqrt(prod(old) / max(prod(new), 1)) ** (2 * power))


def _filled(value: Any, given: Any) -> Any:
    """Arguments of the native run, whose tensors were left out, with tensors in their places."""
    if value is TENSOR:
        return next(given)
    if isinstance(value, tuple):
        return tuple(_filled(v, given) for v in value)
    if isinstance(value, dict):
        return {k: _filled(v, given) for k, v in value.items()}
    return value


def call_gaps(
    model: nn.Module, plan: CallPlan, args: Any, kwargs: Any, shape: Shape, opaque: frozenset[str]
) -> dict[tuple[str, str], float]:
    """By (module, function): the largest relative gap that its calls introduce between ``shape`` and the training
    grid."""
    compare = _Compare(plan, shape)
    with only_looking(model):
        run_under(model, compare, args, kwargs, opaque)
    return compare.gaps
