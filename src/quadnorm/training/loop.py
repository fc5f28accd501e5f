"""The training loop: deterministic steps; it can stop after any step and resume with the same result."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from quadnorm.training.config import TrainConfig
from quadnorm.training.data import Batch, Grid, Pairs, batches
from quadnorm.training.ddp import Group
from quadnorm.training.interrupt import Interrupted
from quadnorm.training.logs import Record, Watcher
from quadnorm.training.losses import mean_square, relative_l2, weights_of
from quadnorm.training.model import Normalised


class NonFiniteError(ValueError):
    """A loss, gradient or validation error is NaN or infinite; the weights before that step are kept."""


@dataclass
class State:
    """The progress of a run. With weights, optimiser and random state it is all that is needed to resume."""

    epoch: int = 0  # finished ones
    batch: int = 0  # finished steps of the current epoch
    loss: float = 0.0  # Σ of the losses of all samples in the current epoch so far
    norm: float = 0.0  # Σ of the gradient norms before clipping, in the current epoch so far
    seconds: float = 0.0  # spent in the current epoch
    best: float | None = None  # smallest validation error
    best_epoch: int = 0
    ended: str | None = None  # "epochs" or "patience"
    history: list[Record] = field(default_factory=list)

    def step(self, config: TrainConfig) -> int:
        """Optimiser steps done."""
        return self.epoch * config.steps_per_epoch + self.batch

    def to_json(self) -> dict[str, Any]:
        """As plain values; floats survive JSON to the last bit."""
        return asdict(self)


def learning_rate(config: TrainConfig, step: int) -> float:
    """The rate of optimiser step ``step`` = 0, 1, …: linear warm-up over W steps, then a cosine over the other S − W.

    lr·(step + 1)/W while step < W; then lr·(f + (1 − f)·(1 + cos π t)/2), t = (step − W)/(S − W), f = schedule.final.

    >>> config = TrainConfig(samples={"train": 20}, epochs=10, schedule={"warmup": 2}, optimiser={"lr": 1.0})
    >>> [round(learning_rate(config, s), 3) for s in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warm = round(config.warmup_epochs * config.steps_per_epoch)
    if step < warm:
        return config.lr * (step + 1) / warm
    t = (step - warm) / max(config.steps - warm, 1)
    final = config.schedule.final
    return config.lr * (final + (1 - final) * (1 + math.cos(math.pi * t)) / 2)


@torch.no_grad()
def errors(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    weights: Tensor | None,
    batch: int,
    group: Group | None = None,
    stop: Callable[[], bool] | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Plain and weighted relative L² of every sample, float64 (n,) each; ranks share the work, all get the result.

    ``weights`` is None for inputs on points, which contain their own weights. ``out`` (n, C, *grid) is filled with the
    predictions, if it is given.
    """
    group = group or Group()
    device = device_of(model)
    both = torch.zeros(2, len(x), dtype=torch.float64)
    mine = group.share(len(x))
    for start in range(mine.start, mine.stop, batch):
        if stop is not None and group.world == 1 and stop():
            raise Interrupted
        part = slice(start, min(start + batch, mine.stop))
        inputs, truth = group.part(x[part]).to(device), group.part(y[part]).to(device)
        prediction = model(inputs)
        if out is not None:
            out[part] = prediction
        own = weights_of(inputs, None if weights is None else group.part(weights, 0))
        summed = group.over_space if group.space > 1 else None
        both[0, part] = relative_l2(prediction, truth, None, summed).double().cpu()
        both[1, part] = relative_l2(prediction, truth, own, summed).double().cpu()
    plain, weighted = group.total(both)
    return plain, weighted


def clip_gradients(model: nn.Module, limit: float) -> float:
    """Scale the gradients so that their common L² norm is at most ``limit``; the norm before that."""
    # As pairs of real numbers: PyTorch's norm of complex numbers takes ten times as long.
    gradients = (p.grad for p in model.parameters() if p.grad is not None)
    norm = get_total_norm([torch.view_as_real(g) if g.is_complex() else g for g in gradients])
    clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)


def system_share(start: os.times_result, end: os.times_result) -> float:
    """The share of this process's processor time that was spent in the system: for CPUs, in clearing pages mostly."""
    user, system = end.user - start.user, end.system - start.system
    return system / (user + system) if user + system > 0 else 0.0


def device_of(model: Callable[[Tensor], Tensor]) -> torch.device | None:
    """The device of a model's parameters; None if it has none or is not a module."""
    return next((t.device for t in model.parameters()), None) if isinstance(model, torch.nn.Module) else None


class Loop:
    """Training that starts at ``state``. :meth:`run` calls ``save(best)`` whenever a checkpoint is due."""

    def __init__(
        self,
        config: TrainConfig,
        model: Normalised,
        optimiser: torch.optim.Optimizer,
        state: State,
        train: Pairs,
        val: Pairs,
        weights: dict[Grid, Tensor | None],
        group: Group,
        save: Callable[[bool], None],
        stop: Callable[[], bool],
        watchers: Sequence[Watcher],
    ) -> None:
        self.config, self.model, self.optimiser, self.state = config, model, optimiser, state
        self.train, self.val, self.weights = train, val, weights
        self.group, self.save, self.stop, self.watchers = group, save, stop, watchers
        self.device = next(model.parameters()).device
        self.parallel = group.wrap(model)

    def run(self) -> None:
        """Train until all epochs are done or the patience is used up; :class:`Interrupted` if asked to stop."""
        while self.state.ended is None:
            self._epoch()

    def _epoch(self) -> None:
        config, state = self.config, self.state
        self.model.train()
        self._started = os.times()
        for batch in batches(config, state.epoch, state.batch):
            began = time.monotonic()
            loss, norm, stop = self._step(batch)
            state.batch += 1
            state.loss += loss
            state.norm += norm
            state.seconds += time.monotonic() - began
            for watcher in self.watchers:
                watcher.step()
            if stop:
                raise Interrupted
            if config.save.steps and state.step(config) % config.save.steps == 0:
                self.save(False)
        self._finish()

    def _step(self, batch: Batch) -> tuple[float, float, bool]:
        """One optimiser step: Σ of the batch's losses, norm of the gradient, and whether any rank was asked to stop."""
        config, group = self.config, self.group
        x, y = self.train[batch.grid]
        count = len(batch.index)
        index = batch.index[group.share(count)]
        # If there are fewer samples than ranks, some ranks have none; they must still join in averaging gradients.
        scale = group.data / count if len(index) else 0.0
        index = index if len(index) else batch.index[:1]
        inputs = group.part(x[index]).to(self.device)
        whole = self.weights[batch.grid]
        own = None if whole is None else group.part(whole, 0)
        weights = weights_of(inputs, own) if config.loss == "weighted" else None

        rate = learning_rate(config, self.state.step(config))
        for options in self.optimiser.param_groups:
            options["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        prediction = self.parallel(inputs)
        truth = group.part(y[index]).to(self.device)
        over_space = group.over_space if group.space > 1 else None
        if config.loss == "mse":
            total = mean_square(prediction, truth, self.model.y_std, over_space).sum()
        else:
            total = relative_l2(prediction, truth, weights, over_space).sum()
        (total * scale).backward()
        mine = float(total.detach()) if scale else 0.0
        loss, stop = group.sums([mine, float(self.stop())])
        limit = math.inf if config.optimiser.clip is None else config.optimiser.clip
        norm = clip_gradients(self.model, limit)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._not_finite(f"the loss is {loss / count:g} and its gradient's norm {norm:g}")
        self.optimiser.step()
        return loss, norm, stop > 0

    def _finish(self) -> None:
        """Validate, record the epoch, and decide whether it is the best and whether it is the last."""
        config, state = self.config, self.state
        record = self._validated()
        val, better = record["val"], record["best"]
        state.epoch += 1
        state.batch, state.loss, state.norm, state.seconds = 0, 0.0, 0.0, 0.0
        state.history.append(record)
        if better:
            state.best, state.best_epoch = val, state.epoch
        if state.epoch == config.epochs:
            state.ended = "epochs"
        elif config.patience is not None and state.epoch - state.best_epoch >= config.patience:
            state.ended = "patience"
        for watcher in self.watchers:
            watcher.epoch(record)
        # The best weights first: after a kill in between, this epoch is repeated and writes the same weights again.
        if better:
            self.save(True)
        if state.ended or state.epoch % config.save.epochs == 0:
            self.save(False)

    def _validated(self) -> Record:
        """The record of the epoch: its training loss, and the validation errors of the weights at its end."""
        config, state = self.config, self.state
        began = time.monotonic()
        self.model.eval()
        plain: dict[str, float] = {}
        weighted: dict[str, float] = {}
        for grid in config.val_resolutions:
            a, b = errors(self.model, *self.val[grid], self.weights[grid], config.batch, self.group, self.stop)
            plain[name(grid)], weighted[name(grid)] = float(a.mean()), float(b.mean())
        val = sum(plain.values()) / len(plain)
        if not math.isfinite(val):
            self._not_finite(f"the validation error is {val:g}")
        return {
            "epoch": state.epoch + 1,
            "step": state.step(config),
            "train": state.loss / config.samples.train,
            "val": val,
            "val_weighted": sum(weighted.values()) / len(weighted),
            "val_by_grid": plain,
            "lr": learning_rate(config, state.step(config) - 1),
            "gradient": state.norm / config.steps_per_epoch,
            "best": state.best is None or val < state.best,
            "seconds": round(state.seconds + time.monotonic() - began, 4),
            "system": round(system_share(self._started, os.times()), 4),
        }

    def _not_finite(self, what: str) -> None:
        state = self.state
        where = f"{what} in epoch {state.epoch + 1}, step {state.batch + 1}"
        for of, pairs in (("training", self.train), ("validation", self.val)):
            for _, y in pairs.values():
                zero = next((k for k in range(len(y)) if not bool((y[k] != 0).any())), None)
                if zero is not None:
                    raise NonFiniteError(
                        f"{where}: the target of {of} sample {zero} is 0 everywhere and has no relative error; leave "
                        "such samples out of the data"
                    )
        raise NonFiniteError(
            f"{where}: training has diverged. The weights before "
            f"it are kept. Try a smaller optimiser.lr (now {self.config.lr:g}) or a longer warm-up, in a new folder"
        )


def name(grid: Grid) -> str:
    """A grid's name in files: '33' or '33x65'."""
    return str(grid) if isinstance(grid, int) else "x".join(map(str, grid))
