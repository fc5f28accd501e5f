"""Which grid samples in a row make: read from the model's input, or asked for, and never guessed."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import tensors
from quadnorm.measures import Anchored
from quadnorm.measures.base import Shape


class RunningGrid:
    """The grid on which a model is running; its modules that see samples in a row share one such object.

    Each thread has its own entry. A compiled model has one for all, read while it is traced.
    """

    def __init__(self) -> None:
        self.grids: dict[int, Shape] = {}

    @staticmethod
    def _thread() -> int:
        return 0 if torch.compiler.is_compiling() else threading.get_ident()

    def enter(self, grid: Shape | None) -> None:
        if grid is not None:
            self.grids[self._thread()] = grid

    def leave(self) -> None:
        self.grids.pop(self._thread(), None)

    @property
    def now(self) -> Shape | None:
        return self.grids.get(self._thread())

    def __getstate__(self) -> dict[str, Any]:
        return {"grids": {}}  # a copy is not running


def grid_of_row(measure: Anchored, spatial: Shape, running: RunningGrid | None) -> Shape:
    """The grid's shape, also where a module sees all samples along one axis.

    N samples in a row are the grid on which the model runs, or the training grid if they are as many and nothing else
    is known.
    """
    if len(spatial) == len(measure.anchor) or len(spatial) != 1:
        return spatial
    (samples,) = spatial
    now = None if running is None else running.now
    if now is not None and prod(now) == samples:
        return now
    if now is None and prod(measure.anchor) == samples:
        return measure.anchor
    known = "" if now is None else f", and the model runs on {size_text(now)}"
    raise ValueError(
        f"{samples} samples in a row do not say which grid they make{known} (the training grid is "
        f"{size_text(measure.anchor)}); pass grid=(n, m) when you call the anchored model, or keep the grid's "
        "axes, as (B, C, *spatial)"
    )


class _Enter:
    """Forward pre-hook: reads the grid from axes of an input, or takes it from ``grid=``."""

    def __init__(self, running: RunningGrid, slot: int | None, axis: int, dim: int, takes_grid: bool) -> None:
        self.running, self.slot, self.axis, self.dim, self.takes_grid = running, slot, axis, dim, takes_grid

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        grid: Shape | None = None
        if self.slot is not None:
            given = tensors((args, kwargs))
            shape = given[self.slot].shape if self.slot < len(given) else ()
            grid = tuple(shape[self.axis : self.axis + self.dim])
        elif self.takes_grid and "grid" in kwargs:
            grid = kwargs["grid"] if kwargs["grid"] is None else tuple(kwargs["grid"])
            kwargs = {name: value for name, value in kwargs.items() if name != "grid"}
        self.running.enter(grid)
        return args, kwargs


class _Leave:
    """Forward hook: the model no longer runs."""

    def __init__(self, running: RunningGrid) -> None:
        self.running = running

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        self.running.leave()


def watch_grid(model: nn.Module, shapes: Mapping[str, Sequence[Shape]], inputs: Sequence[Shape], sizes: Shape) -> None:
    """Let the modules that see samples in a row know the grid on which the model runs.

    ``shapes`` are those of each module's first tensor in a run on the training grid, ``inputs`` those of the model's
    arguments.
    """
    d = len(sizes)
    rows = [
        module
        for name, module in model.named_modules()
        if hasattr(module, "running_grid") and any(len(s) < d + 2 for s in shapes.get(name, ()))
    ]
    if d == 1 or not rows:
        return
    running = RunningGrid()
    for module in rows:
        module.running_grid = running
    places = [
        (slot, k) for slot, s in enumerate(inputs) for k in range(1, len(s) - d + 1) if tuple(s[k : k + d]) == sizes
    ]
    slot, axis = places[0] if places else (None, 0)
    takes_grid = "grid" not in inspect.signature(model.forward).parameters
    model.register_forward_pre_hook(_Enter(running, slot, axis, d, takes_grid), with_kwargs=True)
    model.register_forward_hook(_Leave(running), always_call=True)


def grid_argument(model: nn.Module, shape: Shape) -> dict[str, Any]:
    """``{"grid": shape}`` for a model that was anchored on samples in a row, and must be told their grid."""
    hooks = [h for h in model._forward_pre_hooks.values() if isinstance(h, _Enter)]
    return {"grid": shape} if any(h.slot is None and h.takes_grid for h in hooks) else {}
