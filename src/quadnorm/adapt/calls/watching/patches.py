"""What a mode does not see by itself: autograd functions, checkpoints and ``torch.func`` transforms.

PyTorch's own functions for these are replaced while a mode of ours is active in any thread, and put back afterwards.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils import checkpoint

from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.calls.watching.transforms import see_transforms

LIVE = "_quadnorm_live"  # the attribute of a live tensor that says in which run it is
_LOCK = threading.Lock()
_ACTIVE = threading.local()  # .modes: those of this thread, the innermost last
_USERS = 0  # active modes of all threads

_APPLY = torch.autograd.Function.__dict__["apply"]
_CHECKPOINT: Any = getattr(checkpoint, "_checkpoint_without_reentrant_generator", None)


def enter(mode: TorchFunctionMode) -> None:
    """Let a mode of this thread see them from now on."""
    _count_users(+1)
    _ACTIVE.modes = [*_modes(), mode]


def leave() -> None:
    """End that for the mode that was entered last."""
    _ACTIVE.modes = _modes()[:-1]
    _count_users(-1)


def is_function(func: Any) -> bool:
    """Whether a call is a model's own ``autograd.Function``, or a checkpoint that is one: its inside cannot be seen."""
    return getattr(func, "is_function", False) and not func.__module__.startswith("quadnorm.")


def _modes() -> list[Any]:
    return getattr(_ACTIVE, "modes", [])


def _count_users(step: int) -> None:
    """Replace PyTorch's functions when the first mode is entered, put them back when the last is left."""
    global _USERS
    with _LOCK:
        _USERS += step
        if step > 0 and _USERS == 1:
            torch.autograd.Function.apply = classmethod(_seen_apply)  # type: ignore[method-assign,assignment]
            see_transforms(_pass_on_liveness)
            if _CHECKPOINT is not None:
                checkpoint._checkpoint_without_reentrant_generator = _seen_checkpoint
        elif _USERS == 0:
            torch.autograd.Function.apply = _APPLY  # type: ignore[method-assign]
            see_transforms(None)
            if _CHECKPOINT is not None:
                checkpoint._checkpoint_without_reentrant_generator = _CHECKPOINT


def _seen_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``Function.apply`` as one call, not as the calls inside its forward, whose derivative it brings itself."""
    modes = _modes()
    current: Any = _get_current_function_mode
    if not modes or not torch._C._is_torch_function_mode_enabled() or current() is not modes[-1]:
        return _apply_of(cls)(*args, **kwargs)
    with torch._C.DisableTorchFunction():
        return modes[-1].__torch_function__(_apply_of(cls), (), args, kwargs)


@lru_cache(maxsize=1024)
def _apply_of(cls: Any) -> Any:
    """PyTorch's ``apply`` of an autograd function, under the function's own name."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return _APPLY.__get__(None, cls)(*args, **kwargs)

    apply.__name__, apply.__module__, apply.__qualname__ = cls.__name__, cls.__module__, cls.__qualname__
    apply.is_function = True  # type: ignore[attr-defined]
    return apply


def _pass_on_liveness(before: Tensor, after: Any) -> None:
    """A transform such as ``vmap`` gives a tensor another object: it is live if the old one is."""
    run = getattr(before, LIVE, None)
    if run is not None and _modes():
        for t in tensors(after):
            setattr(t, LIVE, run)


def _seen_checkpoint(*args: Any, **kwargs: Any) -> Any:
    """Nothing around a checkpointed call: its recomputation would run without the mode, and compute something else."""
    return iter([None]) if _modes() else _CHECKPOINT(*args, **kwargs)
