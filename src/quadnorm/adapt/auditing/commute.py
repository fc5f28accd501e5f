"""What a single module does to a change of grid: restrict then apply, against apply then restrict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.patches import unhidden
from quadnorm.adapt.trees import tensors
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Restriction:
    """R from one grid to another, for everything that a module may be given."""

    source: Shape
    target: Shape
    placements: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        """Tensors with the source grid's axes, flattened or not; shapes; and nested tuples, lists and dicts of them."""
        if isinstance(value, Tensor):
            return self.field(value)
        if isinstance(value, (tuple, list)):
            if all(isinstance(n, int) for n in value) and tuple(value) == self.source:
                return type(value)(self.target) if isinstance(value, list) else self.target
            return type(value)(self(v) for v in value) if type(value) in (tuple, list) else value
        if type(value) is dict:
            return {k: self(v) for k, v in value.items()}
        return value

    def field(self, t: Tensor) -> Tensor:
        """One tensor; unchanged if the source grid is not in its shape."""
        d = len(self.source)
        if not t.is_floating_point():
            return t
        if t.ndim > d and tuple(t.shape[-d:]) == self.source:
            return carry(t, self.target, self.placements)
        if t.ndim > d + 1 and tuple(t.shape[1 : 1 + d]) == self.source:
            moved = t.movedim(tuple(range(1, 1 + d)), tuple(range(-d, 0)))
            return carry(moved, self.target, self.placements).movedim(tuple(range(-d, 0)), tuple(range(1, 1 + d)))
        if d > 1 and prod(self.source) in t.shape:
            axis = t.ndim - 1 - list(t.shape[::-1]).index(prod(self.source))
            grid = t.movedim(axis, -1)
            grid = grid.reshape(*grid.shape[:-1], *self.source)
            return carry(grid, self.target, self.placements).flatten(-d).movedim(-1, axis)
        return t


@dataclass
class Gaps:
    """Relative differences by module name: ``introduced`` by itself, ``cumulative`` against a reference run's."""

    introduced: dict[str, float] = field(default_factory=dict)
    cumulative: dict[str, float] = field(default_factory=dict)


def relative(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖."""
    return float((a - b).norm() / b.norm().clamp_min(torch.finfo(b.dtype).tiny))


def module_outputs(model: nn.Module, x: Any) -> dict[str, Tensor]:
    """The first real tensor that each module returns in its first call, by the module's name."""
    names = {m: n for n, m in model.named_modules()}
    outputs: dict[str, Tensor] = {}

    def leave(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> None:
        output = _first_tensor(returned)
        if output is not None and output.is_floating_point():
            outputs.setdefault(names[module], unhidden(output))

    with _hooked(names, leave), torch.no_grad():
        model(x)
    return outputs


def module_gaps(
    model: nn.Module, x: Any, restriction: Restriction, reference: Mapping[str, Tensor] | None = None
) -> Gaps:
    """Run the model on x and compare each module's output with that for its restricted input.

    A module that is called several times counts with its worst call. ``reference``: outputs of the run on the
    restricted x, for the cumulative gaps.
    """
    gaps, busy = Gaps(), False
    names = {m: n for n, m in model.named_modules()}

    def leave(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> None:
        nonlocal busy
        output = _first_tensor(returned)
        if busy or output is None or not output.is_floating_point():
            return
        name = names[module]
        coarse = unhidden(restriction.field(output))
        if reference is not None and name in reference and reference[name].shape == coarse.shape:
            gaps.cumulative.setdefault(name, relative(coarse, reference[name]))
        busy = True  # the module's parts run again too
        try:
            again = _on_restricted(module, args, kwargs, restriction)
        finally:
            busy = False
        if again is not None and again.shape == coarse.shape:
            gaps.introduced[name] = max(gaps.introduced.get(name, 0.0), relative(again, coarse))

    with _hooked(names, leave), torch.no_grad():
        model(x)
    return gaps


def _on_restricted(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], restriction: Restriction
) -> Tensor | None:
    """What a module gives for restricted arguments; None if these are the same, or it cannot run on them alone."""
    inputs, options = restriction(args), restriction(kwargs)
    if not _changed(args, inputs) and not _changed(tuple(kwargs.values()), tuple(options.values())):
        return None
    try:
        again = _first_tensor(module.forward(*inputs, **options))
        return None if again is None else unhidden(again)
    except Exception:  # the module is anybody's
        return None


def _first_tensor(value: Any) -> Tensor | None:
    """The first tensor of what a module returned; attention also returns its weights."""
    return next(iter(tensors(value)), None)


@contextmanager
def _hooked(modules: Mapping[nn.Module, str], hook: Any) -> Iterator[None]:
    handles = [
        m.register_forward_hook(hook, with_kwargs=True) for m in modules if not isinstance(m, torch.jit.ScriptModule)
    ]
    try:
        yield
    finally:
        for h in handles:
            h.remove()


def _changed(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    return any(isinstance(a, Tensor) and a is not b for a, b in zip(before, after, strict=True))
