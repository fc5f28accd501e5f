"""One run of a model, seen call by call: the mode that looks, and runs that leave no trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from quadnorm._tensors import directly, is_recording
from quadnorm.adapt.trees import Arguments, tensors, without_tensors
from quadnorm.adapt.watching import patches
from quadnorm.adapt.watching.functions import JOINED, MEETS, canonical, writes
from quadnorm.adapt.watching.patches import LIVE, hidden_sizes, unhidden
from quadnorm.measures.base import Shape


class CannotFollowError(RuntimeError):
    """The model does not run, or not in the same way, on grids other than its training grid."""


class OutOfStepError(CannotFollowError):
    """The forward pass has changed since it was recorded."""


class StatefulError(CannotFollowError):
    """What the model gives depends on the calls before."""


def first_line(error: Exception) -> str:
    r"""The kind of an error and the first line of its message.

    >>> first_line(ValueError("too long\nby far"))
    'ValueError: too long'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def advice_on_gradients() -> Iterator[None]:
    """Say what to do about a model that differentiates in its forward and fails where gradients are off."""
    try:
        yield
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        raise RuntimeError(
            f"the model differentiates in its forward, and fails where gradients are off ({error}); it is run "
            "without them here, as in evaluation: put `with torch.enable_grad():` around the part that differentiates"
        ) from error


@contextmanager
def leaving_no_trace(model: nn.Module, gradients: bool = False) -> Iterator[None]:
    """For runs that leave no trace: no gradients unless asked for, random numbers and buffers as they were."""
    if is_recording():  # tensors have no values, and the model is a twin
        with torch.set_grad_enabled(gradients):
            yield
        return
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    with torch.set_grad_enabled(gradients), torch.random.fork_rng(devices=[]):
        try:
            with advice_on_gradients():
                yield
        finally:
            for b, before in buffers:
                b.data.copy_(before)  # not a change that autograd should see


def trial_output(model: nn.Module, arguments: Arguments) -> Any:
    """The model's output for (args, kwargs), from a run that leaves no trace."""
    with leaving_no_trace(model), uncompiled():
        return model(*arguments[0], **arguments[1])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; afterwards each of its parts is in its own mode, which may not be that of the whole."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run the Python code of modules inside ``torch.compile``."""
    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():  # nothing was compiled, or we are
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Keep PyTorch's attention layers from their fused kernel, and compiled parts of a model from their compiled code.

    Neither would show its calls.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with uncompiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class Live(TorchFunctionMode):
    """Hands each call that involves a tensor derived from the input to :meth:`on_call`.

    Calls on weights, coordinates and other constants alone pass by: models keep some of them from run to run, so that
    only calls on live tensors come in the same order every time. Functions are seen at the level at which they are
    called (``F.group_norm``, not what it consists of), and so is ``autograd.Function.apply``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.token = object()  # of this run, by which its live tensors are known
        self.count = 0  # planned calls so far
        self.paused = 0  # opaque modules that are running

    def mark(self, value: Any) -> Any:
        """Declare every tensor in a result or an input live."""
        for t in tensors(value):
            setattr(t, LIVE, self.token)
        return value

    def is_live(self, t: Tensor) -> bool:
        """Whether the tensor was derived from the input in this run."""
        return getattr(t, LIVE, None) is self.token

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_recording() and (getattr(func, "__module__", None) or "").startswith("quadnorm."):
            func = directly(func)
        if self.paused:
            return func(*args, **kwargs)
        given = tensors((args, kwargs))
        if not any(self.is_live(t) for t in given):
            return self.on_constants(func, args, kwargs)
        if _passes_on(func):
            return self.mark(func(*args, **kwargs))
        result = self.on_call(func, canonical(func), args, kwargs)
        self.mark(result)
        if writes(func) or "out" in kwargs:
            self.mark(args[0] if writes(func) else kwargs["out"])
        return result

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """What to do in place of ``func(*args, **kwargs)``."""
        return func(*args, **kwargs)

    def on_constants(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call on tensors none of which is live."""
        return func(*args, **kwargs)

    def on_module(self, name: str, given: Any, output: Any) -> None:
        """Called after a module that counts as one call."""

    def __enter__(self) -> Any:
        patches.enter(self)
        return super().__enter__()

    def __exit__(self, *exc: Any) -> Any:
        patches.leave()
        return super().__exit__(*exc)


def _passes_on(func: Any) -> bool:
    """Whether a function only waits for a gradient to come by.

    Module hooks and wrappers of ``torch.distributed`` put such functions before and after modules, in one run and not
    in another.
    """
    module = getattr(func, "__module__", None) or ""
    return module.startswith("torch.distributed.") or getattr(func, "__name__", "") == "BackwardHookFunction"


@contextmanager
def opaque_modules(model: nn.Module, names: frozenset[str], mode: Live) -> Iterator[None]:
    """Let the named modules count as one call each, whatever they do inside."""
    handles = []
    for name in names:
        module = model.get_submodule(name)

        def enter(module: nn.Module, args: Any) -> None:
            mode.paused += 1

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any, name: str = name) -> None:
            mode.paused -= 1
            if not mode.paused and any(mode.is_live(t) for t in tensors((args, kwargs))):
                mode.on_module(name, (args, kwargs), output)
                mode.mark(output)

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        yield
    finally:
        for h in handles:
            h.remove()


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
