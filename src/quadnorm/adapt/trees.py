"""Tensors inside nested arguments and results: tuples, lists, dicts, dataclasses and records such as graphs' data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # (args, kwargs) of a call


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists, mappings and dataclasses, in order.

    >>> import torch
    >>> len(tensors({"u": torch.zeros(1), "more": [torch.zeros(2), (3, torch.zeros(4))]}))
    3
    """
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, Mapping):
        return [t for v in value.values() for t in tensors(v)]
    if is_dataclass(value) and not isinstance(value, type):
        return [t for f in fields(value) for t in tensors(getattr(value, f.name))]
    if is_record(value):
        return [t for name in value.keys() for t in tensors(value[name])]  # noqa: SIM118  a method, no mapping
    return []


def is_record(value: Any) -> bool:
    """Whether an object holds named values without being a mapping, as PyTorch Geometric's ``Data`` does."""
    has = (callable(getattr(type(value), name, None)) for name in ("keys", "__getitem__", "__setitem__"))
    return not isinstance(value, (Mapping, Tensor, type)) and all(has)


def as_arguments(example: Any) -> Arguments:
    """A tensor, a tuple of arguments or a dict of keyword arguments, as (args, kwargs)."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, (tuple, list)) else ((example,), {})


def mapped(fn: Callable[[Tensor], Any], value: Any) -> Any:
    """The same nesting with every tensor t replaced by fn(t)."""
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(fn, v) for v in value))
    if isinstance(value, tuple):
        items = tuple(mapped(fn, v) for v in value)
        return items if type(value) is tuple else _rebuilt(value, items)
    if isinstance(value, list):
        return [mapped(fn, v) for v in value]
    if isinstance(value, Mapping):
        pairs = {k: mapped(fn, v) for k, v in value.items()}
        if type(value) is dict:
            return pairs
        try:  # such as the ordered outputs of transformer libraries
            return type(value)(**pairs)
        except TypeError:
            return type(value)(pairs)  # type: ignore[call-arg]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: mapped(fn, getattr(value, f.name)) for f in fields(value) if f.init})
    if is_record(value):
        other = copy.copy(value)
        for name in value.keys():  # noqa: SIM118
            other[name] = mapped(fn, value[name])
        return other
    return value


def _rebuilt(value: tuple[Any, ...], items: tuple[Any, ...]) -> Any:
    """A tuple type of torch's own (``torch.return_types``), or a plain tuple."""
    try:
        return type(value)(items)
    except TypeError:
        return items


class _Tensor:
    """Stands where a tensor was among the arguments."""

    def __repr__(self) -> str:
        return "tensor"


TENSOR = _Tensor()


def without_tensors(value: Any) -> Any:
    """The nested value with ``TENSOR`` in place of every tensor, for comparison from run to run."""
    if isinstance(value, Tensor):
        return TENSOR
    if isinstance(value, (tuple, list)):
        return tuple(without_tensors(v) for v in value)
    if isinstance(value, dict):
        return {k: without_tensors(v) for k, v in value.items()}
    return value


def with_tensors(value: Any, given: Iterator[Tensor]) -> Any:
    """A result of :func:`without_tensors` with the given tensors in their places, in order.

    >>> import torch
    >>> with_tensors(without_tensors((torch.zeros(1), {"dim": 1})), iter([torch.ones(1)]))
    (tensor([1.]), {'dim': 1})
    """
    if value is TENSOR:
        return next(given)
    if isinstance(value, tuple):
        return tuple(with_tensors(v, given) for v in value)
    if isinstance(value, dict):
        return {k: with_tensors(v, given) for k, v in value.items()}
    return value
