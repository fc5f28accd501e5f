"""The model that :func:`quadnorm.extend` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm._tensors import is_recording
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.plan import make_plan
from quadnorm.adapt.planning.steer import Kept, Record, Replay
from quadnorm.adapt.shifted import SAMPLES, ShiftedRuns
from quadnorm.adapt.shifts import whole_multiple
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watching.calls import CallPlan
from quadnorm.adapt.watching.layouts import grid_of_inputs, regridded
from quadnorm.adapt.watching.nodes import Nodes
from quadnorm.adapt.watching.points import PointNodes, arranged, arrangement, checked_points, in_a_row
from quadnorm.adapt.watching.watch import OutOfStepError
from quadnorm.measures.base import Shape


class Extended(Adapted):
    """A model with the sums of its native run, evaluated on any grid; see :func:`quadnorm.extend`.

    ``model`` is the model itself, not a copy. ``extend_report`` says what was done with each call that mixes samples.
    """

    way = "extend"
    extend_report: Any = None

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], layout: str, restrict: str
    ) -> None:
        super().__init__(model, resolution, placements, layout)
        self.restrict = restrict
        self.carried: frozenset[int] = frozenset()  # calls whose replay differs from the native run
        self.stencils = "carried"  # or "dilated", "shifted": what becomes of calls that relate neighbours
        self.floor: tuple[bool, ...] = ()  # see ShiftedRuns
        self.samples = SAMPLES
        self.moves_fields = False  # whether shifted runs shift the fields that the model makes itself

    def options(self) -> dict[str, Any]:
        return {"restrict": self.restrict}

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> CallPlan:
        native = self._regridded((args, kwargs), shape, self.resolution)

        def at(new: Shape) -> Any:
            return self._regridded(mapped(lambda t: t.detach(), native), self.resolution, new)

        return replace(make_plan(model, at, self.resolution, self.placements), carried=self.carried)

    def steered(self, model: nn.Module, plan: CallPlan | None, args: Any, kwargs: Any, shape: Shape) -> Any:
        if self.stencils == "shifted":
            runs = self.shifted_runs(model, plan if self.moves_fields else None)
            return runs.steered(model, None, args, kwargs, shape)
        return self.with_native_run(model, plan, args, kwargs, shape)[1]

    def with_native_run(
        self, model: nn.Module, plan: CallPlan | None, args: Any, kwargs: Any, shape: Shape
    ) -> tuple[Any, Any]:
        """The output of the native run on the restricted input, and that on the grid ``shape``."""
        given = self._regridded((args, kwargs), shape, self.resolution)
        if self.stencils == "shifted":
            return model(*given[0], **given[1]), self.steered(model, plan, args, kwargs, shape)
        assert plan is not None
        record = Record(plan)
        native = run_under(model, record, *given)
        if self.stencils == "carried":
            return native, self._replayed(model, Replay(plan, plan.nodes(shape), record.tape), (args, kwargs))
        whole = whole_multiple(self.resolution, shape, self.placements)
        inner = (args, kwargs) if whole == shape else self._regridded((args, kwargs), shape, whole)
        y = self._replayed(model, Replay(plan, plan.nodes(whole, dilates=True), record.tape), inner)
        if whole == shape:
            return native, y
        forms, onward = iter(plan.outputs), Nodes(whole, shape, self.placements)
        return native, mapped(lambda t: onward.carried(t, next(forms)), y)

    def steering_plan(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> CallPlan | None:
        """None for shifted runs that look into nothing."""
        if self.stencils == "shifted" and not self.moves_fields:
            return None
        return self.plan_for(model, args, kwargs, shape)

    def shifted_runs(self, model: nn.Module, plan: CallPlan | None = None) -> ShiftedRuns:
        """The model by runs on shifted training grids."""
        given = self.resolution, self.placements, self.layout, self.restrict, self.floor, self.samples
        return ShiftedRuns(model, *given, plan=plan)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def at_points(
        self, points: Any, *args: Any, grid: Shape | None = None, values: Tensor | None = None, **kwargs: Any
    ) -> Any:
        r"""The model's output at scattered points: trained on a grid, asked anywhere.

        Sums are the native run's, as on grids; waves are evaluated at the points, statistics applied there, keys and
        values attended to from there. The native results of stencils and patches are interpolated: points have no
        neighbours at the training grid's spacing.

        Args:
            points: (P, d) in the unit cube, whose ends are those of the domain (endpoint samples lie on them).
            args, kwargs: the model's inputs on any grid.
            grid: as in a call.
            values: the first field's values at the points, (B, C, P), or (B, P, C) for other layouts; interpolated from
                the grid (splines) if they are not given.

        Returns:
            What the model returns, with one axis of P samples in place of the grid's.

        >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
        >>> from quadnorm import extend
        >>> extend(model, 9, "endpoint").at_points([[0.0], [0.3], [1.0]], torch.randn(2, 1, 9)).shape
        torch.Size([2, 1, 3])
        """
        d = len(self.resolution)
        places = checked_points(points, d)
        shape = grid_of_inputs(args, kwargs, d, self.layout, grid)
        native = self._regridded((args, kwargs), shape, self.resolution)

        def at_points(nodes: PointNodes) -> Any:
            return arranged((args, kwargs), shape, nodes, self.layout, values, len(places))

        return self.evaluated(native, places, at_points)

    def evaluated(self, native: Any, places: np.ndarray, at_points: Callable[[PointNodes], Any]) -> Any:
        """The output at places (P, d); ``native``: the arguments on the training grid, ``at_points``: at the places."""
        plan, tape = self._recorded(native, every=True)
        filled = arrangement(len(places), self.resolution)
        more = np.repeat(places[-1:], prod(filled) - len(places), 0)
        nodes = PointNodes(plan.native, filled, plan.placements, plan.origins, points=np.concatenate([places, more]))
        y = self._replayed(self.model, Replay(plan, nodes, tape), at_points(nodes))
        forms = iter(plan.outputs)
        return mapped(lambda t: in_a_row(t, next(forms), nodes, len(places)), y)

    def _recorded(self, native: Any, every: bool = False) -> tuple[CallPlan, list[Kept]]:
        """The native run: its plan, and what was kept of each call."""
        try:
            record = Record(self.plan(*native), every)
            run_under(self.model, record, *native)
        except OutOfStepError:  # another branch, or another number of steps: look again
            record = Record(self.plan(*native, again=True), every)
            run_under(self.model, record, *native)
        return record.plan, record.tape

    @staticmethod
    def _replayed(model: nn.Module, replay: Replay, arguments: Any) -> Any:
        """The run on the new grid; in training, buffers such as running statistics stay those of the native run."""
        restores = model.training and not is_recording()
        kept = [(b, b.detach().clone()) for b in model.buffers()] if restores else []
        y = run_under(model, replay, *arguments)
        for b, before in kept:
            b.data.copy_(before)  # not a change that autograd should see
        return y

    @staticmethod
    def on_shards() -> type[nn.Module]:
        """The class of an extended model whose fields are split over ranks (:func:`quadnorm.parallel.shard`)."""
        from quadnorm.adapt.shards import ExtendedOnShards

        return ExtendedOnShards

    def carry_also(self, call: int) -> None:
        """Interpolate the native result of one more call."""
        self.carried |= {call}
        self.forget()

    def _regridded(self, arguments: Any, old: Shape, new: Shape) -> Any:
        return regridded(arguments, old, new, self.placements, self.layout, self.restrict)
