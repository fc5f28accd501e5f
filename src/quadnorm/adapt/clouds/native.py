"""A model run on the points it was trained on, fields carried there and back by lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.clouds.arguments import point_axes
from quadnorm.adapt.trees import is_record, mapped, tensors
from quadnorm.carry.scattered import linear_map

COORDINATES = ("coordinates", "coords", "pos", "points", "positions", "xyz")  # names that people give them


class AtNativePoints(nn.Module):
    """:func:`quadnorm.at_native` for models on scattered points: every field is carried to the training points by
    lines, the model runs there, and its output is carried back.

    The model is called as this is: ``wrapped(x, pos)``, ``wrapped(x, coordinates=r)``, ``wrapped(data)``; where the
    new points' coordinates stand, it is given the training points. Fields have one axis of points, anywhere. A model
    that can be asked for outputs at points of its caller's choice is asked, and nothing is carried back: ``queries``
    names the argument.
    """

    points: Tensor
    weights: Tensor | None

    def __init__(
        self,
        model: nn.Module,
        points: Any,
        weights: Any = None,
        queries: str | None = None,
        coordinates: str | int | None = None,
    ) -> None:
        super().__init__()
        self.model, self.queries, self.coordinates = model, queries, coordinates
        p = torch.as_tensor(points).detach().clone()
        if p.ndim != 2:
            raise ValueError(f"the training points must have shape (N, d), got {tuple(p.shape)}")
        self.register_buffer("points", p, persistent=False)
        w = None if weights is None else torch.as_tensor(weights).detach().clone()
        self.register_buffer("weights", w, persistent=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's arguments at other points; ``weights`` of the new points are not needed and not used."""
        if self.weights is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "weights"}
        r, replaced = self._coordinates(args, kwargs)
        if r.ndim == 3 and len(r) > 1 and not bool((r == r[:1]).all()):
            return self._each(args, kwargs, r)
        places = r.reshape(-1, *r.shape[-2:])[0] if r.ndim == 3 else r
        index, weight = linear_map(places, self.points)
        axes = point_axes((args, kwargs), len(places)) if len(places) else ()
        order = iter(axes)

        def to_native(t: Tensor) -> Tensor:
            axis = next(order)
            if replaced(t):
                return self._own(t)
            return t if axis is None else _carried(t, axis, index, weight)

        native, options = mapped(to_native, (args, kwargs))
        if isinstance(self.coordinates, int):
            native, options = self._with_own_channels((native, options))
        if self.weights is not None:
            options = {**options, "weights": self.weights}
        if self.queries is not None:
            return self.model(*native, **{**options, self.queries: places})
        y = self.model(*native, **options)
        back, share = linear_map(self.points, places)

        def to_new(t: Tensor) -> Tensor:
            found = [k for k, n in enumerate(t.shape) if n == len(self.points)]
            return _carried(t, found[0], back, share) if found else t

        return mapped(to_new, y)

    def _coordinates(self, args: Any, kwargs: Any) -> tuple[Tensor, Callable[[Tensor], bool]]:
        """The new points' coordinates, and which tensor they are."""
        d = self.points.shape[1]
        if isinstance(self.coordinates, int):
            x = tensors((args, kwargs))[0]
            if x.shape[-1] < self.coordinates + d:
                raise ValueError(
                    f"coordinates={self.coordinates} says that the {d} channels from there on are coordinates, but the "
                    f"input has shape {tuple(x.shape)}"
                )
            return x[..., self.coordinates : self.coordinates + d].detach(), lambda t: False
        named = [
            t for name, t in _named(args, kwargs) if name in ((self.coordinates,) if self.coordinates else COORDINATES)
        ]
        others = tensors((args, kwargs))[1:] if not named and self.coordinates is None else []
        found = named or [t for t in others if t.ndim in (2, 3) and t.shape[-1] == d and t.is_floating_point()]
        if not found:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors((args, kwargs))) or "no tensor"
            raise ValueError(
                f"found no coordinates (M, {d}) or (B, M, {d}) among the arguments, got {shapes}; "
                "at_native(…, coordinates=) takes the argument's name, or the number of the first channel if they are "
                "channels of the input"
            )
        r = torch.as_tensor(found[0])
        x = tensors((args, kwargs))[0]
        if r.ndim not in (2, 3) or r.shape[-1] != d or (x is not r and r.shape[-2] not in x.shape):
            raise ValueError(
                f"expected x (B, M, C) and coordinates (M, {d}) or (B, M, {d}) of the same points, got "
                f"{tuple(x.shape)} and {tuple(r.shape)}"
            )
        return r.detach(), lambda t: t is found[0]

    def _own(self, r: Tensor) -> Tensor:
        """The training points in the place of r."""
        own = self.points.to(r)
        return own if r.ndim == 2 else own.expand(len(r), -1, -1)

    def _with_own_channels(self, arguments: Any) -> Any:
        """The first field with the training points' coordinates among its channels."""
        assert isinstance(self.coordinates, int)
        first, at, d = tensors(arguments)[0], self.coordinates, self.points.shape[1]
        own = self.points.to(first).expand(*first.shape[:-1], d)
        x = torch.cat([first[..., :at], own, first[..., at + d :]], -1)
        return mapped(lambda t: x if t is first else t, arguments)

    def _each(self, args: Any, kwargs: Any, r: Tensor) -> Any:
        """Samples with points of their own, one after the other."""
        outputs = []
        for b in range(len(r)):
            one = mapped(lambda t: t[b : b + 1] if t.ndim and len(t) == len(r) else t, (args, kwargs))  # noqa: B023
            outputs.append(self(*one[0], **one[1]))
        parts = zip(*(tensors(y) for y in outputs), strict=True)
        return mapped(lambda t: torch.cat(next(parts)), outputs[0])


def _carried(t: Tensor, axis: int, index: Tensor, weight: Tensor) -> Tensor:
    """A field at other points, Σ_k w_k f(s_k) along its axis of points; labels take the value with the most weight."""
    index, weight = index.to(t.device), weight.to(t.device)
    if not (t.is_floating_point() or t.is_complex()):
        return t.index_select(axis, index.gather(1, weight.argmax(1, keepdim=True))[:, 0])
    y = t.movedim(axis, -1)[..., index]  # (..., M, d+1)
    return (y * weight.to(t.dtype)).sum(-1).movedim(-1, axis)


def _named(args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """Keyword arguments, and the entries of dicts and records among the arguments, by their names."""
    for name, value in kwargs.items():
        yield name, value
    for value in chain(args, kwargs.values()):
        if isinstance(value, Mapping):
            yield from value.items()
        elif is_record(value):
            yield from ((name, value[name]) for name in value.keys())  # noqa: SIM118  PyG's is a method
