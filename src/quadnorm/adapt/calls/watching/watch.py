"""One run of a model, watched: the calls on live tensors in order, with the shapes and numbers they were given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.calls.functions.names import JOINED, MEETS, writes
from quadnorm.adapt.calls.trees import tensors, without_tensors
from quadnorm.adapt.calls.watching.live import Live, opaque_modules
from quadnorm.adapt.calls.watching.quiet import leaving_no_trace, without_fast_paths
from quadnorm.adapt.calls.watching.transforms import hidden_sizes, unhidden
from quadnorm.measures.base import Shape


@dataclass
class WatchedCall:
    """One call: its function's canonical name, and what it was given and returned."""

    name: str
    module: str  # the path of the module that made it
    inplace: bool
    live: tuple[bool, ...]  # whether each tensor among the arguments comes from the model's input
    argument_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    constants: tuple[Tensor | None, ...]  # the tensors among the arguments that are not live
    args: Any = None  # with tensors left out
    kwargs: Any = None
    hidden_sizes: Shape = ()  # lengths of the axes that a ``vmap`` around the call hides


@dataclass
class WatchedRun:
    """All calls of a run, and the model's output."""

    calls: list[WatchedCall] = field(default_factory=list)
    output: Any = None


class Watch(Live):
    """Lists the calls of a run without changing any."""

    def __init__(self, modules: list[str]) -> None:
        super().__init__()
        self.run, self.modules = WatchedRun(), modules

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        given = tensors((args, kwargs))
        live = tuple(self.is_live(t) for t in given)
        shapes = _shapes(given)
        # What is written into has other values afterwards, which are no constants.
        before = [given[0].clone(), *given[1:]] if given and not live[0] and writes(func) else given
        try:
            result = func(*args, **kwargs)
        except RuntimeError:
            result = _stand_in(name, args, kwargs, live)
            if result is None:
                raise
        if gives_tensors(func, result):
            call = WatchedCall(
                name=name,
                module=self.modules[-1] if self.modules else "",
                inplace=writes(func),
                live=live,
                argument_shapes=shapes,
                result_shapes=_shapes(result),
                constants=tuple(None if a else unhidden(t) for a, t in zip(live, before, strict=True)),
                args=without_tensors(args),
                kwargs=without_tensors(kwargs),
                hidden_sizes=hidden_sizes(given),
            )
            self.run.calls.append(call)
        return result

    def on_constants(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not tensors((args, kwargs)):  # such as the call by which a model itself sets whether there are gradients
            return func(*args, **kwargs)
        with torch.enable_grad():  # shows which of them depend on parameters
            return func(*args, **kwargs)

    def on_module(self, name: str, given: Any, output: Any) -> None:
        """A module that counts as one call."""
        live = tuple(self.is_live(t) for t in tensors(given))
        constants = (None,) * len(live)
        self.run.calls.append(
            WatchedCall("module", name, False, live, _shapes(given), _shapes(output), constants, (), {})
        )


def _shapes(value: Any) -> tuple[Shape, ...]:
    return tuple(tuple(t.shape) for t in tensors(value))


def _stand_in(name: str, args: Any, kwargs: Any, live: tuple[bool, ...]) -> Tensor | None:
    """Zeros of the result's shape for a call that fails on another grid because it holds the training grid's size.

    Such as a norm's ``normalized_shape``, a learned field that is added, a stored grid of coordinates beside it. None
    for other calls.
    """
    given = tensors((args, kwargs))
    if name in ("layer_norm", "rms_norm"):
        return torch.zeros_like(given[0])
    if name not in MEETS or all(live) or not any(live):
        return None
    largest = max((t for t, a in zip(given, live, strict=True) if a), key=lambda t: t.ndim)
    if name not in JOINED:
        return torch.zeros_like(largest)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % (largest.ndim + (name == "stack"))
    shape = list(largest.shape)
    if name == "stack":
        shape.insert(dim, len(given))
    else:
        shape[dim] = sum(t.shape[dim] for t in given)
    return largest.new_zeros(shape)


def gives_tensors(func: Any, result: Any) -> bool:
    """Whether a call takes part in the order of calls: it returns tensors, or writes into one."""
    return writes(func) or bool(tensors(result))


@contextmanager
def module_stack(model: nn.Module) -> Iterator[list[str]]:
    """The names of the modules whose forward is running, innermost last."""
    stack: list[str] = []
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue

        def enter(module: nn.Module, args: Any, name: str = name) -> None:
            stack.append(name)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            stack.pop()

        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave, always_call=True)]
    try:
        yield stack
    finally:
        for h in handles:
            h.remove()


def watched(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    live: Callable[[Any], Any],
    opaque: frozenset[str] = frozenset(),
) -> WatchedRun:
    """Run the model on arguments whose tensors are all declared live; no gradients, no change of its buffers."""
    with leaving_no_trace(model), without_fast_paths(), module_stack(model) as stack:
        watch = Watch(stack)
        args, kwargs = watch.mark(live(args)), watch.mark(live(kwargs))
        with watch, opaque_modules(model, opaque, watch):
            watch.run.output = model(*args, **kwargs)
    return watch.run
