"""Lines of reports about calls: every call that mixes samples, and what extension or anchoring makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from quadnorm.adapt.operations import anchoring, extending
from quadnorm.adapt.operations.dilation import note_padding
from quadnorm.adapt.operations.norms import TrailingNorm
from quadnorm.adapt.operations.padding import Padding
from quadnorm.adapt.operations.products import Product
from quadnorm.adapt.operations.stencils import Convolution
from quadnorm.adapt.planning.follow import Observed, run_under
from quadnorm.adapt.report import AnchorReport, Reason, size_text, with_times
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.calls import Call, CallPlan, Step, WeightedStep
from quadnorm.adapt.watching.forms import moving
from quadnorm.adapt.watching.patches import is_function
from quadnorm.adapt.watching.watch import leaving_no_trace

STENCILS = {Reason.KERNELS, Reason.POOLS, Reason.RESAMPLED, Reason.PATCHES, Reason.SHIFTED}


class CallListing(Observed):
    """A run on the training grid that collects lines about its calls, and how often each line came."""

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.lines: Counter[tuple[str, str, str, str]] = Counter()  # (module, function, action, why)
        self.stencils: list[bool] = []  # for each call that relates neighbours, whether it can be dilated

    def add(self, call: Call, action: str, why: str) -> None:
        """Count a line about a call."""
        self.lines[call.module, call.name.removeprefix("quadnorm."), action, why] += 1

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        step = Step(call, func, args, kwargs, self.nodes, result=result)
        operation = extending(step)
        waves = any(t.is_complex() for t in tensors((args, kwargs)))  # a slice of a spectrum is no stencil
        stencil = operation is not None and operation.carried and operation.reason in STENCILS and not waves
        if operation is not None and stencil and not call.settled:
            self.stencils.append(operation.dilates(step))
        if call.name == "pad":
            note_padding(step, result)
        outcome = action_and_reason(step)
        if outcome is not None:
            self.add(call, *outcome)


def action_and_reason(step: Step) -> tuple[str, str] | None:
    """Action and reason for a call that mixes samples; None for one that does not."""
    call = step.call
    if not call.axes:
        return None
    why = Reason.UNKNOWN.text() if call.operation is None else call.operation.cause(step)
    if call.settled:
        picked = call.operation is not None and call.operation.picks_waves(step)
        return None if picked else ("replayed", f"{why}: {Reason.GRID_FREE.text()}")
    operation = extending(step)
    if operation is None:
        return None
    if not operation.carries(step):
        return "replayed", operation.extended.value
    if operation.carried and not call.returns_to_grid:
        return "left", f"{why}, {Reason.OWN_GRID.text()}"
    return "carried", f"{why}: {Reason.INTERPOLATED.text()}"


def listing_of(model: nn.Module, plan: CallPlan, args: Any, kwargs: Any) -> CallListing:
    """A run on the training grid, listed."""
    listing = CallListing(plan)
    with leaving_no_trace(model):
        run_under(model, listing, args, kwargs)
    return listing


def report_of(listing: CallListing) -> AnchorReport:
    """One line for each function in each module."""
    report = AnchorReport("")
    for (module, name, action, why), times in listing.lines.items():
        report.add(module, f"call {name}", action, with_times(why, times), name)
    for module in listing.plan.unseen:
        report.add(module, "value", "replayed", f"{Reason.OUT_OF_SIGHT.value}: the training grid's")
    return report


class AnchorListing(CallListing):
    """The run on the training grid of a model that is anchored.

    ``integral``: counting is the integral on all axes, so that sums stay as they are. ``weights``: the ids of tensors
    that products and kernels contract with, which are no fields, whatever their size.
    """

    def __init__(self, plan: CallPlan) -> None:
        super().__init__(plan)
        self.counted = plan.counted_nodes(plan.native)
        self.integral = all(p in ("cell", "periodic") for p in plan.placements) and not plan.jumps and not plan.origins
        self.weights: set[int] = set()
        self.coordinates: dict[str, None] = {}  # modules that are given fields that differ from grid to grid

    @property
    def changes(self) -> bool:
        """Whether any sum or coordinate is anchored, and not only padding."""
        return bool(self.coordinates) or any(
            action == "anchored" and name not in ("pad", "getitem") for _, name, action, _ in self.lines
        )

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        step = WeightedStep(call, func, args, kwargs, self.counted, result=result)
        operation = call.operation
        if isinstance(operation, (Product, Convolution)):
            self.weights.update(id(t if t._base is None else t._base) for t in tensors((args, kwargs)))
        if not call.axes:
            return
        if any(varies and moving(forms) for varies, forms in zip(call.foreign, call.argument_forms, strict=True)):
            self.coordinates[call.module] = None
        harmless = None if operation is None else operation.harmless(step)
        if is_function(func):
            self.add(call, "left", Reason.OPAQUE.text())
        elif harmless is not None:
            self.add(call, "unchanged", harmless.text())
        elif operation is not None and anchoring(step) is not None:
            unchanged = self.integral and operation.anchored is not Reason.SHIFT
            why = Reason.INTEGRAL if unchanged else operation.anchored
            self.add(call, "unchanged" if unchanged else "anchored", why.text() + _remarks(step))
        elif isinstance(operation, Padding) and operation.pads_grid(step):
            self.add(call, "left", Reason.UNUSED_PADDING.text())
        elif action_and_reason(step) is not None and not (operation is not None and operation.only_pairs(step)):
            why_left = Reason.UNKNOWN.text() if operation is None else operation.cause(step)
            self.add(call, "left", f"{why_left.partition(':')[0]}; {Reason.NO_MEASURE.text()}")


def _remarks(step: WeightedStep) -> str:
    """What to say of a norm whose γ and β are fields, and of a grid of its own, such as every second sample."""
    x = next(t for t in tensors((step.args, step.kwargs)) if step.is_live(t))
    sizes = [x.shape[d] for d, form in enumerate(step.forms(x)) if form.moves and not form.exact]
    inner = "" if not sizes or x.is_complex() else f"; sees {size_text(sizes)} samples in training"
    fields = isinstance(step.call.operation, TrailingNorm) and step.arguments.get("weight") is not None
    return (f"; {Reason.PARAMETERS.text()}" if fields else "") + inner


def kind_of(model: nn.Module, module: str, name: str) -> str:
    """What a report calls a function in a module: one of PyTorch's modules by its class."""
    kind = type(model.get_submodule(module))
    return kind.__name__ if kind.__module__.startswith("torch.nn.modules.") else f"call {name}"
