"""Whether a model has changed between calls in a way that its graphs would not see: attributes, modules, hooks."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm import _torch


class WatchedModel:
    """Tells whether a model has changed in a way that no graph sees: attributes, modules or hooks exchanged."""

    def __init__(self, model: nn.Module, previous: WatchedModel | None = None) -> None:
        self.modules = list(model.modules())
        self.hooks = [h for m in self.modules for h in _hooks(m)]
        self.count = sum(map(len, self.hooks))
        self.children = [(m._modules, tuple(m._modules.values())) for m in self.modules]
        alike = previous is not None and len(previous.modules) == len(self.modules)
        self.left_out: set[tuple[int, str]] = previous.left_out if previous is not None and alike else set()
        self._look()

    def _look(self) -> None:
        self.values: list[tuple[dict[str, Any], int, Any, Any]] = []
        self.versions: list[tuple[Tensor, int]] = []
        for k, m in enumerate(self.modules):
            own = vars(m)
            names = [n for n in own if n not in _PYTORCH and (k, n) not in self.left_out]
            read = itemgetter(*names) if names else _nothing
            self.values.append((own, len(own), read, read(own)))
            self.versions += [(own[n], own[n]._version) for n in names if isinstance(own[n], Tensor)]

    def leave_out(self, names: set[tuple[int, str]]) -> None:
        """Do not look at these attributes, which the model itself changes: (number of the module, name)."""
        if names - self.left_out:
            self.left_out = self.left_out | names
            self._look()

    def has_changed(self) -> bool:
        """Whether anything is not what it was."""
        try:
            return (
                sum(map(len, self.hooks)) != self.count
                or any(read(own) != values or len(own) != n for own, n, read, values in self.values)
                or any(tuple(children.values()) != kept for children, kept in self.children)
                or any(t._version != version for t, version in self.versions)
            )
        except (KeyError, RuntimeError, ValueError):  # gone, or arrays that differ
            return True

    def has_hooks(self) -> bool:
        """Whether a call of the model runs hooks that are not PyTorch's own."""
        everywhere = _torch.global_module_hooks()
        return any(not _is_of_pytorch(hook) for hooks in (*self.hooks, *everywhere) for hook in hooks.values())


def _nothing(own: Any) -> tuple[()]:
    return ()


def _hooks(module: nn.Module) -> tuple[dict[int, Any], ...]:
    """The hooks of a module that run in a forward or backward pass."""
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks


def _is_of_pytorch(hook: Any) -> bool:
    """Whether a hook is one such as that of ``torch.nn.utils.weight_norm``, which a graph records."""
    return (getattr(hook, "__module__", None) or type(hook).__module__).split(".")[0] == "torch"


_PYTORCH = frozenset(vars(nn.Module()))  # attributes that every module has


def attributes(model: nn.Module) -> list[dict[str, Any]]:
    """What each module of a foreign class remembers; of containers their length as well."""
    return [
        {}
        if type(m).__module__.startswith("torch.")
        else {n: _mark(v) for n, v in vars(m).items() if n not in _PYTORCH}
        for m in model.modules()
    ]


def _mark(value: Any) -> Any:
    return (value, len(value)) if isinstance(value, (list, dict, set)) else (value,)


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> set[tuple[int, str]]:
    """Attributes that differ: (number of the module, name)."""
    return {
        (k, n)
        for k, (a, b) in enumerate(zip(before, after, strict=True))
        for n in a.keys() | b.keys()
        if not _same(a.get(n), b.get(n))
    }


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or a[1:] != b[1:]:
        return False
    x, y = a[0], b[0]
    if x is y or type(x) is not type(y):
        return x is y
    if isinstance(x, Tensor):
        return x.shape == y.shape and x.dtype == y.dtype and torch.equal(x, y)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(_same((v,), (w,)) for v, w in zip(x, y, strict=True))
    return isinstance(x, _PLAIN) and x == y


_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device)
