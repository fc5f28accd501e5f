"""What is known of a model's calls on any grid: the plan that runs on other grids follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Call:
    """One call of the forward, the same on every grid. Tuples have one entry for each tensor among its arguments."""

    name: str  # of the function: see calls/functions/names.py
    module: str  # the path of the module that makes it
    inplace: bool
    live: tuple[bool, ...]  # whether the tensor comes from the model's input
    argument_shapes: tuple[Shape, ...]  # on the training grid
    argument_forms: tuple[Forms, ...]  # how these shapes move with the grid
    result_forms: tuple[Forms, ...]  # the same for each tensor that it returns
    foreign: tuple[bool, ...]  # whether the tensor is a constant field that is not the same function on all grids
    constants: tuple[Tensor | None, ...]  # the training grid's values of those
    args: Any  # as on the training grid, with tensors left out
    kwargs: Any
    counts: Any = None  # which of the numbers in (args, kwargs) move with the grid
    hidden_axes: frozenset[int] = frozenset()  # of the grid, by a ``vmap`` around it: it acts on single samples of them

    @property
    def settled(self) -> bool:
        """Whether nothing that it returns moves with the grid: its native result holds everywhere."""
        return bool(self.result_forms) and not self.hidden_axes and not any(moving(f) for f in self.result_forms)

    @property
    def axes(self) -> frozenset[int]:
        """Grid axes of its live arguments."""
        live = (forms for forms, is_live in zip(self.argument_forms, self.live, strict=True) if is_live)
        return frozenset().union(*map(moving, live))

    @property
    def lost_axes(self) -> frozenset[int]:
        """Grid axes that its live arguments have and its results do not."""
        return self.axes - frozenset().union(*map(moving, self.result_forms)) if self.result_forms else frozenset()

    @property
    def returns_to_grid(self) -> bool:
        """Whether what it returns lies on the grid, not on a grid of its own such as every second sample."""
        return all(form.on_grid for forms in self.result_forms for form in forms if form.moves)


@dataclass(frozen=True)
class CallPlan:
    """All calls of a forward in their order, and the grid that they were seen on."""

    native: Shape
    placements: tuple[str, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Forms, ...] = ()  # of the tensors that the model returns
    origins: dict[tuple[int, int], int] = field(default_factory=dict)  # see calls/planning/origins.py
    jumps: bool = False  # whether a constant field, such as a coordinate, jumps where a periodic axis closes
    learned: bool = False  # whether a foreign field is computed from parameters that are trained
    unseen: tuple[str, ...] = ()  # modules with a foreign field from the input, computed out of sight, as by NumPy

    def nodes(self, shape: Shape) -> Nodes:
        """The training grid and the grid ``shape``."""
        return Nodes(self.native, shape, self.placements, self.origins)
