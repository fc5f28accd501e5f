"""``torch.func`` transforms: ``vmap`` hides an axis of a tensor, ``grad`` wraps it; what they do is made visible."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

_FUNCTORCH: Any = torch._C._functorch

# Every transform makes its tensors with these, below the level at which calls are seen.
_WRAPPERS = {
    "torch._functorch.vmap": ("_add_batch_dim", "_remove_batch_dim"),
    "torch._functorch.eager_transforms": ("_wrap_for_grad", "_unwrap_for_grad"),
}
_ORIGINALS: dict[tuple[str, str], Any] = {}


def see_transforms(on_wrap: Callable[[Tensor, Any], None] | None) -> None:
    """Have ``on_wrap(before, after)`` called whenever a transform wraps or unwraps a tensor; None ends that.

    The functions are private to PyTorch: a version without one of them has transforms that are not seen through.
    """
    for path, names in _WRAPPERS.items():
        module = importlib.import_module(path)
        for name in names:
            original = _ORIGINALS.setdefault((path, name), getattr(module, name, None))
            if original is not None:
                setattr(module, name, original if on_wrap is None else _reporting(original, on_wrap))


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
    while _FUNCTORCH.is_gradtrackingtensor(value):
        value = _FUNCTORCH.get_unwrapped(value)
    free = list(range(value.ndim))
    dims = [free.pop(dim) for _, dim, _ in reversed(layers)]  # each level counts only what those around it left
    return value.movedim(dims, list(range(len(dims)))) if dims else value


def _layers(t: Tensor) -> list[tuple[int, int, Tensor]]:
    """(level, hidden dimension, the tensor that has it) for each ``vmap`` around a tensor, the innermost first."""
    layers = []
    while True:
        if _FUNCTORCH.is_batchedtensor(t):
            level, dim = _FUNCTORCH.maybe_get_level(t), _FUNCTORCH.maybe_get_bdim(t)
            t = _FUNCTORCH.get_unwrapped(t)
            layers.append((level, dim, t))
        elif _FUNCTORCH.is_gradtrackingtensor(t):
            t = _FUNCTORCH.get_unwrapped(t)
        else:
            return layers
