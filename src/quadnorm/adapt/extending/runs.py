"""The two runs of an extended model: one that keeps what sums over samples gave, and one that uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.calls.following.aligned import Observed, Steered
from quadnorm.adapt.calls.following.constant_fields import run_fitted, with_native_fields
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.functions.names import ARITHMETIC
from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.counts import numbers_of
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors, without_tensors
from quadnorm.adapt.extending.families.table import step_row


@dataclass
class Kept:
    """What is kept of one call of the native run."""

    result: Any = None  # where it holds on every grid
    row: Any = None  # what the function's row in the table stores
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
        if call.settled:
            kept.result = mapped(torch.clone, result)
        else:
            step = Step(call, func, args, kwargs, self.nodes, result=result)
            row = step_row(step)
            if row is not None:
                _refuse_hidden(call)
                kept.row = row.keep(step)
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
        if call.name in ARITHMETIC:
            args, kwargs = numbers_of(kept.numbers, (args, kwargs))
        if call.name == "pad":
            self.nodes.pads(call.argument_forms[0], call.result_forms[0], bound("pad", args, kwargs)["pad"])
        step = Step(call, func, args, kwargs, self.nodes, kept.row)
        if kept.constants:
            step = with_native_fields(step, kept.constants)
        row = step_row(step)
        return run_fitted(step) if row is None else row.replay(step)


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
