"""What a single module or call does to a change of grid: restrict then apply, against apply then restrict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite, prod, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.drift import relative
from quadnorm.adapt.operations.fourier import ForwardTransform, InverseTransform, Transform
from quadnorm.adapt.operations.padding import Padding
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.listing import action_and_reason
from quadnorm.adapt.planning.steer import PADDING, Summing, with_summed_padding
from quadnorm.adapt.trees import tensors, with_tensors
from quadnorm.adapt.watching.calls import Call, CallPlan, Step, WeightedStep
from quadnorm.adapt.watching.forms import Forms
from quadnorm.adapt.watching.nodes import relative_gap
from quadnorm.adapt.watching.patches import unhidden
from quadnorm.adapt.watching.watch import leaving_no_trace
from quadnorm.carry.grids import carry
from quadnorm.carry.waves import resized
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Restriction:
    """R from one grid to another, for everything that a module may be given."""

    source: Shape
    target: Shape
    placements: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        """Tensors with the source grid's axes, flattened or not; shapes; and nested tuples, lists and dicts of them."""
        if isinstance(value, Tensor):
            return self.field(value)
        if isinstance(value, (tuple, list)):
            if all(isinstance(n, int) for n in value) and tuple(value) == self.source:
                return type(value)(self.target) if isinstance(value, list) else self.target
            return type(value)(self(v) for v in value) if type(value) in (tuple, list) else value
        return {k: self(v) for k, v in value.items()} if type(value) is dict else value

    def field(self, t: Tensor) -> Tensor:
        """One tensor; unchanged if the source grid is not in its shape."""
        d, last = len(self.source), tuple(range(-len(self.source), 0))
        if not t.is_floating_point():
            return t
        if t.ndim > d and tuple(t.shape[-d:]) == self.source:
            return carry(t, self.target, self.placements)
        if t.ndim > d + 1 and tuple(t.shape[1 : 1 + d]) == self.source:
            dims = tuple(range(1, 1 + d))
            return carry(t.movedim(dims, last), self.target, self.placements).movedim(last, dims)
        if d > 1 and prod(self.source) in t.shape:
            axis = t.ndim - 1 - list(t.shape[::-1]).index(prod(self.source))
            grid = t.movedim(axis, -1)
            grid = grid.reshape(*grid.shape[:-1], *self.source)
            return carry(grid, self.target, self.placements).flatten(-d).movedim(-1, axis)
        return t


@dataclass
class Gaps:
    """Relative differences by module name: ``introduced`` by itself, ``cumulative`` against a reference run's."""

    introduced: dict[str, float] = field(default_factory=dict)
    cumulative: dict[str, float] = field(default_factory=dict)


def module_gaps(model: nn.Module, x: Any, restriction: Restriction, coarse: Any = None) -> Gaps:
    """Run the model on x and compare each module's output with that for its restricted input.

    A module that is called several times counts with its worst call; of what it returns, the first tensor. With
    ``coarse``, the input on the coarser grid, also with its first output in the model's run there.
    """
    gaps, busy, reference = Gaps(), False, dict[str, Tensor]()

    def keep(name: str, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        reference.setdefault(name, unhidden(output))

    def compare(name: str, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        nonlocal busy
        if busy:
            return
        restricted = unhidden(restriction.field(output))
        if name in reference and reference[name].shape == restricted.shape:
            gaps.cumulative.setdefault(name, relative(restricted, reference[name]))
        busy = True  # the module's parts run again too
        try:
            again = _on_restricted(module, args, kwargs, restriction)
        finally:
            busy = False
        if again is not None and again.shape == restricted.shape:
            gaps.introduced[name] = max(gaps.introduced.get(name, 0.0), relative(again, restricted))

    if coarse is not None:
        with _hooked(model, keep):
            model(coarse)
    with _hooked(model, compare):
        model(x)
    return gaps


def _on_restricted(module: nn.Module, args: Any, kwargs: Any, restriction: Restriction) -> Tensor | None:
    """What a module gives for restricted arguments; None if these are the same, or it cannot run on them alone."""
    inputs, options = restriction(args), restriction(kwargs)
    pairs = zip((*args, *kwargs.values()), (*inputs, *options.values()), strict=True)
    if not any(isinstance(a, Tensor) and a is not b for a, b in pairs):
        return None
    try:
        again = next(iter(tensors(module.forward(*inputs, **options))), None)
        return None if again is None else unhidden(again)
    except Exception:  # the module is anybody's
        return None


@contextmanager
def _hooked(model: nn.Module, leave: Any) -> Iterator[None]:
    """Call ``leave(name, module, args, kwargs, output)`` for each module that returns real numbers."""
    names = {m: n for n, m in model.named_modules()}

    def hook(module: nn.Module, args: Any, kwargs: Any, returned: Any) -> None:
        output = next(iter(tensors(returned)), None)
        if output is not None and output.is_floating_point():
            leave(names[module], module, args, kwargs, output)

    modules = (m for m in names if not isinstance(m, torch.jit.ScriptModule))
    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in modules]
    try:
        with torch.no_grad():
            yield
    finally:
        for h in handles:
            h.remove()


class _CallComparison(Summing):
    """A run on a finer grid in which every call that mixes samples is made once more on the training grid's samples.

    Padding keeps its length in space here: calls on padded samples are not to answer for what padding does.
    """

    def __init__(self, plan: CallPlan, shape: Shape) -> None:
        super().__init__(plan, shape, only=frozenset({PADDING}))
        self.gaps: dict[tuple[str, str], float] = {}

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        result = super().steer(call, func, args, kwargs)
        step = WeightedStep(call, func, args, kwargs, self.nodes, result=result)
        operation = call.operation
        if isinstance(operation, Padding) and operation.sums(step):
            self._note(call, self._change_of_share(call))
        elif call.axes and action_and_reason(step) is not None and not (operation and operation.only_pairs(step)):
            # Some calls cannot be made on the other grid alone.
            with suppress(RuntimeError, ValueError, TypeError, IndexError, KeyError):
                self._note(call, self._gap(step))
        return result

    def _note(self, call: Call, gap: float) -> None:
        key = (call.module, call.name.removeprefix("quadnorm."))
        if isfinite(gap):
            self.gaps[key] = max(self.gaps.get(key, 0.0), gap)

    def _change_of_share(self, call: Call) -> float:
        """What padding by as many samples as in training does to the mean of a field that is zero there."""
        share = 1.0
        for before, after in zip(call.argument_forms[0], call.result_forms[0], strict=True):
            for k, e0, e1 in zip(before.axes, before.extra, after.extra, strict=True):
                n0, n = self.nodes.native[k], self.nodes.shape[k]
                share *= ((n + e1) / (n + e0)) / ((n0 + e1) / (n0 + e0))
        return abs(1 / share - 1)

    def _gap(self, step: Step) -> float:
        """How far the call on the training grid's samples is from its own result there; infinite if shapes differ."""
        call = step.call
        given = zip(tensors((step.args, step.kwargs)), call.argument_forms, call.argument_shapes, strict=True)
        native_given = iter([self._native(t, forms, step, shape) for t, forms, shape in given])
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


def call_gaps(model: nn.Module, plan: CallPlan, native: Tensor, x: Tensor) -> dict[tuple[str, str], float]:
    """By (module, function): the largest relative gap that its calls introduce between x's grid and the training grid.

    x and ``native``, the same on the training grid, have the shape (B, C, *spatial).
    """
    plan = with_summed_padding(plan, model, ((native,), {}), frozenset())
    comparison = _CallComparison(plan, tuple(x.shape[2:]))
    with leaving_no_trace(model):
        run_under(model, comparison, (x,), {})
    return comparison.gaps
