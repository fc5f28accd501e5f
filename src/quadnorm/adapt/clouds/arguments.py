"""Points among a model's arguments: their axes, subsets of them, and several clouds in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.trees import Arguments, is_record, mapped, tensors

Axes = tuple[int | None, ...]  # of each tensor among the arguments, in order: its axis of points, if it has one
Run = Callable[..., Any]  # takes a model's arguments for one cloud


def point_axes(value: Any, count: int) -> Axes:
    """The axis of every tensor that has ``count`` entries; None for tensors without one.

    >>> point_axes((torch.zeros(2, 50, 3), torch.zeros(50, 2), torch.zeros(2)), 50)
    (1, 0, None)
    """
    axes: list[int | None] = []
    for t in tensors(value):
        found = [k for k, n in enumerate(t.shape) if n == count]
        if len(found) > 1:
            raise ValueError(
                f"a tensor of shape {tuple(t.shape)} has {count} entries along {len(found)} axes, and any of them "
                "may run over the points; pass an example with a batch or a number of channels other than "
                f"{count}"
            )
        axes.append(found[0] if found else None)
    return tuple(axes)


def taken(value: Any, axes: Axes, index: Tensor) -> Any:
    """The points ``index`` of every tensor with an axis of points."""
    order = iter(axes)

    def take(t: Tensor) -> Tensor:
        axis = next(order)
        return t if axis is None else t.index_select(axis, index.to(t.device))

    return mapped(take, value)


def each_cloud(run: Run, arguments: Arguments, ranks: tuple[int, ...], options: Mapping[str, Any]) -> list[Any] | None:
    """The outputs for lists of clouds, one after the other; None if the arguments are no lists.

    ``ranks``: how many axes the model's tensors have; ``options`` are lists too, with an entry for each cloud.
    """
    lists = [a for a in chain(arguments[0], arguments[1].values()) if _is_list_of_tensors(a)]
    if not lists:
        return None
    if len({len(a) for a in lists}) > 1:
        raise ValueError(f"the lists among the arguments have {', '.join(str(len(a)) for a in lists)} clouds")
    results = []
    for k in range(len(lists[0])):
        one = _entry(arguments, k)
        alone = tuple(t.ndim for t in tensors(one)) != ranks
        if alone:  # without an axis for the batch, which the model expects
            order = iter(ranks)
            one = mapped(lambda t: t[None] if t.ndim < next(order) else t, one)  # noqa: B023
        y = run(*one[0], **one[1], **{name: v[k] for name, v in options.items() if v is not None})
        results.append(mapped(lambda t: t[0], y) if alone else y)
    return results


def each_graph(run: Run, arguments: Arguments, options: Mapping[str, Any]) -> Any:
    """The output for an object with several graphs (``data.batch``), one after the other; None for others."""
    record = next((a for a in chain(arguments[0], arguments[1].values()) if is_record(a)), None)
    batch = None if record is None else getattr(record, "batch", None)
    if not isinstance(batch, Tensor) or batch.ndim != 1 or not len(batch) or int(batch.max()) == 0:
        return None
    if any(v is not None for v in options.values()):
        raise ValueError(f"{', '.join(options)} are for one cloud; call the model with one graph at a time")
    total, axes = len(batch), point_axes(arguments, len(batch))
    graphs = int(batch.max()) + 1
    where = [(batch == g).nonzero()[:, 0] for g in range(graphs)]
    each = (_one_graph(arguments, axes, index, g, graphs) for g, index in enumerate(where))
    outputs = [run(*args, **kwargs) for args, kwargs in each]
    order = torch.cat(where).argsort()
    parts = zip(*(tensors(y) for y in outputs), strict=True)

    def joined(t: Tensor) -> Tensor:
        pieces = next(parts)
        axis = next((k for k, n in enumerate(t.shape) if n == len(where[0])), None)
        if axis is None:
            return torch.cat(pieces) if t.ndim else torch.stack(pieces)
        whole = torch.cat(pieces, axis)
        return whole.index_select(axis, order) if whole.shape[axis] == total else whole

    return mapped(joined, outputs[0])


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(t, Tensor) for t in value)


def _entry(arguments: Arguments, k: int) -> Arguments:
    def pick(a: Any) -> Any:
        return a[k] if _is_list_of_tensors(a) else a

    return tuple(map(pick, arguments[0])), {name: pick(a) for name, a in arguments[1].items()}


def _one_graph(arguments: Any, axes: Axes, index: Tensor, g: int, graphs: int) -> Any:
    """The arguments for graph g of several, whose points are ``index``."""
    order = iter(axes)

    def pick(t: Tensor) -> Tensor:
        axis = next(order)
        if axis is not None:
            part = t.index_select(axis, index.to(t.device))
            return part - part.min() if not part.is_floating_point() and t.ndim == 1 and int(t.max()) < graphs else part
        if t.ndim == 1 and len(t) == graphs + 1 and not t.is_floating_point():  # where each graph begins and ends
            return t[g : g + 2] - t[g]
        return t[g : g + 1] if t.ndim and len(t) == graphs else t

    return mapped(pick, arguments)
