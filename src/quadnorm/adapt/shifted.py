"""Shifted native runs: a model with stencils or patches on any grid, without a look inside.

A kernel of 3×3 samples, a stride or a patch is an operator at the training grid's *spacing*. On a grid r times finer
there are r^d copies of the training grid, each shifted by a part of its spacing. The model runs on all of them as it
was trained, and the outputs are interlaced. It is right for every operation that does not know where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm._tensors import is_recording
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.planning.follow import Steered, run_under
from quadnorm.adapt.report import size_text
from quadnorm.adapt.shifts import GridShifts, shift_matrix
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.calls import Call, CallPlan
from quadnorm.adapt.watching.forms import Forms
from quadnorm.adapt.watching.layouts import Dims, map_fields
from quadnorm.adapt.watching.watch import (
    CannotFollowError,
)
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS
from quadnorm.measures.base import Shape

RECORDED = 8  # the batch that a graph of shifted runs is made for; it serves all
SAMPLES = 2**17  # of the training grid, over all shifts that run together


class ShiftedRuns(Adapted):
    """A model on any grid by runs on shifted training grids; :func:`shifted_runs` makes it and checks the model.

    ``floor`` says for each axis whether one run per shift is enough, else two neighbouring ones are blended.
    ``samples`` bounds how many samples of training grids run as one batch, whatever the new grid. With a ``plan`` the
    fields that the model makes itself, such as coordinates, are shifted with the grid. Gradients pass through all runs.
    """

    way = "shifted_runs"
    not_on_shards = "it takes shifted copies of the whole field; shard the model itself, or one that is anchored"

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        layout: str = "first",
        restrict: str = "cubic",
        floor: tuple[bool, ...] | None = None,
        samples: int = SAMPLES,
        plan: CallPlan | None = None,
    ) -> None:
        super().__init__(model, resolution, placements, layout)
        if restrict not in METHODS:
            raise ValueError(unknown("way to interpolate", restrict, METHODS))
        if samples < 1:
            raise ValueError(f"samples must be positive, got {samples}")
        self.restrict, self.samples = restrict, samples
        self.floor = floor or (False,) * len(resolution)
        self.fields = plan

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> None:
        """Nothing is known of the model."""

    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution:
            return self.model(*args, **kwargs)
        return self.steered(self.model, None, args, kwargs, shape)

    def steered(self, model: nn.Module, plan: None, args: Any, kwargs: Any, shape: Shape) -> Any:
        shifts = GridShifts(self.placements, self.resolution, shape, self.floor, self.restrict)
        total = _Interlaced(shifts, self.layout)
        count = -(-len(shifts.runs) // self._at_once((args, kwargs), shape))  # of batches, all about as large
        for part in range(count):
            runs = range(part * len(shifts.runs) // count, (part + 1) * len(shifts.runs) // count)
            for y in self._run(model, shifts, runs, (args, kwargs), shape):
                total.add(y)
        return total.result(shape, self.placements)

    def runs(self, shape: Shape) -> int:
        """How many training grids are run for one input on the grid ``shape``."""
        return len(GridShifts(self.placements, self.resolution, shape, self.floor, self.restrict).runs)

    def _at_once(self, value: Any, shape: Shape) -> int:
        """How many shifts run in one batch: no more than the new grid has room for; one where fields do not share an
        axis for it."""
        size = None if self.fields is not None else self._batch_size(value, shape)
        size = size and (RECORDED if is_recording() else size)  # a graph is for all batches
        native = prod(self.resolution)
        return max(1, min(self.samples // (size * native), -(-prod(shape) // native))) if size else 1

    def _batch_size(self, value: Any, shape: Shape) -> int | None:
        """The length of the first axis that all fields have before those of the grid, if they do."""
        sizes: list[int] = []

        def look(x: Tensor, dims: Dims) -> Tensor:
            sizes.append(x.shape[0] if dims[0] else 0)
            return x

        map_fields(value, shape, self.layout, look)
        return sizes[0] or None if all(n == sizes[0] for n in sizes) else None

    def _run(self, model: nn.Module, shifts: GridShifts, runs: range, value: Any, shape: Shape) -> list[Any]:
        """The outputs on several shifted grids, which the model is given as one batch."""
        args, kwargs = map_fields(value, shape, self.layout, lambda x, dims: shifts.inputs(x, dims, runs))
        if len(runs) == 1:
            if self.fields is None:
                return [model(*args, **kwargs)]
            return [run_under(model, ShiftedFields(self.fields, shifts.shifts[runs[0]]), args, kwargs)]
        given = tensors(value)
        size = self._batch_size(value, shape) or 1
        args, kwargs = mapped(
            lambda t: torch.cat([t] * len(runs)) if any(t is x for x in given) and t.ndim and t.shape[0] == size else t,
            (args, kwargs),
        )
        y = model(*args, **kwargs)
        return [mapped(partial(_part, k, len(runs), size), y) for k in range(len(runs))]

    def extra_repr(self) -> str:
        """The grid and the ways."""
        return f"resolution={self.resolution}, placement={self.placements}, floor={self.floor}"


def _part(k: int, count: int, size: int, t: Tensor) -> Tensor:
    """The k-th of ``count`` parts of an output of one batch, each ``size`` long."""
    if t.ndim == 0 or t.shape[0] != count * size:
        return t
    return t.narrow(0, k * size, size)


class _Interlaced:
    """Outputs of shifted runs, put together."""

    def __init__(self, shifts: GridShifts, layout: str) -> None:
        self.shifts, self.native, self.layout = shifts, shifts.native, layout
        self.first: Any = None  # of the least shifted run; what is no field stays its
        self.parts: list[list[Tensor]] = []  # of each field, the outputs of all runs

    def add(self, y: Any) -> None:
        """The output of the next run."""
        fields = self._fields(y)
        if self.first is None:
            if not fields:
                shapes = ", ".join(str(tuple(t.shape)) for t in tensors(y)) or type(y).__name__
                raise CannotFollowError(
                    f"shifted runs interlace outputs on the training grid {size_text(self.native)}, and the model "
                    f"returned {shapes}; quadnorm.at_native serves outputs on other grids"
                )
            self.first, self.parts = y, [[] for _ in fields]
        for parts, t in zip(self.parts, fields, strict=True):
            parts.append(t)

    def _fields(self, y: Any) -> list[Tensor]:
        """Every field of an output, its axes on the grid last."""
        fields: list[Tensor] = []
        last = tuple(range(-len(self.native), 0))

        def collect(x: Tensor, dims: Dims) -> Tensor:
            fields.append(x.movedim(dims, last))
            return x

        map_fields(y, self.native, self.layout, collect, outputs=True)
        return fields

    def result(self, shape: Shape, placements: tuple[str, ...]) -> Any:
        """The output on the grid ``shape``; carried there if the runs give another one."""
        order, last = iter(self.parts), tuple(range(-len(shape), 0))

        def put(x: Tensor, dims: Dims) -> Tensor:
            y = self.shifts.blended(next(order))
            y = y if self.shifts.shape == shape else carry(y, shape, placements)
            return y.movedim(last, dims)

        return map_fields(self.first, self.native, self.layout, put, outputs=True)


class ShiftedFields(Steered):
    """A run on the training grid shifted by parts of a spacing; constant fields of the model are shifted with it."""

    def __init__(self, plan: CallPlan, shifts: Sequence[float]) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.shifts = shifts

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        given = tensors((args, kwargs))
        waves = any(t.is_complex() for t in given)  # a field of wavenumbers does not move
        if all(s == 0 for s in self.shifts) or waves:
            return func(*args, **kwargs)
        moved = {
            id(t): self._moved(t, forms)
            for t, forms, live in zip(given, call.argument_forms, call.live, strict=False)
            if not live and t.is_floating_point() and any(f.moves for f in forms)
        }
        args, kwargs = mapped(lambda t: moved.get(id(t), t), (args, kwargs)) if moved else (args, kwargs)
        return func(*args, **kwargs)

    def _moved(self, t: Tensor, forms: Forms) -> Tensor:
        """A field of the model's own at the shifted nodes; splines, which go on beyond the last node."""
        for dim, form in reversed(list(enumerate(forms))):
            if not form.moves:
                continue
            if not form.on_grid or form.fold != 1 or any(form.extra):
                raise CannotFollowError(
                    "the model makes coordinates on a grid of its own, coarser or padded, which cannot be shifted"
                )
            t = torch.unflatten(t, dim, [self.plan.native[k] for k in form.axes])
            for at, k in enumerate(form.axes, start=dim):
                if self.shifts[k]:
                    M = shift_matrix(self.plan.native[k], self.shifts[k]).to(t.device, t.dtype)
                    t = torch.matmul(t.movedim(at, -1), M.T).movedim(-1, at)
            t = t.flatten(dim, dim + len(form.axes) - 1)
        return t
