"""A mode that sees every call on tensors that come from the model's input, in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from quadnorm.adapt.calls.functions.names import canonical, writes
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.calls.watching import patches
from quadnorm.adapt.calls.watching.patches import LIVE


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
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exc: Any) -> Any:
        patches.leave()
        return super().__exit__(*exc)  # type: ignore[no-untyped-call]


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
