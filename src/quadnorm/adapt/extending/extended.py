"""The model that :func:`quadnorm.extend` returns."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from quadnorm.adapt.calls.plan import CallPlan, make_plan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.extending.inputs import grid_of_inputs, regridded
from quadnorm.adapt.extending.modes import Record, Replay, run_under
from quadnorm.measures.base import Shape


class Extended(nn.Module):
    """A model with the sums of its native run, evaluated on any grid; see :func:`quadnorm.extend`.

    ``model`` is the model itself, not a copy. ``extend_report`` says what was done with each call that mixes samples.
    """

    extend_report: Any = None
    not_on_shards = "its native run needs the whole field; shard the model itself, or an anchored one"

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], layout: str, restrict: str
    ) -> None:
        super().__init__()
        self.model = model
        self.resolution, self.placements, self.layout, self.restrict = resolution, placements, layout, restrict
        self._plans: dict[Any, CallPlan] = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)
        if shape == self.resolution:
            return self.model(*args, **kwargs)
        native = self._regridded((args, kwargs), shape, self.resolution)
        plan = self.plan(*native)
        record = Record(plan)
        run_under(self.model, record, *native)
        return run_under(self.model, Replay(plan, plan.nodes(shape), record.tape), args, kwargs)

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallPlan:
        """The calls of the model, from runs on grids around the training grid; made once for each kind of input."""
        key = (
            self.model.training,
            tuple((t.ndim, t.dtype) for t in tensors((args, kwargs))),
            tuple(sorted(kwargs)),
        )
        if key not in self._plans:

            def at(shape: Shape) -> Any:
                return self._regridded(mapped(lambda t: t.detach(), (args, kwargs)), self.resolution, shape)

            self._plans[key] = make_plan(self.model, at, self.resolution, self.placements)[0]
        return self._plans[key]

    def _regridded(self, arguments: Any, old: Shape, new: Shape) -> Any:
        return regridded(arguments, old, new, self.placements, self.layout, self.restrict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"
