"""The model that :func:`quadnorm.extend` returns."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm.adapt.calls import CallPlan
from quadnorm.adapt.follow import run_under
from quadnorm.adapt.layouts import grid_of_inputs, regridded
from quadnorm.adapt.nodes import Nodes
from quadnorm.adapt.plan import input_kind, make_plan
from quadnorm.adapt.points import PointNodes, arranged, arrangement, checked_points, in_a_row
from quadnorm.adapt.shifted import ShiftedRuns, whole_multiple
from quadnorm.adapt.steer import Kept, Record, Replay
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watch import OutOfStepError
from quadnorm.measures.base import Shape


class Extended(nn.Module):
    """A model with the sums of its native run, evaluated on any grid; see :func:`quadnorm.extend`.

    ``model`` is the model itself, not a copy. ``extend_report`` says what was done with each call that mixes samples.
    """

    extend_report: Any = None

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], layout: str, restrict: str
    ) -> None:
        super().__init__()
        self.model = model
        self.resolution, self.placements, self.layout, self.restrict = resolution, placements, layout, restrict
        self._plans: dict[Any, CallPlan] = {}
        self.stencils = "carried"  # or "dilated", "shifted": what becomes of calls that relate neighbours
        self.floor: tuple[bool, ...] = ()  # see ShiftedRuns
        self.moves_fields = False  # whether shifted runs shift the fields that the model makes itself

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)
        if shape == self.resolution:
            return self.model(*args, **kwargs)
        if any(0 in t.shape for t in tensors((args, kwargs))):
            return self.model(*args, **kwargs)  # no samples, no sums
        native = self._regridded((args, kwargs), shape, self.resolution)
        if self.stencils == "shifted":
            plan = self.plan(*native) if self.moves_fields else None
            return self.shifted_runs(self.model, plan)(*args, grid=shape, **kwargs)
        plan, tape = self._recorded(native)
        if self.stencils == "carried":
            return self._replayed(Replay(plan, plan.nodes(shape), tape), (args, kwargs))
        whole = whole_multiple(self.resolution, shape, self.placements)
        inner = (args, kwargs) if whole == shape else self._regridded((args, kwargs), shape, whole)
        y = self._replayed(Replay(plan, plan.nodes(whole, dilates=True), tape), inner)
        if whole == shape:
            return y
        forms, onward = iter(plan.outputs), Nodes(whole, shape, self.placements)
        return mapped(lambda t: onward.carried(t, next(forms)), y)

    def shifted_runs(self, model: nn.Module, plan: CallPlan | None = None) -> ShiftedRuns:
        """The model by runs on shifted training grids."""
        given = self.resolution, self.placements, self.layout, self.restrict, self.floor
        return ShiftedRuns(model, *given, plan=plan).train(model.training)

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
        >>> extend(model, 9).at_points([[0.0], [0.3], [1.0]], torch.randn(2, 1, 9)).shape
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
        y = self._replayed(Replay(plan, nodes, tape), at_points(nodes))
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

    def _replayed(self, replay: Replay, arguments: Any) -> Any:
        """The run on the new grid; in training, buffers such as running statistics stay those of the native run."""
        kept = [(b, b.detach().clone()) for b in self.model.buffers()] if self.model.training else []
        y = run_under(self.model, replay, *arguments)
        for b, before in kept:
            b.data.copy_(before)  # not a change that autograd should see
        return y

    @staticmethod
    def on_shards() -> type[nn.Module]:
        """The class of an extended model whose fields are split over ranks (:func:`quadnorm.parallel.shard`)."""
        from quadnorm.adapt.shards import ExtendedOnShards

        return ExtendedOnShards

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any], again: bool = False) -> CallPlan:
        """The calls of the model; found out once for each kind of input, or ``again``."""
        key = input_kind(self.model, args, kwargs)
        if again or key not in self._plans:

            def at(shape: Shape) -> Any:
                return self._regridded(mapped(lambda t: t.detach(), (args, kwargs)), self.resolution, shape)

            self._plans[key] = make_plan(self.model, at, self.resolution, self.placements)
        return self._plans[key]

    def _regridded(self, arguments: Any, old: Shape, new: Shape) -> Any:
        return regridded(arguments, old, new, self.placements, self.layout, self.restrict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"
