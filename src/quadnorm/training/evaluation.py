"""Errors of a trained model at any resolution, sample by sample."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quadnorm._files import write_atomic
from quadnorm._suggest import unknown
from quadnorm._text import html_table
from quadnorm.carry import carry
from quadnorm.measures.placement import Placements
from quadnorm.problems import Problem
from quadnorm.problems.points import POINTS
from quadnorm.training.config import TrainConfig
from quadnorm.training.data import Grid, Split, problem_of, samples, settled, viewed
from quadnorm.training.ddp import Group, group
from quadnorm.training.files.saved import load_model
from quadnorm.training.loop import device_of, errors, name
from quadnorm.training.losses import grid_weights

WAYS = {"exact": "", "index": "nearest", "bicubic": "bicubic"}  # value of ``how`` → method of :func:`carry`
Fields = tuple[Tensor, Tensor, Tensor]  # input, truth, prediction, (n, C, *grid) each


@dataclass(frozen=True)
class Errors:
    """Relative L² errors at one grid, one per sample: with equal weights, and with quadrature weights."""

    grid: Grid
    plain: tuple[float, ...]
    weighted: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the plain errors."""
        return sum(self.plain) / len(self.plain)

    @property
    def weighted_mean(self) -> float:
        """Mean of the weighted errors."""
        return sum(self.weighted) / len(self.weighted)


@dataclass(frozen=True)
class Evaluation:
    """A model's errors on one split at several grids, and how the samples were brought to each grid."""

    split: str
    indices: range
    how: str
    source: Grid | None
    grids: tuple[Errors, ...]

    def __getitem__(self, grid: Grid) -> Errors:
        for row in self.grids:
            if row.grid == grid:
                return row
        raise KeyError(f"not evaluated at {grid}; there are {', '.join(name(e.grid) for e in self.grids)}")

    def to_json(self) -> dict[str, Any]:
        """As a dictionary for JSON, every sample's error included."""
        rows = [
            {"grid": e.grid, "mean": e.mean, "weighted_mean": e.weighted_mean, "plain": e.plain, "weighted": e.weighted}
            for e in self.grids
        ]
        first, last = self.indices.start, self.indices.stop
        return {"split": self.split, "samples": [first, last], "how": self.how, "source": self.source, "errors": rows}

    def _repr_html_(self) -> str:
        rows = [(name(e.grid), f"{e.mean:.3%}", f"{e.weighted_mean:.3%}", len(e.plain)) for e in self.grids]
        head = ["grid", "relative L²", "quadrature-weighted", "samples"]
        return f"<p>{self.split} set, {self.how} samples</p>{html_table(head, rows)}"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, atomically."""
        write_atomic(Path(path), json.dumps(self.to_json()) + "\n", "the evaluation")


def evaluate(
    where: str | os.PathLike[str],
    resolutions: Sequence[Grid] | None = None,
    *,
    which: str = "best",
    how: str = "exact",
    source: Grid | None = None,
    split: Split = "test",
    view: Mapping[str, Any] | None = None,
    space: int = 1,
    as_trained: bool = False,
) -> Evaluation:
    """Errors of the model in a run's folder or checkpoint file at ``resolutions`` (default: those of its config).

    Args:
        which: the ``best`` or the ``last`` weights.
        how: ``exact`` samples the same solved instances on the new grid; ``index`` selects samples of a finer
            ``source`` grid; ``bicubic`` interpolates samples of any source grid. Input and truth are treated alike.
        source: the grid that samples are taken from; default the problem's own fine grid, where it has one.
        split: ``test``, ``val`` or ``train``.
        view: parameters of the problem that change how its instances are sampled, such as ``{"mesh": "boundary"}``.
        space: how many of the processes that ``torchrun`` started share each field; the others share the samples.
        as_trained: evaluate the trained model, also if the file says to anchor it.
    """
    model, config = load_model(where, which, as_trained=as_trained)
    ranks = group(device_of(model) or torch.device("cpu"), space)
    ranks.split(model)
    return evaluate_model(model, config, resolutions, how=how, source=source, split=split, view=view, ranks=ranks)


def evaluate_model(
    model: Callable[[Tensor], Tensor],
    config: TrainConfig,
    resolutions: Sequence[Grid] | None = None,
    *,
    how: str = "exact",
    source: Grid | None = None,
    split: Split = "test",
    view: Mapping[str, Any] | None = None,
    ranks: Group | None = None,
    fields: dict[Grid, Fields] | None = None,
) -> Evaluation:
    """Like :func:`evaluate`, for a model in memory: anchored, converted, or any function from fields to fields.

    ``fields`` is filled with input, truth and prediction of every sample at each grid, if it is given.
    """
    p = viewed(problem_of(config), view or {})
    config = settled(config, p)
    grids = list(config.test_resolutions if resolutions is None else resolutions)
    if how not in WAYS:
        raise ValueError(unknown("way to evaluate", how, WAYS))
    if split not in ("train", "val", "test"):
        raise ValueError(unknown("split", split, ("train", "val", "test")))
    if not grids:
        raise ValueError("no resolution to evaluate at; give at least one, such as 65")
    for grid in grids:
        p.shape(grid)
    if how != "exact" and p.placement == POINTS:
        raise ValueError(f"{p.name} has a mesh for each sample and no grid to resample; use how='exact'")
    source = None if how == "exact" else _source(p, source)
    stored = samples(config, split, [source], p)[source] if source is not None else None
    rows = []
    for grid in grids:  # one at a time: the finest alone may fill the memory
        if stored is None:
            x, y = samples(config, split, [grid], p)[grid]
        else:
            x, y = (_resampled(field, p.shape(grid), p.placement, how) for field in stored)
        weights = grid_weights(p.placement, p.shape(grid), x.dtype)
        weights = weights if weights is None else weights.to(device_of(model))
        out = None if fields is None else torch.empty_like(y)
        plain, weighted = errors(_evaluated(model), x, y, weights, _batch(config, p, grid), ranks, out=out)
        if fields is not None and out is not None:
            fields[grid] = x, y, out
        rows.append(Errors(grid, tuple(plain.tolist()), tuple(weighted.tolist())))
    return Evaluation(split, config.samples.indices(split), how, source, tuple(rows))


def _evaluated(model: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if isinstance(model, torch.nn.Module):
        model.eval()
    return model


def _resampled(field: Tensor, shape: tuple[int, ...], placement: Placements, how: str) -> Tensor:
    for n, m in zip(shape, field.shape[-len(shape) :], strict=True):
        if how == "index" and n > m:
            raise ValueError(
                f"cannot select {n} of {m} samples; choose a source grid at least as fine (--source), or bicubic "
                "samples (how='bicubic', --samples bicubic)"
            )
    return carry(field, shape, placement, WAYS[how])


def _source(p: Problem, source: Grid | None) -> Grid:
    fine: Grid | None = getattr(p, "fine", None) if source is None else source
    if fine is None:
        raise ValueError(f"{p.name} has no grid of its own to resample from; give one, source=257 (--source 257)")
    p.shape(fine)
    return fine


def _batch(config: TrainConfig, p: Problem, grid: Grid) -> int:
    """Samples per batch, so that evaluation needs no more memory than training."""
    trained = max(prod(p.shape(g)) for g in config.resolutions.train)
    return max(1, config.batch * trained // prod(p.shape(grid)))
