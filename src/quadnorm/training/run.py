"""One training run in one folder, from its config to its end, however often it is stopped on the way."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from quadnorm.problems import Problem
from quadnorm.training.atomic import claimed, write_atomic
from quadnorm.training.config import TrainConfig
from quadnorm.training.data import Grid, Progress, problem_of, samples
from quadnorm.training.ddp import Group, group
from quadnorm.training.interrupt import Interrupted, stop_requests
from quadnorm.training.logs import Record, watchers
from quadnorm.training.loop import Loop, NonFiniteError, State
from quadnorm.training.losses import grid_weights
from quadnorm.training.model import Normalised, Sizes, build_model
from quadnorm.training.read import Source, read_config, write_config
from quadnorm.training.saved import BEST, LAST, Saved, save_run
from quadnorm.training.versions import environment

log = logging.getLogger("quadnorm")


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, why it ended ("epochs" or "patience"), the best epoch and every epoch's record."""

    folder: Path
    ended: str
    epochs: int
    best_epoch: int
    best_val: float
    history: tuple[Record, ...]


def train(
    config: Source,
    folder: str | os.PathLike[str],
    resume: bool = True,
    *,
    overrides: Sequence[str] = (),
    progress: bool | None = None,
    data_progress: Progress | None = None,
) -> Result:
    """Train the model of a config in ``folder``, going on from where an earlier, stopped call left it.

    The folder then holds ``config.yaml``, ``environment.json``, ``metrics.jsonl``, ``best.safetensors`` (weights of the
    best validation error) and ``last.safetensors`` (everything to resume from). A run that is killed at any moment and
    resumed gives the same bits as one that was not. A finished run returns at once.

    Args:
        config: a config, a mapping or the path of a YAML file; ``overrides`` (``a.b=c``) change it.
        resume: False starts again, and removes what the folder holds of an earlier run.
        progress: None shows a bar on a terminal and plain lines elsewhere; False shows nothing.
        data_progress: told (samples ready, samples wanted) while training data are made.

    Raises:
        ValueError: the config, the checkpoint or the data are wrong, or training diverged; one line each.
        OSError: the folder cannot be written; what was saved before stays valid.
        Interrupted: Ctrl-C or SIGTERM, after a checkpoint was written. It is a KeyboardInterrupt.
    """
    config, folder = read_config(config, overrides), Path(folder)
    device = _device(config)
    p = problem_of(config)
    for grid in {*config.resolutions.train, *config.val_resolutions, *config.test_resolutions}:
        p.shape(grid)
    sizes = Sizes.of(p)
    model = build_model(config, sizes)  # before anything is written: what is wrong with it shows at once
    with ExitStack() as stack:
        stack.enter_context(torch_threads(config.threads))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        ranks = group(device)
        done = _earlier(config, folder) if resume else None
        if done is not None and done.state.ended:
            return _result(folder, done.state)
        if ranks.main:
            stack.enter_context(claimed(folder))
            _prepare(config, folder, fresh=not resume)
        ranks.wait()
        saved = _earlier(config, folder)  # once more: only now does nobody else write here
        if saved is not None and saved.state.ended:
            return _result(folder, saved.state)
        ranks.wait()
        state = _train(config, folder, device, p, sizes, model, ranks, saved, progress, data_progress)
        ranks.wait()
        return _result(folder, state)


def _train(
    config: TrainConfig,
    folder: Path,
    device: torch.device,
    p: Problem,
    sizes: Sizes,
    model: Normalised,
    ranks: Group,
    saved: Saved | None,
    progress: bool | None,
    data_progress: Progress | None,
) -> State:
    if not ranks.main:
        ranks.wait()  # until the first has put the data into the cache
    train = samples(config, "train", config.resolutions.train, p, data_progress)
    val = samples(config, "val", config.val_resolutions, p)
    if ranks.main:
        ranks.wait()
    model.fit(*train[config.resolutions.train[0]])
    model.to(device)
    options = config.optimiser
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=config.lr, weight_decay=options.weight_decay, betas=options.betas, eps=options.eps
    )
    if saved is None:
        torch.manual_seed(config.seed)
        state = State()
    else:
        state = saved.resume(model, optimiser)

    def save(best: bool) -> None:
        if ranks.main:
            save_run(folder / (BEST if best else LAST), config, sizes, model, state, None if best else optimiser)

    weights = {grid: _weights(p, grid, config, device) for grid in {*train, *val}}
    done = state.step(config)
    told = watchers(config, folder, state.history, done, progress) if ranks.main else []
    try:
        with stop_requests() as stop:
            try:
                loop = Loop(config, model, optimiser, state, train, val, weights, ranks, save, stop, told)
                loop.run()
            except (Interrupted, NonFiniteError) as end:
                save(False)
                if isinstance(end, NonFiniteError):
                    raise
                where = f"epoch {state.epoch + 1}, after {state.batch} of its {config.steps_per_epoch} steps"
                raise Interrupted(f"stopped in {where}; train again in {folder} to resume") from None
    finally:
        for watcher in told:
            watcher.close()
    return state


def _earlier(config: TrainConfig, folder: Path) -> Saved | None:
    """The run that the folder holds, if it is one of this config."""
    path = folder / LAST
    if not path.exists():
        return None
    saved = Saved(path)
    here, there = _flat(config.identity()), _flat(saved.config.identity())
    differ = sorted(k for k in {*here, *there} if here.get(k) != there.get(k))
    if differ:
        first = f"{differ[0]} is {there.get(differ[0])!r} there and {here.get(differ[0])!r} now"
        more = f" ({len(differ)} settings differ)" if len(differ) > 1 else ""
        raise ValueError(
            f"{folder} holds a run with another config: {first}{more}; choose another folder, or start again"
        )
    now = environment()
    for key in ("numerics", "packages", "cpu", "threads"):
        if saved.environment.get(key) != now[key] and not saved.state.ended:
            log.warning("%s was begun with another %s: results may differ in the last bits", folder, key)
    return saved


def _flat(values: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(values, dict) or not values:
        return {prefix: values}
    return {k: v for key, inner in values.items() for k, v in _flat(inner, f"{prefix}.{key}".lstrip(".")).items()}


def _prepare(config: TrainConfig, folder: Path, fresh: bool) -> None:
    if fresh:
        for name in (LAST, BEST, "metrics.jsonl"):
            (folder / name).unlink(missing_ok=True)
    write_atomic(folder / "config.yaml", write_config(config), "the config")
    write_atomic(folder / "environment.json", json.dumps(environment(), indent=1) + "\n", "the environment")


def _weights(p: Problem, grid: Grid, config: TrainConfig, device: torch.device) -> Tensor | None:
    weights = grid_weights(p.placement, p.shape(grid), getattr(torch, config.dtype))
    return None if weights is None else weights.to(device)


def _result(folder: Path, state: State) -> Result:
    if state.ended is None or state.best is None:
        raise ValueError(f"the run in {folder} has not ended")
    return Result(folder, state.ended, state.epoch, state.best_epoch, state.best, tuple(state.history))


def _device(config: TrainConfig) -> torch.device:
    try:
        device = torch.device(config.device)
        if config.device == "cuda" and "LOCAL_RANK" in os.environ:  # one card per process
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {config.device!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Run a block with this many threads; None leaves them as they are."""
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
