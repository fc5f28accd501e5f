"""A mode that sees every call on tensors that come from the model's input, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils import checkpoint

from quadnorm.adapt.calls.functions.names import canonical, writes
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.calls.watching.transforms import see_transforms

_TAG = "_quadnorm_live"
_LOCK = threading.Lock()
_ACTIVE = threading.local()
_USERS = 0


class Live(TorchFunctionMode):
    """Hands each call that involves a tensor derived from the input to :meth:`on_call`.

    Calls on weights, coordinates and other constants alone pass by: models keep some of them from run to run, so that
    only calls on live tensors come in the same order every time. Functions are seen at the level at which they are
    called (``F.group_norm``, not what it consists of), and so is ``autograd.Function.apply``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.token = object()
        self.count = 0
        self.paused = 0

    def mark(self, value: Any) -> Any:
        """Declare every tensor in a result or an input live."""
        for t in tensors(value):
            setattr(t, _TAG, self.token)
        return value

    def is_live(self, t: Tensor) -> bool:
        """Whether the tensor was derived from the input in this run."""
        return getattr(t, _TAG, None) is self.token

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
        _see_functions(+1)
        _ACTIVE.modes = [*getattr(_ACTIVE, "modes", []), self]
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exc: Any) -> Any:
        _ACTIVE.modes = _ACTIVE.modes[:-1]
        _see_functions(-1)
        return super().__exit__(*exc)  # type: ignore[no-untyped-call]


def _passes_on(func: Any) -> bool:
    """Whether a function only waits for a gradient to come by: module hooks and wrappers of ``torch.distributed``
    put such a thing before and after modules, and may be there in one run and not in another."""
    module = getattr(func, "__module__", None) or ""
    return module.startswith("torch.distributed.") or getattr(func, "__name__", "") == "BackwardHookFunction"


_ORIGINAL = torch.autograd.Function.__dict__["apply"]


@lru_cache(maxsize=1024)
def _applied(cls: Any) -> Any:
    def apply(*args: Any, **kwargs: Any) -> Any:
        return _ORIGINAL.__get__(None, cls)(*args, **kwargs)

    apply.__name__, apply.__module__, apply.__qualname__ = cls.__name__, cls.__module__, cls.__qualname__
    apply.is_function = True  # type: ignore[attr-defined]
    return apply


def is_function(func: Any) -> bool:
    """Whether a call is a model's own ``autograd.Function``, or a checkpoint that is one: its inside cannot be seen."""
    return getattr(func, "is_function", False) and not func.__module__.startswith("quadnorm.")


def _seen_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``Function.apply`` as one call, not as the calls inside its forward, whose derivative it brings itself."""
    modes = getattr(_ACTIVE, "modes", ())
    current: Any = _get_current_function_mode
    if not modes or not torch._C._is_torch_function_mode_enabled() or current() is not modes[-1]:
        return _applied(cls)(*args, **kwargs)
    with torch._C.DisableTorchFunction():
        return modes[-1].__torch_function__(_applied(cls), (), args, kwargs)


def _through_transform(before: Tensor, after: Any) -> None:
    """A transform such as ``vmap`` gives a tensor another object: it is live if the old one is."""
    tag = getattr(before, _TAG, None)
    modes = getattr(_ACTIVE, "modes", ())
    if tag is not None and modes:
        for t in tensors(after):
            setattr(t, _TAG, tag)


_CHECKPOINT: Any = getattr(checkpoint, "_checkpoint_without_reentrant_generator", None)


def _seen_checkpoint(*args: Any, **kwargs: Any) -> Any:
    """Nothing around a checkpointed call: its recomputation would run without the mode, and compute something else."""
    return iter([None]) if getattr(_ACTIVE, "modes", ()) else _CHECKPOINT(*args, **kwargs)


def _see_functions(step: int) -> None:
    global _USERS
    with _LOCK:
        _USERS += step
        if step > 0 and _USERS == 1:
            torch.autograd.Function.apply = classmethod(_seen_apply)  # type: ignore[method-assign,assignment]
            see_transforms(_through_transform)
            if _CHECKPOINT is not None:
                checkpoint._checkpoint_without_reentrant_generator = _seen_checkpoint
        elif _USERS == 0:
            torch.autograd.Function.apply = _ORIGINAL  # type: ignore[method-assign]
            see_transforms(None)
            if _CHECKPOINT is not None:
                checkpoint._checkpoint_without_reentrant_generator = _CHECKPOINT


@contextmanager
def opaque_modules(model: nn.Module, names: frozenset[str], mode: Live) -> Iterator[None]:
    """Let modules count as one call each: what they do inside is theirs."""
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
