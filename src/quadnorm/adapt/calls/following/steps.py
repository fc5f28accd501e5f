"""One call of the run on the new grid, with what the native run kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call
from quadnorm.adapt.calls.trees import mapped, tensors


@dataclass
class Step:
    """A call about to be made, or in the native run just made (then with its ``result``)."""

    call: Call
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    nodes: Nodes
    kept: Any = None
    result: Any = None

    @cached_property
    def given(self) -> dict[str, Any]:
        """Arguments by name."""
        return bound(self.call.name, self.args, self.kwargs)

    def forms(self, t: Tensor) -> Forms:
        """How the sizes of a tensor among the arguments move."""
        for slot, other in enumerate(tensors((self.args, self.kwargs))):
            if other is t:
                return self.call.given[slot]
        raise KeyError("not an argument of this call")

    def moving(self, t: Tensor) -> list[int]:
        """The dimensions of an argument that move with the grid."""
        return [dim for dim, f in enumerate(self.forms(t)) if f.moves]

    def is_live(self, t: Tensor) -> bool:
        """Whether a tensor among the arguments comes from the input."""
        given = tensors((self.args, self.kwargs))
        return any(other is t and a for other, a in zip(given, self.call.live, strict=True))

    def run(self) -> Any:
        """The call itself."""
        return self.func(*self.args, **self.kwargs)

    def run_with(self, replaced: Mapping[int, Tensor]) -> Any:
        """The call with other tensors in place of those with the given ids."""
        return self.exchanged(replaced).run()

    def exchanged(self, replaced: Mapping[int, Tensor]) -> Step:
        """The step with other tensors in place of those with the given ids."""
        args, kwargs = mapped(lambda t: replaced.get(id(t), t), (self.args, self.kwargs))
        return replace(self, args=args, kwargs=kwargs)

    def restricted(self, t: Tensor, dims: list[int]) -> Tensor:
        """An argument at the training grid's nodes along ``dims``, where it is not there already."""
        forms = self.forms(t)
        y = t
        for dim in dims:
            f = forms[dim]
            if f.on_grid and y.shape[dim] == self.nodes.size(f) != f.size(self.nodes.native):
                y = self.nodes.restrict(y, dim, f)
        return y


@dataclass(frozen=True)
class StepRow:
    """How one family of functions is extended.

    ``mixes(step)`` says whether the call mixes samples; ``keep(step)`` what the native run stores; ``replay(step)``
    gives the result on the new grid. ``action`` and ``why`` are for the report.
    """

    action: str
    why: str
    mixes: Callable[[Step], bool]
    keep: Callable[[Step], Any]
    replay: Callable[[Step], Any]
