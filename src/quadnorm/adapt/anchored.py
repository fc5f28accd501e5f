"""The model that :func:`quadnorm.anchor` returns where it anchors calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.calls import CallPlan
from quadnorm.adapt.follow import NativeConstants, run_under
from quadnorm.adapt.layouts import grid_of_inputs, regridded
from quadnorm.adapt.plan import input_kind, make_plan
from quadnorm.adapt.steer import SummedPadding, Summing
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watch import OutOfStepError, leaving_no_trace
from quadnorm.measures.base import Shape


class AnchoredCalls(nn.Module):
    """A model, run under :class:`Summing` on every grid but its training grid. Its state is the model's.

    ``model`` is the copy that :func:`quadnorm.anchor` made; ``anchor_report`` says what was done. Modules named in
    ``opaque`` are run as they are; ``only`` names the modules whose sums are anchored (None: all).
    """

    anchor_report: Any = None

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        layout: str,
        opaque: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.opaque, self.only = model, opaque, only
        self.resolution, self.placements, self.layout = resolution, placements, layout
        self._plans: dict[Any, CallPlan] = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)
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
        return run_under(self.model, Summing(plan, shape, constants, self.only), args, kwargs, self.opaque)

    def plan(self, args: Any, kwargs: Any, shape: Shape, again: bool = False) -> CallPlan:
        """The calls of the model; made once for each kind of input, or ``again``."""
        key = input_kind(self.model, args, kwargs)
        if again or key not in self._plans:
            given = mapped(lambda t: t.detach(), (args, kwargs))

            def at(new: Shape) -> Any:
                return self._at(new, given, shape)

            plan = make_plan(self.model, at, self.resolution, self.placements, self.opaque)
            if plan.origins:
                padding = SummedPadding(plan)
                values, options = at(self.resolution)
                with leaving_no_trace(self.model):
                    run_under(self.model, padding, values, options, self.opaque)
                plan = replace(plan, summed_padding=frozenset(padding.found))
            self._plans[key] = plan
        return self._plans[key]

    def _at(self, new: Shape, arguments: Any, shape: Shape) -> Any:
        """The arguments, whose fields have the grid ``shape``, on the grid ``new``."""
        return regridded(arguments, shape, new, self.placements, self.layout, "cubic")

    def share_plans(self, other: AnchoredCalls) -> None:
        """Use the plans that another one of the same model has made."""
        self._plans = other._plans

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
