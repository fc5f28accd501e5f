"""The model that :func:`quadnorm.anchor` returns where it anchors calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.planning.follow import NativeConstants, run_under
from quadnorm.adapt.planning.plan import make_plan
from quadnorm.adapt.planning.steer import Summing, with_summed_padding
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watching.calls import CallPlan
from quadnorm.adapt.watching.watch import leaving_no_trace
from quadnorm.measures.base import Shape


class AnchoredCalls(Adapted):
    """A model, run under :class:`Summing` on every grid but its training grid.

    ``model`` is the copy that :func:`quadnorm.anchor` made; ``anchor_report`` says what was done. Modules named in
    ``opaque`` are run as they are; ``only`` names the modules whose sums are anchored, and ``padding`` (None: all).
    """

    way = "anchor"
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
        super().__init__(model, resolution, placements, layout)
        self.opaque, self.only = opaque, only

    def options(self) -> dict[str, Any]:
        return {"force": True}  # it was returned once

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> CallPlan:
        given = mapped(lambda t: t.detach(), (args, kwargs))

        def at(new: Shape) -> Any:
            return self.regridded(given, shape, new)

        plan = make_plan(model, at, self.resolution, self.placements, self.opaque)
        return with_summed_padding(plan, model, at(self.resolution), self.opaque)

    def steered(self, model: nn.Module, plan: CallPlan, args: Any, kwargs: Any, shape: Shape) -> Any:
        constants = None
        if plan.learned or plan.unseen:
            native = NativeConstants(plan)
            values, options = self.regridded((args, kwargs), shape, self.resolution)
            with leaving_no_trace(model, gradients=torch.is_grad_enabled()):
                run_under(model, native, values, options, self.opaque)
            constants = native.constants
        return run_under(model, Summing(plan, shape, constants, self.only), args, kwargs, self.opaque)

    def share_plans(self, other: AnchoredCalls) -> None:
        """Use the plans that another one of the same model has made."""
        self._graphs.plans = other._graphs.plans
