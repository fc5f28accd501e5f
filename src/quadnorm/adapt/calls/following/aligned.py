"""Runs whose calls must be those of a plan, one after the other: some observe each call, others replace it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.calls.errors import OutOfStepError
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.planning.plan import Call, CallPlan
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.calls.watching.live import Live, opaque_modules
from quadnorm.adapt.calls.watching.quiet import without_fast_paths
from quadnorm.adapt.calls.watching.watch import gives_tensors


class Aligned(Live):
    """A run whose calls come in the order of a plan; :class:`OutOfStepError` where they do not."""

    def __init__(self, plan: CallPlan, nodes: Nodes) -> None:
        super().__init__()
        self.plan, self.nodes = plan, nodes

    @property
    def expected(self) -> Call | None:
        """The planned call that comes next."""
        return self.plan.calls[self.count] if self.count < len(self.plan.calls) else None

    def next_call(self, name: str) -> Call:
        """The planned call that this one is; the run goes on to the next."""
        call = self.expected
        if call is None or call.name != name:
            raise OutOfStepError(
                f"the model does something else than when it was looked at: call {self.count} is {name}, expected "
                f"{'nothing' if call is None else call.name}; quadnorm.at_native runs any model at its training grid"
            )
        self.count += 1
        return call

    def check_end(self) -> None:
        """Raise if planned calls did not come."""
        if self.count < len(self.plan.calls):
            raise OutOfStepError(
                f"the model makes {self.count} calls, and {len(self.plan.calls)} when it was looked at; "
                "quadnorm.at_native runs any model at its training grid"
            )

    def on_module(self, name: str, given: Any, output: Any) -> None:
        self.next_call("module")


class Observed(Aligned, ABC):
    """A run that changes no call, and shows each to :meth:`observe` once it is made."""

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if gives_tensors(func, result):
            self.observe(self.next_call(name), func, args, kwargs, result)
        return result

    @abstractmethod
    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Called after each planned call."""


class Steered(Aligned, ABC):
    """A run in which :meth:`steer` is called in place of each planned call."""

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        call = self.expected
        if call is not None and call.name == name and (call.result_forms or call.inplace):
            return self.steer(self.next_call(name), func, args, kwargs)
        result = func(*args, **kwargs)
        if gives_tensors(func, result):
            self.next_call(name)
        return result

    @abstractmethod
    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        """What to do in place of ``func(*args, **kwargs)``."""


class NativeConstants(Observed):
    """A run on the training grid that collects, call by call, its constant fields that differ from grid to grid."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.constants: list[dict[int, Tensor]] = []  # for each call: those among its arguments, by their slot

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = enumerate(zip(tensors((args, kwargs)), call.foreign, strict=False))
        self.constants.append({slot: t for slot, (t, foreign) in given if foreign})

    def on_module(self, name: str, given: Any, output: Any) -> None:
        super().on_module(name, given, output)
        self.constants.append({})


def run_under(model: nn.Module, mode: Live, args: Any, kwargs: Any, opaque: frozenset[str] = frozenset()) -> Any:
    """The model's output under a mode, all tensors among its arguments declared live."""
    args, kwargs = mode.mark(mapped(lambda t: t.view_as(t), (args, kwargs)))
    with without_fast_paths(), mode, opaque_modules(model, opaque, mode):
        result = model(*args, **kwargs)
    if isinstance(mode, Aligned):
        mode.check_end()
    return result
