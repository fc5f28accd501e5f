"""What a single call does to a change of grid: restrict then call, against call then restrict."""

from __future__ import annotations

from math import isfinite, prod, sqrt
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.calls import Call, CallPlan, Step
from quadnorm.adapt.follow import Observed, run_under
from quadnorm.adapt.forms import Forms
from quadnorm.adapt.listing import action_and_reason
from quadnorm.adapt.nodes import relative_gap
from quadnorm.adapt.operations.fourier import ForwardTransform, InverseTransform, Transform, resized
from quadnorm.adapt.patches import unhidden
from quadnorm.adapt.trees import tensors, with_tensors
from quadnorm.adapt.watch import leaving_no_trace
from quadnorm.measures.base import Shape


class _CallComparison(Observed):
    """A run on a finer grid in which every call that mixes samples is made once more on the training grid's samples."""

    def __init__(self, plan: CallPlan, shape: Shape) -> None:
        super().__init__(plan, plan.nodes(shape))
        self.gaps: dict[tuple[str, str], float] = {}

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        step = Step(call, func, args, kwargs, self.nodes, result=result)
        if not call.axes or action_and_reason(step) is None or _only_pairs(step):
            return
        try:
            gap = self._gap(step)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError):
            return  # it cannot be made on the other grid alone
        if isfinite(gap):
            key = (call.module, call.name.removeprefix("quadnorm."))
            self.gaps[key] = max(self.gaps.get(key, 0.0), gap)

    def _gap(self, step: Step) -> float:
        """How far the call on the training grid's samples is from its own result there; infinite if shapes differ."""
        call = step.call
        given = tensors((step.args, step.kwargs))
        native_given = iter(
            [
                self._native(t, forms, step, shape)
                for t, forms, shape in zip(given, call.argument_forms, call.argument_shapes, strict=True)
            ]
        )
        args, kwargs = with_tensors(call.args, native_given), with_tensors(call.kwargs, native_given)
        native = [unhidden(t) for t in tensors(step.func(*args, **kwargs))]
        results = zip(tensors(step.result), call.result_forms, native, strict=True)
        coarse = [
            unhidden(self._native(t, forms, step, tuple(n.shape[n.ndim - t.ndim :]), result=True))
            for t, forms, n in results
        ]
        return relative_gap(coarse, native)

    def _native(self, t: Tensor, forms: Forms, step: Step, shape: Shape, result: bool = False) -> Tensor:
        """A tensor on the training grid, where it has ``shape``: samples restricted, waves cut off and scaled."""
        transform = step.call.operation
        spectrum: list[int] = []
        forward = isinstance(transform, ForwardTransform) and result
        if forward or (isinstance(transform, InverseTransform) and not result and t.is_complex()):
            assert isinstance(transform, Transform)
            spectrum = transform.dims(step)
            t = self._spectrum(t, step, transform)
        for dim, f in enumerate(forms):
            if dim in spectrum:
                continue
            if f.on_grid and t.shape[dim] == self.nodes.size(f):
                t = self.nodes.restrict(t, dim, f)
            elif len(f.axes) == 1 and t.shape[dim] != shape[dim] and not t.is_complex():
                # A grid of its own, such as every second sample: its nodes are taken to be of the same kind.
                t = self.nodes.on_own_grid(t, dim, f.axes[0], shape[dim])
        return t

    def _spectrum(self, t: Tensor, step: Step, transform: Transform) -> Tensor:
        """The waves that the training grid has of a spectrum, scaled as by a transform of its samples."""
        dims = transform.dims(step)
        old, new = [], []
        forms = step.call.result_forms[0] if transform.inverse else step.call.argument_forms[0]
        for at, d in enumerate(dims):
            f = forms[d]
            if not f.on_grid:
                continue
            n0, n = f.size(self.nodes.native), self.nodes.size(f)
            t = resized(t, d, n0, transform.is_half(at, dims))
            old.append(n0)
            new.append(n)
        power = {None: 1.0, "backward": 1.0, "ortho": 0.5, "forward": 0.0}[step.arguments.get("norm")]
        return t * float(sqrt(prod(old) / max(prod(new), 1)) ** (2 * power))


def _only_pairs(step: Step) -> bool:
    return step.call.operation is not None and step.call.operation.only_pairs(step)


def call_gaps(model: nn.Module, plan: CallPlan, x: Tensor) -> dict[tuple[str, str], float]:
    """By (module, function): the largest relative gap that its calls introduce between x's grid and the training grid.

    x has the shape (B, C, *spatial).
    """
    comparison = _CallComparison(plan, tuple(x.shape[2:]))
    with leaving_no_trace(model):
        run_under(model, comparison, (x,), {})
    return comparison.gaps
