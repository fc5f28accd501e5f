"""A model whose calls sum under its training grid's measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.rows import grid_argument
from quadnorm.adapt.anchoring.summing import padding, products, reductions, waves  # noqa: F401  # their rows
from quadnorm.adapt.anchoring.summing.weights import SUMS, Counted, Weighted
from quadnorm.adapt.calls.plan import CallPlan, input_kind, make_plan
from quadnorm.adapt.calls.table import ARITHMETIC, number_of_samples
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watch import counted
from quadnorm.adapt.extending import fields
from quadnorm.adapt.extending.inputs import grid_of_inputs, regridded
from quadnorm.adapt.extending.modes import Aligned, run_under
from quadnorm.adapt.extending.steps import Step, StepRow
from quadnorm.measures.base import Shape


def row_of(step: Step) -> StepRow | None:
    """How a call's sum is anchored; None if it takes none, or none that can be."""
    row = SUMS.get(step.call.name)
    return row if row is not None and step.call.over and row.mixes(step) else None


class Summing(Aligned):
    """The run on a new grid: every sum that has a row under the training grid's measure."""

    nodes: Counted

    def __init__(self, plan: CallPlan, shape: Shape) -> None:
        open_ends = plan.jumps
        super().__init__(plan, Counted(plan.native, shape, plan.placements, plan.origins, open_ends=open_ends))

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if self.count >= len(self.plan.calls) or self.plan.calls[self.count].name != name:
            return self._passed(func, name, args, kwargs)
        call = self.plan.calls[self.count]
        if not call.returned and not call.inplace:
            return self._passed(func, name, args, kwargs)
        self.next_call(name)
        if name in ARITHMETIC:
            args = number_of_samples(call.args, args)
            kwargs = {k: number_of_samples(call.kwargs.get(k), v) for k, v in kwargs.items()}
        step = Weighted(call, func, args, kwargs, self.nodes)
        given = tensors((args, kwargs))
        native = {k: _batched(t, given[k]) for k, t in enumerate(call.constants) if t is not None and k < len(given)}
        if native:
            step = fields.with_native_fields(step, native)  # type: ignore[assignment]
        row = row_of(step)
        return fields.run_fitted(step) if row is None else row.replay(step)

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
        return run_under(self.model, Summing(self.plan(args, kwargs, shape), shape), args, kwargs, self.opaque)

    def plan(self, args: Any, kwargs: Any, shape: Shape) -> CallPlan:
        """The calls of the model; made once for each kind of input."""
        key = input_kind(self.model, args, kwargs)
        if key not in self._plans:
            given = mapped(lambda t: t.detach(), (args, kwargs))

            def at(new: Shape) -> Any:
                values, options = regridded(given, shape, new, self.placements, self.layout, "cubic")
                return values, {**options, **grid_argument(self.model, new)}

            self._plans[key] = make_plan(self.model, at, self.resolution, self.placements, self.opaque)[0]
        return self._plans[key]

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The model's."""
        return self.model.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Into the model."""
        return self.model.load_state_dict(*args, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"
