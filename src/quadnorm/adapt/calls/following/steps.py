"""One call of a run that follows a plan: the planned call, its arguments at hand, and the two grids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from torch import Tensor

from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call
from quadnorm.adapt.calls.trees import mapped, tensors


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
        return bound(self.call.name, self.args, self.kwargs)

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
