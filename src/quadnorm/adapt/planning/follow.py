"""Runs in step with a plan: some observe each call, others replace it; constants are brought to the nodes they meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.calls import AnyStep, Call, CallPlan, Step
from quadnorm.adapt.watching.forms import Forms, moving
from quadnorm.adapt.watching.functions import MEETS
from quadnorm.adapt.watching.nodes import Nodes
from quadnorm.adapt.watching.watch import Live, OutOfStepError, gives_tensors, opaque_modules, without_fast_paths


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
                f"the forward pass changed since it was recorded: call {self.count} is {name}, expected "
                f"{'nothing' if call is None else call.name}; quadnorm.at_native runs any model at its training grid"
            )
        self.count += 1
        return call

    def check_end(self) -> None:
        """Raise if planned calls did not come."""
        if self.count < len(self.plan.calls):
            raise OutOfStepError(
                f"the forward pass changed since it was recorded: {self.count} calls, expected {len(self.plan.calls)}; "
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


def with_native_fields(step: AnyStep, constants: Mapping[int, Tensor]) -> AnyStep:
    """The call with the native run's values of constants that differ from grid to grid: coordinates j/n, or 1/n."""
    given = tensors((step.args, step.kwargs))
    substitutes = {
        id(given[slot]): step.nodes.carried(native, step.call.argument_forms[slot], wrap=False)
        for slot, native in constants.items()
        if all(form.on_grid for form in step.call.argument_forms[slot] if form.moves)
    }
    return step.exchanged(substitutes)


def run_fitted(step: Step) -> Any:
    """The call itself, its constants brought to the nodes of the live arguments that they meet."""
    substitutes = {}
    for slot, t in enumerate(tensors((step.args, step.kwargs))):
        if step.call.live[slot]:
            continue
        forms = step.call.argument_forms[slot]
        fitted = _at_training_nodes(step, t, forms) if moving(forms) else _at_new_nodes(step, t)
        if fitted is not t:
            substitutes[id(t)] = fitted
    return step.run_with(substitutes) if substitutes else step.run()


def _at_new_nodes(step: Step, t: Tensor) -> Tensor:
    """A field with one value for each training sample, at the new nodes, where it meets samples of the new grid."""
    if step.call.name not in MEETS or t.ndim == 0:
        return t
    given = tensors((step.args, step.kwargs))
    for x, forms, live in zip(given, step.call.argument_forms, step.call.live, strict=True):
        if not live or x.ndim < t.ndim:
            continue
        for dim in range(-t.ndim, 0):
            form = forms[dim]
            native = form.size(step.nodes.native)
            if form.on_grid and t.shape[dim] == native != x.shape[dim] and t.shape[dim] != 1:
                t = step.nodes.carry(t, dim, form)
    return t


def _at_training_nodes(step: Step, t: Tensor, forms: Forms) -> Tensor:
    """A field of the new grid at the training nodes, where a live argument already is there.

    Such as a mask of the whole grid that meets scores against the native run's keys.
    """
    live = [x for x, is_live in zip(tensors((step.args, step.kwargs)), step.call.live, strict=True) if is_live]
    fitted = t
    for dim, form in enumerate(forms):
        native = form.size(step.nodes.native)
        if not form.on_grid or step.nodes.size(form) == native:
            continue
        partners = [x.shape[dim - t.ndim] for x in live if x.ndim >= t.ndim - dim]
        if native in partners and t.shape[dim] == step.nodes.size(form):
            fitted = step.nodes.restrict(fitted, dim, form, wrap=False)
    return fitted
