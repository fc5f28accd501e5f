"""The two runs of an extended model: one that keeps what sums over samples gave, and one that uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.following.aligned import Aligned
from quadnorm.adapt.calls.following.constant_fields import run_fitted, with_native_fields
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.functions.names import ARITHMETIC
from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.counts import numbers_of
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watching.watch import counted, plain
from quadnorm.adapt.extending import carried, operators, products, statistics, waves  # noqa: F401  # their rows
from quadnorm.adapt.extending.steps import ROWS


@dataclass
class Kept:
    """What is kept of a call of the native run: a result that holds on every grid, what its row stores, constants,
    and the numbers of its arithmetic."""

    result: Any = None
    row: Any = None
    constants: dict[int, Tensor] = field(default_factory=dict)
    numbers: Any = None


def row_of(step: Step) -> StepRow | None:
    """How a call is extended; None if it acts on single samples."""
    row = ROWS.get(step.call.name)
    return row if row is not None and step.call.over and row.mixes(step) else None


class Record(Aligned):
    """The run on the training grid.

    Of the constant fields that a call is given, those are kept that differ from grid to grid, or with ``every`` all:
    on something that is no grid the model cannot make them.
    """

    def __init__(self, plan: CallPlan, every: bool = False) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.tape: list[Kept] = []
        self.every = every

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if not counted(func, result):
            return result
        call = self.next_call(name)
        given = tensors((args, kwargs))
        constants = {
            k: t
            for k, (t, foreign) in enumerate(zip(given, call.foreign, strict=False))
            if foreign or (self.every and _is_field(call, k, t))
        }
        kept = Kept(constants=constants, numbers=plain((args, kwargs)) if name in ARITHMETIC else None)
        step = Step(call, func, args, kwargs, self.nodes, result=result)
        if call.settled:
            kept.result = mapped(_copy, result)
        else:
            row = row_of(step)
            if row is not None:
                _refuse_hidden(call)
                kept.row = row.keep(step)
        self.tape.append(kept)
        self.recorded(step)
        return result

    def recorded(self, step: Step) -> None:
        """Called after each step."""


def _is_field(call: Call, slot: int, t: Tensor) -> bool:
    """Whether an argument is a constant with a value for each sample."""
    return not call.live[slot] and bool(moving(call.given[slot])) and t.is_floating_point()


def _connected(kept: Tensor, own: Tensor) -> Tensor:
    """The kept values, in a graph that leads to the call's own result, with derivative zero."""
    if not (own.is_floating_point() or own.is_complex()) or own.shape != kept.shape:
        return kept
    return torch.where(torch.ones((), dtype=torch.bool, device=kept.device), kept, own)


def _refuse_hidden(call: Call) -> None:
    """Raise where what is kept would have the training grid's length along an axis that ``vmap`` hides."""
    if call.hidden:
        raise CannotFollowError(
            f"{call.name} in {call.where or 'the model'} mixes samples along some axes of the grid inside a vmap over "
            "others; write it with whole fields, or use quadnorm.anchor or quadnorm.at_native"
        )


def _copy(t: Tensor) -> Tensor:
    return t.clone()


class Replay(Aligned):
    """The run on another grid with the native run's sums."""

    def __init__(self, plan: CallPlan, nodes: Nodes, tape: list[Kept]) -> None:
        super().__init__(plan, nodes)
        self.tape = tape
        self.derives = any(call.name == "autograd.grad" for call in plan.calls)

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if self.count < len(self.plan.calls) and self.plan.calls[self.count].name == name:
            call, kept = self.plan.calls[self.count], self.tape[self.count]
        else:
            return self._uncounted(func, name, args, kwargs)
        if not call.returned and not call.inplace:
            return self._uncounted(func, name, args, kwargs)
        self.next_call(name)
        if call.settled:
            return self._settled(call, kept, args, func(*args, **kwargs) if self.derives else None)
        if name in ARITHMETIC:
            args, kwargs = numbers_of(kept.numbers, (args, kwargs))
        if name == "pad":
            self.nodes.pads(call.given[0], call.returned[0], bound(name, args, kwargs)["pad"])
        step = Step(call, func, args, kwargs, self.nodes, kept.row)
        if kept.constants:
            step = with_native_fields(step, kept.constants)
        row = row_of(step)
        return run_fitted(step) if row is None else row.replay(step)

    def _uncounted(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if counted(func, result):
            self.next_call(name)
        return result

    def _settled(self, call: Call, kept: Kept, args: Any, own: Any) -> Any:
        result = mapped(_copy, kept.result)
        if own is not None:  # connected with the new samples, by whose gradient the model will ask
            order = iter(tensors(own))
            result = mapped(lambda t: _connected(t, next(order)), result)
        if call.inplace and isinstance(result, Tensor) and isinstance(args[0], Tensor):
            return args[0].copy_(result)
        return result
