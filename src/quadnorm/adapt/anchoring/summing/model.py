"""A model whose calls sum under its training grid's measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.rows import grid_argument
from quadnorm.adapt.anchoring.summing import derivatives, padding, products, reductions, waves  # noqa: F401  # rows
from quadnorm.adapt.anchoring.summing.units import SpacedTensors
from quadnorm.adapt.anchoring.summing.weights import SUMS, Counted, Weighted
from quadnorm.adapt.calls.errors import OutOfStepError
from quadnorm.adapt.calls.following import constant_fields as fields
from quadnorm.adapt.calls.following.aligned import Aligned, Constants, run_under
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.inputs.layouts import grid_of_inputs, regridded
from quadnorm.adapt.calls.planning.counts import exchanged
from quadnorm.adapt.calls.planning.make import input_kind, make_plan
from quadnorm.adapt.calls.planning.plan import CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watching.quiet import only_looking
from quadnorm.adapt.calls.watching.watch import counted
from quadnorm.measures.base import Shape


def row_of(step: Step) -> StepRow | None:
    """How a call's sum is anchored; None if it takes none, or none that can be."""
    row = SUMS.get(step.call.name)
    return row if row is not None and step.call.over and row.mixes(step) else None


class Summing(Aligned):
    """The run on a new grid: every sum that has a row under the training grid's measure."""

    nodes: Counted

    def __init__(self, plan: CallPlan, shape: Shape, constants: list[dict[int, Tensor]] | None = None) -> None:
        self.constants = constants
        self.spaced = SpacedTensors()
        open_ends = plan.jumps
        super().__init__(plan, Counted(plan.native, shape, plan.placements, plan.origins, open_ends=open_ends))

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if self.count >= len(self.plan.calls) or self.plan.calls[self.count].name != name:
            return self._passed(func, name, args, kwargs)
        call = self.plan.calls[self.count]
        if not call.returned and not call.inplace:
            return self._passed(func, name, args, kwargs)
        self.next_call(name)
        spaced = self.spaced.among(args, kwargs)
        if call.counts is not None and not spaced:
            args, kwargs = exchanged(call.counts, (args, kwargs), self._counted)
        step = Weighted(call, func, args, kwargs, self.nodes)
        given = tensors((args, kwargs))
        fields_there = dict(enumerate(call.constants)) if self.constants is None else self.constants[self.count - 1]
        native = {
            k: _batched(t, given[k])
            for k, t in fields_there.items()
            if t is not None and k < len(given) and (moving(call.given[k]) or not spaced)
        }
        if native:
            step = fields.with_native_fields(step, native)  # type: ignore[assignment]
        row = row_of(step)
        result = fields.run_fitted(step) if row is None else row.replay(step)
        self.spaced.note(step, result, summed=row is not None)
        return result

    def _counted(self, count: Any, number: Any) -> Any:
        return count.on_training_grid(number, self.nodes.native, self.nodes.shape)

    def _passed(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if counted(func, result):
            self.next_call(name)
        return result


def _batched(t: Tensor, like: Tensor) -> Tensor:
    """A constant field seen with another batch."""
    if t.ndim == like.ndim and t.ndim and t.shape[0] != like.shape[0] and t.stride(0) == 0:
        return t[:1].expand(like.shape[0], *t.shape[1:])
    return t


class AnchoredCalls(nn.Module):
    """A model, run under :class:`Summing` on every grid but its training grid. Its state is the model's.

    ``model`` is the copy that :func:`quadnorm.anchor` made; ``anchor_report`` says what was done.
    """

    anchor_report: Any = None

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        layout: str,
        opaque: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.model, self.opaque = model, opaque
        self.resolution, self.placements, self.layout = resolution, placements, layout
        self._plans: dict[Any, CallPlan] = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)
        kwargs = {**kwargs, **grid_argument(self.model, shape)}
        if shape == self.resolution:
            return self.model(*args, **kwargs)
        try:
            return self._summed(self.plan(args, kwargs, shape), args, kwargs, shape)
        except OutOfStepError:  # another branch, or another number of steps: look again
            return self._summed(self.plan(args, kwargs, shape, again=True), args, kwargs, shape)

    def _summed(self, plan: CallPlan, args: Any, kwargs: Any, shape: Shape) -> Any:
        constants = None
        if plan.learned or plan.unseen:
            native = Constants(plan)
            values, options = self._at(self.resolution, (args, kwargs), shape)
            with only_looking(self.model, gradients=torch.is_grad_enabled()):
                run_under(self.model, native, values, options, self.opaque)
            constants = native.found
        return run_under(self.model, Summing(plan, shape, constants), args, kwargs, self.opaque)

    def plan(self, args: Any, kwargs: Any, shape: Shape, again: bool = False) -> CallPlan:
        """The calls of the model; made once for each kind of input, or ``again``."""
        key = input_kind(self.model, args, kwargs)
        if again or key not in self._plans:
            given = mapped(lambda t: t.detach(), (args, kwargs))

            def at(new: Shape) -> Any:
                return self._at(new, given, shape)

            self._plans[key] = make_plan(self.model, at, self.resolution, self.placements, self.opaque)[0]
        return self._plans[key]

    def _at(self, new: Shape, arguments: Any, shape: Shape) -> Any:
        """The arguments, whose fields have the grid ``shape``, on the grid ``new``."""
        values, options = regridded(arguments, shape, new, self.placements, self.layout, "cubic")
        return values, {**options, **grid_argument(self.model, new)}

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The model's."""
        return self.model.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Into the model."""
        self._plans.clear()  # they hold fields that were computed from parameters
        return self.model.load_state_dict(*args, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"
