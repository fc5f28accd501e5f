"""One run at the training resolution: which shapes each module sees, and which sums happen outside of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from quadnorm.adapt.anchoring.size_dependence import why_it_depends
from quadnorm.adapt.functions import canonical
from quadnorm.adapt.models import trial_copy
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watch import advice_on_gradients, uncompiled
from quadnorm.measures.base import Shape

PRODUCTS = (
    *("matmul", "rmatmul", "bmm", "mm", "mv", "dot", "vdot", "inner", "linear"),
    *("addmm", "baddbmm", "addbmm", "addmv", "einsum", "tensordot"),
)
WEIGHTED = {*PRODUCTS, *(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)), "bilinear"}
Example = Tensor | tuple[Any, ...] | Mapping[str, Any]


@dataclass
class Trace:
    """What one run showed; dicts are by module name and have an entry for each call of the module."""

    shapes: dict[str, list[Shape]] = field(default_factory=dict)  # of the first tensor among the arguments
    inputs: dict[str, list[tuple[Shape, ...]]] = field(default_factory=dict)  # of all tensors among them
    outputs: dict[str, list[Shape]] = field(default_factory=dict)  # of the first tensor that is returned
    calls: list[tuple[str, str, str]] = field(default_factory=list)  # outside of known modules: module, function, why
    weights: set[int] = field(default_factory=set)  # ids of the tensors that products contract with


def call(model: nn.Module, example: Example) -> Any:
    """Run on a tensor, a tuple of arguments or a dict of keyword arguments; no gradients, random numbers left alone."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), uncompiled(), advice_on_gradients():
        if isinstance(example, Tensor):
            return model(example)
        return model(**example) if isinstance(example, Mapping) else model(*example)


def trace(model: nn.Module, example: Example, resolution: Shape, known: Callable[[nn.Module], bool]) -> Trace:
    """Run a trial copy of the model and watch it; calls inside modules that are ``known`` are not listed."""
    trial, record = trial_copy(model), Trace()
    stack: list[tuple[str, bool]] = []
    names = {m: n for n, m in trial.named_modules()}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stack.append((names[module], known(module)))
        given = tensors([args, kwargs])
        if given:
            record.shapes.setdefault(names[module], []).append(tuple(given[0].shape))
            record.inputs.setdefault(names[module], []).append(tuple(tuple(t.shape) for t in given))

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        stack.pop()
        returned = tensors(output)
        if returned:
            record.outputs.setdefault(names[module], []).append(tuple(returned[0].shape))

    for m in names:
        if not isinstance(m, torch.jit.ScriptModule):
            m.register_forward_pre_hook(enter, with_kwargs=True)
            m.register_forward_hook(leave)
    with _Watch(record, stack, resolution):
        call(trial, example)
    return record


class _Watch(TorchFunctionMode):
    """Lists torch functions that depend on how many samples there are."""

    def __init__(self, record: Trace, stack: list[tuple[str, bool]], resolution: Shape) -> None:
        super().__init__()
        self.record, self.stack, self.resolution = record, stack, resolution

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if canonical(func) in WEIGHTED:
            self.record.weights.update(id(t if t._base is None else t._base) for t in tensors([args, kwargs or {}]))
        if self.stack and not any(known for _, known in self.stack):
            why = why_it_depends(self.resolution, func, args, kwargs or {}, result)
            entry = (self.stack[-1][0], getattr(func, "__name__", str(func)), why)
            if why and entry not in self.record.calls:
                self.record.calls.append(entry)
        return result


# --- an example when none is given -----------------------------------------------------------------------------------
