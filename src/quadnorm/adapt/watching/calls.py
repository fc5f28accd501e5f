"""One call of a model's forward: what is known of it on any grid, and the same call at hand in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from torch import Tensor

from quadnorm._tensors import constant
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.forms import Forms, moving
from quadnorm.adapt.watching.nodes import CountedNodes, Nodes
from quadnorm.measures.base import Shape

if TYPE_CHECKING:
    from quadnorm.adapt.operations.base import Operation


@dataclass(frozen=True)
class Call:
    """One call of the forward, the same on every grid. Tuples have one entry for each tensor among its arguments."""

    name: str  # of the function: see functions.py
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
    operation: Operation | None = None  # its entry in the table of operations
    shifts_back: bool = False  # whether it returns a spectrum from its centred order, by fftshift
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
    origins: dict[tuple[int, int], int] = field(default_factory=dict)  # see plan.py
    jumps: bool = False  # whether a constant field, such as a coordinate, jumps where a periodic axis closes
    learned: bool = False  # whether a foreign field is computed from parameters that are trained
    carried: frozenset[int] = frozenset()  # calls whose native result is interpolated, because a replay differs from it
    summed_padding: frozenset[tuple[int, int]] = frozenset()  # (axis, samples padded to it) that sums see
    unseen: tuple[str, ...] = ()  # modules with a foreign field from the input, computed out of sight, as by NumPy

    def nodes(self, shape: Shape, dilates: bool = False) -> Nodes:
        """The training grid and the grid ``shape``."""
        return Nodes(self.native, shape, self.placements, self.origins, dilates=dilates)

    def counted_nodes(self, shape: Shape) -> CountedNodes:
        """The same, with the training grid's measure on it."""
        return CountedNodes(
            self.native, shape, self.placements, self.origins, open_ends=self.jumps, summed=self.summed_padding
        )


@dataclass
class Step:
    """A call about to be made, or one of the native run just made (then with its ``result``)."""

    call: Call
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    nodes: Nodes
    kept: Any = None  # what the native run stored of this call
    result: Any = None

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """Arguments by name."""
        operation = self.call.operation
        return dict(self.kwargs) if operation is None else operation.arguments(self.args, self.kwargs)

    def forms(self, t: Tensor) -> Forms:
        """How the sizes of a tensor among the arguments move with the grid."""
        for slot, other in enumerate(tensors((self.args, self.kwargs))):
            if other is t:
                return self.call.argument_forms[slot]
        raise KeyError("not an argument of this call")

    def moving(self, t: Tensor) -> list[int]:
        """The dimensions of an argument that move with the grid."""
        return [dim for dim, form in enumerate(self.forms(t)) if form.moves]

    def is_live(self, t: Tensor) -> bool:
        """Whether a tensor among the arguments comes from the input."""
        given = tensors((self.args, self.kwargs))
        return any(other is t and live for other, live in zip(given, self.call.live, strict=True))

    def run(self) -> Any:
        """The result of the call itself."""
        return self.func(*self.args, **self.kwargs)

    def run_with(self, substitutes: Mapping[int, Tensor]) -> Any:
        """The result with other tensors in place of those with the given ids."""
        return self.exchanged(substitutes).run()

    def exchanged(self, substitutes: Mapping[int, Tensor]) -> Self:
        """The step with other tensors in place of those with the given ids."""
        args, kwargs = mapped(lambda t: substitutes.get(id(t), t), (self.args, self.kwargs))
        return replace(self, args=args, kwargs=kwargs)

    def restricted(self, t: Tensor, dims: list[int]) -> Tensor:
        """An argument at the training grid's nodes along ``dims``, where it is not there already."""
        forms = self.forms(t)
        y = t
        for dim in dims:
            form = forms[dim]
            if form.on_grid and y.shape[dim] == self.nodes.size(form) != form.size(self.nodes.native):
                y = self.nodes.restrict(y, dim, form)
        return y


AnyStep = TypeVar("AnyStep", bound=Step)


@dataclass
class WeightedStep(Step):
    """A call on the new grid whose sums are to be taken under the training grid's measure."""

    nodes: CountedNodes

    @constant
    def counts(self, t: Tensor, dims: Any) -> Tensor:
        """Counts of t's samples along ``dims``, broadcast against t."""
        forms = self.forms(t)
        total = torch.ones((), device=t.device, dtype=torch.float64 if t.dtype == torch.float64 else torch.float32)
        for d in dims:
            w = None
            if forms[d].on_grid and t.shape[d] == self.nodes.size(forms[d]):
                w = self.nodes.counts(forms[d], t)
            elif self._on_own_grid(t, d):
                w = self.nodes.own_counts(forms[d].axes[0], self.training_shape(t)[d], t.shape[d], t)
            if w is not None:
                total = total * w.reshape([-1 if k == d else 1 for k in range(t.ndim)])
        return total

    def _on_own_grid(self, t: Tensor, d: int) -> bool:
        """Whether a dimension runs over a grid of its own, such as every second sample, placed as the axis is."""
        form = self.forms(t)[d]
        return form.moves and not form.exact and len(form.axes) == 1 and not t.is_complex()

    def native_count(self, t: Tensor, dims: Any) -> int:
        """Elements of t along ``dims`` on the training grid."""
        forms, shape = self.forms(t), self.training_shape(t)
        return prod(shape[d] if forms[d].moves else t.shape[d] for d in dims)

    def training_shape(self, t: Tensor) -> Shape:
        """The shape of an argument on the training grid, with the batch that the model was recorded with."""
        slot = next(k for k, other in enumerate(tensors((self.args, self.kwargs))) if other is t)
        return self.call.argument_shapes[slot]
