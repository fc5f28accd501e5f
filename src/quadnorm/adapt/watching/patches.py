"""What a mode does not see by itself: autograd functions, checkpoints and ``torch.func`` transforms.

PyTorch's own functions for these are replaced while a mode of ours is active in any thread, and put back afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from quadnorm import _torch
from quadnorm.adapt.trees import tensors

_ORIGINALS: dict[str, Any] = {}  # PyTorch's own functions, by their names


def see_transforms(on_wrap: Callable[[Tensor, Any], None] | None) -> None:
    """Have ``on_wrap(before, after)`` called whenever a transform wraps or unwraps a tensor; None ends that."""
    for path in _torch.WRAPPERS:
        original = _ORIGINALS.setdefault(path, _torch.named(path))
        _torch.exchange(path, original if on_wrap is None else _reporting(original, on_wrap))


def _reporting(original: Any, on_wrap: Callable[[Tensor, Any], None]) -> Any:
    def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tensor, *args, **kwargs)
        if isinstance(tensor, Tensor):
            on_wrap(tensor, result)
        return result

    return wrapper


def hidden_sizes(given: Iterable[Tensor]) -> tuple[int, ...]:
    """Lengths of the axes that ``vmap`` hides from a call with these tensors, the outermost first.

    >>> seen = []
    >>> _ = torch.func.vmap(lambda t: seen.append(hidden_sizes([t])) or t)(torch.zeros(3, 4))
    >>> seen
    [(3,)]
    """
    sizes: dict[int, int] = {}
    for t in given:
        for level, dim, value in _layers(t):
            sizes[level] = value.shape[dim]
    return tuple(sizes[level] for level in sorted(sizes))


def unhidden(t: Tensor) -> Tensor:
    """The values themselves, with the hidden axes in front, the outermost first; ``t`` if no transform wraps it."""
    layers = _layers(t)
    value = layers[-1][2] if layers else t
    while _torch.functorch("is_gradtrackingtensor")(value):
        value = _torch.functorch("get_unwrapped")(value)
    free = list(range(value.ndim))
    dims = [free.pop(dim) for _, dim, _ in reversed(layers)]  # each level counts only what those around it left
    return value.movedim(dims, list(range(len(dims)))) if dims else value


def _layers(t: Tensor) -> list[tuple[int, int, Tensor]]:
    """(level, hidden dimension, the tensor that has it) for each ``vmap`` around a tensor, the innermost first."""
    layers = []
    while True:
        if _torch.functorch("is_batchedtensor")(t):
            level, dim = _torch.functorch("maybe_get_level")(t), _torch.functorch("maybe_get_bdim")(t)
            t = _torch.functorch("get_unwrapped")(t)
            layers.append((level, dim, t))
        elif _torch.functorch("is_gradtrackingtensor")(t):
            t = _torch.functorch("get_unwrapped")(t)
        else:
            return layers


LIVE = "_quadnorm_live"  # the attribute of a live tensor that says in which run it is
_LOCK = threading.Lock()
_ACTIVE = threading.local()  # .modes: those of this thread, the innermost last
_USERS = 0  # active modes of all threads

_APPLY = torch.autograd.Function.__dict__["apply"]


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


def is_watched() -> bool:
    """Whether a mode of ours sees the calls of this thread."""
    return bool(_modes())


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
            _ORIGINALS.setdefault(_torch.CHECKPOINT, _torch.named(_torch.CHECKPOINT))
            _torch.exchange(_torch.CHECKPOINT, _seen_checkpoint)
        elif _USERS == 0:
            torch.autograd.Function.apply = _APPLY  # type: ignore[method-assign]
            see_transforms(None)
            _torch.exchange(_torch.CHECKPOINT, _ORIGINALS[_torch.CHECKPOINT])


def _seen_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``Function.apply`` as one call, not as the calls inside its forward, whose derivative it brings itself."""
    modes = _modes()
    if not modes or _torch.current_function_mode() is not modes[-1]:
        return _apply_of(cls)(*args, **kwargs)
    with _torch.without_function_modes():
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
    return iter([None]) if _modes() else _ORIGINALS[_torch.CHECKPOINT](*args, **kwargs)
