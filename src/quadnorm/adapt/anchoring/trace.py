"""One run at the training resolution: which shapes each module sees, and which sums happen outside of modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from quadnorm.adapt.anchoring.calls import why_it_depends
from quadnorm.adapt.calls.contractions import PRODUCTS
from quadnorm.adapt.calls.live import uncompiled
from quadnorm.adapt.calls.names import canonical
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.calls.watch import advice_on_gradients
from quadnorm.measures.base import Shape

WEIGHTED = {*PRODUCTS.split(), *(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)), "bilinear"}
Example = Tensor | tuple[Any, ...] | Mapping[str, Any]


@dataclass
class Trace:
    """Shapes by module name (of the first tensor in ``shapes``, of all in ``inputs``), spatial calls outside of known
    modules as (module, call, what), the ids of tensors that products contract with, and the output."""

    shapes: dict[str, list[Shape]] = field(default_factory=dict)
    inputs: dict[str, list[tuple[Shape, ...]]] = field(default_factory=dict)
    outputs: dict[str, list[Shape]] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    output: Any = None
    weights: set[int] = field(default_factory=set)  # ids of the tensors that products contract with


def scratch(model: nn.Module) -> nn.Module:
    """A copy for trial runs, in eval mode: parameters shared, buffers and everything else its own."""
    memo: dict[int, Any] = {id(p): p for p in model.parameters()}
    return copy.deepcopy(model, memo).eval()


def call(model: nn.Module, example: Example) -> Any:
    """Run on a tensor, a tuple of arguments or a dict of keyword arguments; no gradients, random numbers left alone."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), uncompiled(), advice_on_gradients():
        if isinstance(example, Tensor):
            return model(example)
        return model(**example) if isinstance(example, Mapping) else model(*example)


def trace(model: nn.Module, example: Example, resolution: Shape, known: Callable[[nn.Module], bool]) -> Trace:
    """Run a scratch copy and watch. Calls inside modules that are ``known`` are theirs and not listed."""
    trial, record = scratch(model), Trace()
    stack: list[tuple[str, bool]] = []
    names = {m: n for n, m in trial.named_modules()}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stack.append((names[module], known(module)))
        first = tensors([args, kwargs])
        if first:
            record.shapes.setdefault(names[module], []).append(tuple(first[0].shape))
            record.inputs.setdefault(names[module], []).append(tuple(tuple(t.shape) for t in first))

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        stack.pop()
        last = tensors(output)
        if last:
            record.outputs.setdefault(names[module], []).append(tuple(last[0].shape))

    for m in names:
        if not isinstance(m, torch.jit.ScriptModule):
            m.register_forward_pre_hook(enter, with_kwargs=True)
            m.register_forward_hook(leave)
    with _Watch(record, stack, resolution):
        record.output = call(trial, example)
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
            what = why_it_depends(self.resolution, func, args, kwargs or {}, result)
            entry = (self.stack[-1][0], getattr(func, "__name__", str(func)), what)
            if what and entry not in self.record.calls:
                self.record.calls.append(entry)
        return result


# --- an example when none is given -----------------------------------------------------------------------------------


def guess_dimension(model: nn.Module) -> int | None:
    """Number of spatial axes, from the model's own word or from modules that exist in one dimension only."""
    for name in ("dim", "n_dim", "ndim"):
        d = getattr(model, name, None)
        if isinstance(d, int) and not isinstance(d, bool) and 1 <= d <= 3:
            return d
    dimensions: set[int] = set()
    for m in model.modules():
        kind, kept = type(m).__name__, getattr(getattr(m, "modes", None), "kept", None)
        if isinstance(getattr(m, "n_dim", None), int):
            dimensions.add(m.n_dim)  # type: ignore[arg-type]
        elif isinstance(getattr(m, "dim", None), int) and isinstance(getattr(m, "placement", None), str):
            dimensions.add(m.dim)  # type: ignore[arg-type]
        elif kept is not None:
            dimensions.add(len(kept))
        elif kind[-2:] in ("1d", "2d", "3d"):
            dimensions.add(int(kind[-2]))
    if len(dimensions) > 1:  # 1-D modules also serve as pointwise maps on flattened grids
        dimensions.discard(1)
    return dimensions.pop() if len(dimensions) == 1 else None


def guess_examples(model: nn.Module, resolution: Shape) -> Iterable[Tensor]:
    """Random inputs that the model might accept: (1, C, *spatial) and (1, *spatial, C).

    C is what the first module with channels takes, or less by the coordinates that the model may add itself, or small.
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    channels = _channels(model) or 1
    random = torch.Generator("cpu").manual_seed(0)
    for c in dict.fromkeys((channels, channels - len(resolution), 1, 2, 3)):
        if c > 0:
            x = torch.randn(1, c, *resolution, generator=random, device="cpu").to(like.device, like.dtype)
            yield x
            yield x.movedim(1, -1)


def _channels(model: nn.Module) -> int | None:
    for m in model.modules():
        for name in ("in_channels", "in_features", "num_channels", "num_features"):
            c = getattr(m, name, None)
            if isinstance(c, int):
                return c
    return None
