"""A model whose calls sum under its training grid's measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.running_grid import grid_argument
from quadnorm.adapt.anchoring.summing.table import sum_row
from quadnorm.adapt.anchoring.summing.units import SpacedTensors
from quadnorm.adapt.anchoring.summing.weights import CountedNodes, WeightedStep
from quadnorm.adapt.calls.errors import OutOfStepError
from quadnorm.adapt.calls.following.aligned import NativeConstants, Steered, run_under
from quadnorm.adapt.calls.following.constant_fields import run_fitted, with_native_fields
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.inputs.layouts import grid_of_inputs, regridded
from quadnorm.adapt.calls.planning.counts import Count, exchanged
from quadnorm.adapt.calls.planning.make import input_kind, make_plan
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watching.quiet import leaving_no_trace
from quadnorm.measures.base import Shape


class Summing(Steered):
    """The run on a new grid: every sum that has a row in the table is taken under the training grid's measure.

    ``constants``: for each call its constant fields that differ from grid to grid, by their slot, as they are in the
    native run on the same input; None: as the plan has them.
    """

    nodes: CountedNodes

    def __init__(self, plan: CallPlan, shape: Shape, constants: list[dict[int, Tensor]] | None = None) -> None:
        super().__init__(plan, CountedNodes(plan.native, shape, plan.placements, plan.origins, open_ends=plan.jumps))
        self.constants = constants
        self.spaced = SpacedTensors()

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        spaced = self.spaced.among(args, kwargs)
        if call.counts is not None and not spaced:
            args, kwargs = exchanged(call.counts, (args, kwargs), self._on_training_grid)
        step = WeightedStep(call, func, args, kwargs, self.nodes)
        native = self._native_fields(call, tensors((args, kwargs)), spaced)
        if native:
            step = with_native_fields(step, native)
        row = sum_row(step)
        result = run_fitted(step) if row is None else row.result(step)
        self.spaced.note(step, result, summed=row is not None)
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
    if t.ndim == x.ndim and t.ndim and t.shape[0] != x.shape[0] and t.stride(0) == 0:
        return t[:1].expand(x.shape[0], *t.shape[1:])
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
            native = NativeConstants(plan)
            values, options = self._at(self.resolution, (args, kwargs), shape)
            with leaving_no_trace(self.model, gradients=torch.is_grad_enabled()):
                run_under(self.model, native, values, options, self.opaque)
            constants = native.constants
        return run_under(self.model, Summing(plan, shape, constants), args, kwargs, self.opaque)

    def plan(self, args: Any, kwargs: Any, shape: Shape, again: bool = False) -> CallPlan:
        """The calls of the model; made once for each kind of input, or ``again``."""
        key = input_kind(self.model, args, kwargs)
        if again or key not in self._plans:
            given = mapped(lambda t: t.detach(), (args, kwargs))

            def at(new: Shape) -> Any:
                return self._at(new, given, shape)

            self._plans[key] = make_plan(self.model, at, self.resolution, self.placements, self.opaque)
        return self._plans[key]

    def _at(self, new: Shape, arguments: Any, shape: Shape) -> Any:
        """The arguments, whose fields have the grid ``shape``, on the grid ``new``."""
        values, options = regridded(arguments, shape, new, self.placements, self.layout, "cubic")
        return values, {**options, **grid_argument(self.model, new)}

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The model's state."""
        return self.model.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Load the model's state."""
        self._plans.clear()  # they hold fields that were computed from parameters
        return self.model.load_state_dict(*args, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"
