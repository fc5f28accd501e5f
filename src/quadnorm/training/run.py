"""One training run in one folder, from config to result; it may be stopped and resumed any number of times."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from quadnorm._files import DamagedError, set_aside, write_atomic
from quadnorm.problems import Problem
from quadnorm.training.config import TrainConfig
from quadnorm.training.config.read import Source, read_config, write_config
from quadnorm.training.data import Grid, Pairs, Progress, check_memory, problem_of, samples, settled
from quadnorm.training.ddp import Group, group
from quadnorm.training.files.folder import BEST, LAST, claimed, forget
from quadnorm.training.files.saved import Saved, save_run
from quadnorm.training.interrupt import Interrupted, stop_requests
from quadnorm.training.logs import Record, watchers
from quadnorm.training.loop import Loop, NonFiniteError, State
from quadnorm.training.losses import grid_weights
from quadnorm.training.model import Normalised, Sizes, build_model, check_grids
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
    """Train the model of a config in ``folder``, or resume the run that an earlier call began there.

    The folder then holds ``config.yaml``, ``environment.json``, ``metrics.jsonl``, ``best.safetensors`` (weights of the
    best validation error) and ``last.safetensors`` (everything to resume from). A run that is killed at any moment and
    resumed gives the same bits as one that was not. A finished run returns at once.

    Args:
        config: a config, a mapping or the path of a YAML file; ``overrides`` (``a.b=c``) change it.
        resume: False removes an earlier run from the folder and starts again.
        progress: None shows a bar on a terminal and plain lines elsewhere; False shows nothing.
        data_progress: called with (samples ready, samples wanted) while training data are made.

    Raises:
        ValueError: the config, the checkpoint or the data are wrong, or training diverged; the message is one line.
        OSError: the folder cannot be written; files that were saved before stay valid.
        Interrupted: Ctrl-C or SIGTERM, after a checkpoint was written. It is a KeyboardInterrupt.
    """
    run = _setting(read_config(config, overrides), Path(folder))
    with ExitStack() as stack:
        early = _earlier(run) if resume else None
        run = run.with_threads(early)
        stack.enter_context(torch_threads(run.config.threads))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        if early is not None and early.state.ended:
            return _result(run.folder, early.state)
        if run.ranks.main:
            stack.enter_context(claimed(run.folder))
            _prepare(run, fresh=not resume)
        run.ranks.wait()
        saved = _earlier(run)  # read again: from here on no other process can write to the folder
        if saved is not None and saved.state.ended:
            return _result(run.folder, saved.state)
        run.ranks.wait()
        state = _train(run, saved, progress, data_progress)
        run.ranks.wait()
        return _result(run.folder, state)


@dataclass(frozen=True)
class _Setting:
    """A run before its first step: the config, and the problem, model, device and ranks that follow from it."""

    config: TrainConfig
    folder: Path
    device: torch.device
    problem: Problem
    sizes: Sizes
    model: Normalised
    ranks: Group

    def with_threads(self, saved: Saved | None) -> _Setting:
        """With the number of threads filled in: the config's, or the one the run began with, or torch's."""
        count = self.config.threads or (saved and saved.config.threads) or torch.get_num_threads()
        return replace(self, config=self.config.model_copy(update={"threads": count}))


def _setting(config: TrainConfig, folder: Path) -> _Setting:
    """Check everything that can be wrong with a config, before anything is written."""
    device, p = _device(config), problem_of(config)
    config = settled(config, p)
    for grid in {*config.resolutions.train, *config.val_resolutions, *config.test_resolutions}:
        p.shape(grid)
    check_memory(config, p)
    sizes = Sizes.of(p)
    model = build_model(config, sizes)
    check_grids(config, sizes, [p.shape(grid) for grid in {*config.resolutions.train, *config.val_resolutions}])
    return _Setting(config, folder, device, p, sizes, model, group(device, config.parallel.space))


def _train(run: _Setting, saved: Saved | None, progress: bool | None, data_progress: Progress | None) -> State:
    config, model, ranks = run.config, run.model, run.ranks
    train, val = _data(run, data_progress)
    model.fit(*train[config.resolutions.train[0]])
    model.to(run.device)
    optimiser = _optimiser(config, model)
    if saved is None:
        torch.manual_seed(config.seed)
        state = State()
    else:
        fitted = {name: b.clone() for name, b in model.named_buffers(recurse=False)}
        state = saved.resume(model, optimiser)
        _check_data(run.folder, fitted, model)

    def save(best: bool) -> None:
        if ranks.main:
            save_run(
                run.folder / (BEST if best else LAST), config, run.sizes, model, state, None if best else optimiser
            )

    weights = {grid: _weights(run, grid) for grid in {*train, *val}}
    listeners = watchers(config, run.folder, state.history, state.step(config), progress) if ranks.main else []
    try:
        with stop_requests() as stop:
            try:
                Loop(config, model, optimiser, state, train, val, weights, ranks, save, stop, listeners).run()
            except NonFiniteError:
                save(False)
                raise
            except Interrupted:
                save(False)
                where = f"epoch {state.epoch + 1}, after {state.batch} of its {config.steps_per_epoch} steps"
                raise Interrupted(f"stopped in {where}; train again in {run.folder} to resume") from None
    finally:
        for listener in listeners:
            listener.close()
    return state


def _check_data(folder: Path, fitted: dict[str, Tensor], model: Normalised) -> None:
    """Raise a ValueError if the data's means and deviations are not those that the run began with."""
    for name, now in fitted.items():
        before = getattr(model, name)
        scale = getattr(model, f"{name[0]}_std")
        changed = (now - before).abs() > 1e-4 * (before.abs() + scale)  # the order of sums may differ elsewhere
        if bool(changed.any()):
            c = int(changed.nonzero()[0])
            side, what = {"x": "input", "y": "output"}[name[0]], name[2:]
            raise ValueError(
                f"{folder}: the training data have changed since this run began: channel {c} of the {side} had the "
                f"{what} {before[c]:.6g} and has {now[c]:.6g} now; restore them, or start again (--restart)"
            )


def _data(run: _Setting, progress: Progress | None) -> tuple[Pairs, Pairs]:
    """Training and validation data; the first rank puts them into the cache before the other ranks read them."""
    if not run.ranks.main:
        run.ranks.wait()
    train = samples(run.config, "train", run.config.resolutions.train, run.problem, progress)
    val = samples(run.config, "val", run.config.val_resolutions, run.problem)
    if run.ranks.main:
        run.problem.check_tests()
        run.ranks.wait()
    return train, val


def _optimiser(config: TrainConfig, model: Normalised) -> torch.optim.Optimizer:
    o = config.optimiser
    # One pass over all numbers, where PyTorch has it: an attention model's many small parameters cost eight times less.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in model.parameters()) or None
    return torch.optim.AdamW(
        model.parameters(), lr=config.lr, weight_decay=o.weight_decay, betas=o.betas, eps=o.eps, fused=fused
    )


def _earlier(run: _Setting) -> Saved | None:
    """The saved run in the folder; None if there is none or it is damaged, a ValueError if its config differs."""
    try:
        saved = Saved(run.folder / LAST)
    except (FileNotFoundError, NotADirectoryError, DamagedError):
        return None
    here, there = _flat(run.config.identity()), _flat(saved.config.identity())
    if run.config.threads is None:
        here.pop("threads"), there.pop("threads")
    differ = sorted(k for k in {*here, *there} if here.get(k) != there.get(k))
    if differ:
        first = f"{differ[0]} is {there.get(differ[0])!r} there and {here.get(differ[0])!r} now"
        more = f" ({len(differ)} settings differ)" if len(differ) > 1 else ""
        raise ValueError(
            f"{run.folder} holds a run with another config: {first}{more}; choose another folder (-o), or start again "
            "(--restart)"
        )
    now = environment()
    for key in ("numerics", "packages", "cpu"):
        if saved.environment.get(key) != now[key] and not saved.state.ended:
            log.warning("%s was begun with another %s: results may differ in the last bits", run.folder, key)
    return saved


def _flat(values: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(values, dict) or not values:
        return {prefix: values}
    return {k: v for key, inner in values.items() for k, v in _flat(inner, f"{prefix}.{key}".lstrip(".")).items()}


def _prepare(run: _Setting, fresh: bool) -> None:
    """Prepare the claimed folder: remove an earlier run if ``fresh``, set a damaged one aside, write the config."""
    if fresh:
        forget(run.folder)
    try:
        Saved(run.folder / LAST)
    except FileNotFoundError:
        pass
    except DamagedError as error:
        aside = set_aside(run.folder / LAST)
        log.warning("%s; set aside as %s, the run starts again", error, aside.name)
    write_atomic(run.folder / "config.yaml", write_config(run.config), "the config")
    write_atomic(run.folder / "environment.json", json.dumps(environment(), indent=1) + "\n", "the environment")


def _weights(run: _Setting, grid: Grid) -> Tensor | None:
    weights = grid_weights(run.problem.placement, run.problem.shape(grid), getattr(torch, run.config.dtype))
    return None if weights is None else weights.to(run.device)


def _result(folder: Path, state: State) -> Result:
    if state.ended is None or state.best is None:
        raise ValueError(f"the run in {folder} has not ended")
    return Result(folder, state.ended, state.epoch, state.best_epoch, state.best, tuple(state.history))


def _device(config: TrainConfig) -> torch.device:
    try:
        device = torch.device(config.device)
    except RuntimeError:
        raise ValueError(f"unknown device {config.device!r}; use cpu, cuda, cuda:1, mps or xpu") from None
    try:
        if config.device == "cuda" and "LOCAL_RANK" in os.environ:  # one card per process
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.zeros(1, device=device).item()  # fails on devices that do not work, or hold no values (meta)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
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
