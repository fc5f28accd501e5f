"""Runs whose calls are those of a plan, one after the other."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.calls.errors import OutOfStepError
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watching.live import Live, opaque_modules
from quadnorm.adapt.calls.watching.quiet import without_fast_paths
from quadnorm.adapt.calls.watching.watch import counted


class Aligned(Live):
    """A run whose calls come in the order of a plan."""

    def __init__(self, plan: CallPlan, nodes: Nodes) -> None:
        super().__init__()
        self.plan, self.nodes = plan, nodes

    def next_call(self, name: str) -> Call:
        """The planned call that this one is."""
        if self.count >= len(self.plan.calls) or self.plan.calls[self.count].name != name:
            expected = self.plan.calls[self.count].name if self.count < len(self.plan.calls) else "nothing"
            raise OutOfStepError(
                f"the model does something else than when it was looked at: call {self.count} is {name}, expected "
                f"{expected}; quadnorm.at_native runs any model at its training grid"
            )
        self.count += 1
        return self.plan.calls[self.count - 1]

    def check_end(self) -> None:
        """Raise if planned calls did not come."""
        if self.count < len(self.plan.calls):
            raise OutOfStepError(
                f"the model makes {self.count} calls, and {len(self.plan.calls)} when it was looked at; "
                "quadnorm.at_native runs any model at its training grid"
            )

    def on_module(self, name: str, given: Any, output: Any) -> None:
        self.next_call("module")


class Constants(Aligned):
    """A run on the training grid for its constant fields that differ from grid to grid, call by call."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.found: list[dict[int, Tensor]] = []

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if counted(func, result):
            call = self.next_call(name)
            given = enumerate(zip(tensors((args, kwargs)), call.foreign, strict=False))
            self.found.append({k: t for k, (t, foreign) in given if foreign})
        return result

    def on_module(self, name: str, given: Any, output: Any) -> None:
        super().on_module(name, given, output)
        self.found.append({})


def run_under(model: nn.Module, mode: Live, args: Any, kwargs: Any, opaque: frozenset[str] = frozenset()) -> Any:
    """The model under a mode, its arguments declared live."""
    args, kwargs = mode.mark(mapped(lambda t: t.view_as(t), (args, kwargs)))
    with without_fast_paths(), mode, opaque_modules(model, opaque, mode):
        result = model(*args, **kwargs)
    if isinstance(mode, Aligned):
        mode.check_end()
    return result
