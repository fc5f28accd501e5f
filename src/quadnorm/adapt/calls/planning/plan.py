"""What a model does on any grid, from a run on its training grid and one more for each axis of the grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Call:
    """One call of the forward, the same on every grid."""

    name: str
    where: str
    inplace: bool
    live: tuple[bool, ...]
    shapes: tuple[Shape, ...]  # of the tensors among its arguments, on the training grid
    given: tuple[Forms, ...]  # how these move
    returned: tuple[Forms, ...]
    foreign: tuple[bool, ...]  # whether an argument is a constant field that is not the same function on all grids
    constants: tuple[Tensor | None, ...]  # the training grid's values of these
    args: Any
    kwargs: Any
    counts: Any = None  # which of the numbers in (args, kwargs) move with the grid
    hidden: frozenset[int] = frozenset()  # grid axes that a ``vmap`` around it hides: it acts on single samples of them

    @property
    def settled(self) -> bool:
        """Whether nothing that it returns moves with the grid: its native result holds everywhere."""
        return bool(self.returned) and not self.hidden and not any(moving(f) for f in self.returned)

    @property
    def over(self) -> frozenset[int]:
        """Grid axes of its live arguments."""
        return frozenset().union(*(moving(f) for f, a in zip(self.given, self.live, strict=True) if a))

    @property
    def lost(self) -> frozenset[int]:
        """Grid axes that its live arguments have and its results do not."""
        return self.over - frozenset().union(*(moving(f) for f in self.returned)) if self.returned else frozenset()


@dataclass(frozen=True)
class CallPlan:
    """All calls of a forward, where padding begins, and the grid they were seen on."""

    native: Shape
    placements: tuple[str, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Forms, ...] = ()  # of the tensors that the model returns
    origins: dict[tuple[int, int], int] = field(default_factory=dict)
    jumps: bool = False  # whether a constant field, such as a coordinate, jumps where a periodic axis closes

    learned: bool = False  # whether such a field is computed from parameters that are trained
    unseen: tuple[str, ...] = ()  # modules with such a field from the input, computed out of sight, as by NumPy

    def nodes(self, shape: Shape) -> Nodes:
        """The training grid and the grid ``shape``."""
        return Nodes(self.native, shape, self.placements, self.origins)
