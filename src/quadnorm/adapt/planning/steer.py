"""Runs that follow a plan: the native run, its replay on another grid, and the run under the training measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.operations import anchoring, extending
from quadnorm.adapt.operations.dilation import note_padding
from quadnorm.adapt.planning.follow import Observed, Steered, run_fitted, run_under, with_native_fields
from quadnorm.adapt.trees import mapped, tensors, without_tensors
from quadnorm.adapt.watching.calls import Call, CallPlan, Step, WeightedStep
from quadnorm.adapt.watching.counts import Count, exchanged, numbers_of
from quadnorm.adapt.watching.forms import moving
from quadnorm.adapt.watching.functions import ARITHMETIC
from quadnorm.adapt.watching.nodes import CountedNodes, Nodes, at_training_nodes, relative_gap
from quadnorm.adapt.watching.watch import CannotFollowError, leaving_no_trace
from quadnorm.measures.base import Shape


@dataclass
class Kept:
    """What is kept of one call of the native run."""

    result: Any = None  # where it holds on every grid
    of_operation: Any = None  # what its operation keeps
    constants: dict[int, Tensor] = field(default_factory=dict)  # constant fields among its arguments, by their slot
    numbers: Any = None  # the arguments of arithmetic, without tensors


class Record(Observed):
    """The run on the training grid: its ``tape`` has an entry for each planned call.

    Of the constant fields that a call is given, those are kept that differ from grid to grid, or with ``every`` all:
    on something that is no grid the model cannot make them.
    """

    def __init__(self, plan: CallPlan, every: bool = False) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.tape: list[Kept] = []
        self.every = every

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = tensors((args, kwargs))
        constants = {
            slot: t
            for slot, (t, foreign) in enumerate(zip(given, call.foreign, strict=False))
            if foreign or (self.every and _is_field(call, slot, t))
        }
        kept = Kept(constants=constants)
        if call.name in ARITHMETIC:
            kept.numbers = without_tensors((args, kwargs))
        if call.settled or len(self.tape) in self.plan.carried:
            kept.result = mapped(torch.clone, result)
        else:
            step = Step(call, func, args, kwargs, self.nodes, result=result)
            operation = extending(step)
            if operation is not None:
                _refuse_hidden(call)
                kept.of_operation = operation.keep(step)
        self.tape.append(kept)


def _is_field(call: Call, slot: int, t: Tensor) -> bool:
    """Whether an argument is a constant with a value for each sample."""
    return not call.live[slot] and bool(moving(call.argument_forms[slot])) and t.is_floating_point()


def _refuse_hidden(call: Call) -> None:
    """Raise where what is kept would have the training grid's length along an axis that ``vmap`` hides."""
    if call.hidden_axes:
        raise CannotFollowError(
            f"{call.name} in {call.module or 'the model'} mixes samples along some axes of the grid inside a vmap over "
            "others; write it with whole fields, or use quadnorm.anchor or quadnorm.at_native"
        )


class Replay(Steered):
    """The run on another grid with the native run's sums, which ``tape`` holds."""

    def __init__(self, plan: CallPlan, nodes: Nodes, tape: list[Kept]) -> None:
        super().__init__(plan, nodes)
        self.tape = tape
        self.differentiates = any(call.name == "autograd.grad" for call in plan.calls)

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        kept = self.tape[self.count - 1]
        if call.settled:
            own = func(*args, **kwargs) if self.differentiates else None
            return _settled_result(call, kept, args, own)
        if self.count - 1 in self.plan.carried:
            forms = iter(call.result_forms)
            return mapped(lambda t: self.nodes.carried(t, next(forms)), kept.result)
        if call.name in ARITHMETIC:
            args, kwargs = numbers_of(kept.numbers, (args, kwargs))
        step = Step(call, func, args, kwargs, self.nodes, kept.of_operation)
        if call.name == "pad":
            self.nodes.pads(call.argument_forms[0], call.result_forms[0], step.arguments["pad"])
        if kept.constants:
            step = with_native_fields(step, kept.constants)
        operation = extending(step)
        result = run_fitted(step) if operation is None else operation.replay(step)
        if call.name == "pad":
            note_padding(step, result)
        return result


class NativeResults(Observed):
    """The run on the training grid with the results of all its calls."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.results: list[Any] = []

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.results.append(mapped(torch.clone, result))


class FirstDifference(Replay):
    """A replay that finds the first call whose result on the grid is not the native one at the training nodes."""

    def __init__(self, plan: CallPlan, nodes: Nodes, tape: list[Kept], results: list[Any], tolerance: float) -> None:
        super().__init__(plan, nodes, tape)
        self.results, self.tolerance = results, tolerance
        self.found: int | None = None

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        result = super().steer(call, func, args, kwargs)
        at = self.count - 1
        if self.found is None and call.axes and not call.settled and call.returns_to_grid and not call.inplace:
            restricted = at_training_nodes(result, call.result_forms, self.nodes)
            gap = relative_gap(restricted, self.results[at])
            if gap > self.tolerance:  # shapes that differ are told by a later call
                self.found = at if gap != float("inf") else None
        return result


def _settled_result(call: Call, kept: Kept, args: Any, own: Any) -> Any:
    """The native result of a call whose result holds on every grid; ``own``: what the call gives on this one, if the
    model will ask for a gradient by the new samples."""
    result = mapped(torch.clone, kept.result)
    if own is not None:
        order = iter(tensors(own))
        result = mapped(lambda t: _connected(t, next(order)), result)
    if call.inplace and isinstance(result, Tensor) and isinstance(args[0], Tensor):
        return args[0].copy_(result)
    return result


def _connected(kept: Tensor, own: Tensor) -> Tensor:
    """The kept values, in a graph that leads to the call's own result, with derivative zero."""
    if not (own.is_floating_point() or own.is_complex()) or own.shape != kept.shape:
        return kept
    return torch.where(torch.ones((), dtype=torch.bool, device=kept.device), kept, own)


_TAG = "_quadnorm_spaced"
# What leaves a difference one: (x[2:] - x[:-2]) / (2 * dx), padded or written into place.
_KEEPS = ARITHMETIC | {"setitem", "pad", "cat", "stack", "neg", "getitem", "square", "unsqueeze", "squeeze"}


class SpacedTensors:
    """The tensors of a run that hold differences or running sums of samples.

    A model divides these by its spacing, dx = 1/(n − 1), or by n. Where a sum is anchored, n is the training grid's;
    here it must be the new grid's, because the samples are.
    """

    def __init__(self) -> None:
        self.token = object()

    def among(self, *values: Any) -> bool:
        """Whether one of them is among the tensors in nested arguments."""
        return any(getattr(t, _TAG, None) is self.token for t in tensors(values))

    def note(self, step: WeightedStep, result: Any, summed: bool) -> None:
        """Mark what a call returned, or wrote into, if it is one; ``summed``: the call was an anchored sum."""
        if not self._gives_spaced(step, summed):
            return
        written = step.args[:1] if step.call.inplace else ()
        for t in tensors((result, written)):
            setattr(t, _TAG, self.token)

    def _gives_spaced(self, step: WeightedStep, summed: bool) -> bool:
        name = step.call.name
        if name in _KEEPS and self.among(step.args, step.kwargs):
            return True
        operation = None if summed else extending(step)
        return operation is not None and operation.relates_neighbours and not _is_complex(step)


def _is_complex(step: WeightedStep) -> bool:
    return any(t.is_complex() for t in tensors((step.args, step.kwargs)))


PADDING = "padding"  # stands for all padding among the parts that are anchored


def with_summed_padding(plan: CallPlan, model: nn.Module, arguments: Any, opaque: frozenset[str]) -> CallPlan:
    """The plan with the padding that sums see, in a run with these arguments on the training grid."""
    if not plan.origins:
        return plan
    padding, (args, kwargs) = SummedPadding(plan), arguments
    with leaving_no_trace(model):
        run_under(model, padding, args, kwargs, opaque)
    return replace(plan, summed_padding=frozenset(padding.found))


class SummedPadding(Observed):
    """A run on the training grid that finds the padding which sums see: (axis, samples padded to it)."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.found: set[tuple[int, int]] = set()

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        step = WeightedStep(call, func, args, kwargs, self.plan.counted_nodes(self.plan.native))
        if anchoring(step) is not None:
            self._note(call)

    def on_module(self, name: str, given: Any, output: Any) -> None:
        self._note(self.next_call("module"))

    def _note(self, call: Call) -> None:
        for forms in call.argument_forms:
            self.found |= {pad for form in forms for pad in form.padding() if pad in self.plan.origins}


class Summing(Steered):
    """The run on a new grid: every sum that can be anchored is taken under the training grid's measure.

    ``constants``: for each call its constant fields that differ from grid to grid, by their slot, as they are in the
    native run on the same input; None: as the plan has them. ``only``: the modules whose sums are anchored, and
    :data:`PADDING` if padding keeps its length; None: all.
    """

    nodes: CountedNodes

    def __init__(
        self,
        plan: CallPlan,
        shape: Shape,
        constants: list[dict[int, Tensor]] | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        self.pads = only is None or PADDING in only
        super().__init__(plan, (plan if self.pads else replace(plan, summed_padding=frozenset())).counted_nodes(shape))
        self.constants, self.only = constants, only
        self.spaced = SpacedTensors()

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        anchored = self.only is None or call.module in self.only or (self.pads and call.name == "getitem")
        if call.name == "pad":
            anchored = self.pads
        spaced = self.spaced.among(args, kwargs)
        if anchored and call.counts is not None and not spaced:
            args, kwargs = exchanged(call.counts, (args, kwargs), self._on_training_grid)
        step = WeightedStep(call, func, args, kwargs, self.nodes)
        native = self._native_fields(call, tensors((args, kwargs)), spaced) if anchored else {}
        if native:
            step = with_native_fields(step, native)
        operation = anchoring(step) if anchored else None
        result = run_fitted(step) if operation is None else operation.anchor(step)
        self.spaced.note(step, result, summed=operation is not None)
        return result

    def _on_training_grid(self, count: Count, number: Any) -> Any:
        return count.on_training_grid(number, self.nodes.native, self.nodes.shape)

    def _native_fields(self, call: Call, given: list[Tensor], spaced: bool) -> dict[int, Tensor]:
        """The training grid's values of constants among the arguments that differ from grid to grid, by their slot."""
        constants = dict(enumerate(call.constants)) if self.constants is None else self.constants[self.count - 1]
        return {
            slot: _with_batch_of(given[slot], t)
            for slot, t in constants.items()
            if t is not None and slot < len(given) and (moving(call.argument_forms[slot]) or not spaced)
        }


def _with_batch_of(x: Tensor, t: Tensor) -> Tensor:
    """A constant field t that was seen with another batch than x has."""
    if t.ndim == x.ndim and t.ndim and t.stride(0) == 0:  # not compared: that would be a condition of a graph
        return t[:1].expand(x.shape[0], *t.shape[1:])
    return t
