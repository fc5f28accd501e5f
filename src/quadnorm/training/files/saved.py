"""Save a run and load it again: weights, optimiser, random state, progress."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._files import DamagedError
from quadnorm._foreign import parsing
from quadnorm._load import names_file, source_hash
from quadnorm.problems.points import POINTS
from quadnorm.training.config import TrainConfig
from quadnorm.training.config.read import checked
from quadnorm.training.data import problem_of
from quadnorm.training.files.checkpoint import read_checkpoint, tensors_hash, write_checkpoint
from quadnorm.training.files.folder import BEST, LAST
from quadnorm.training.loop import State
from quadnorm.training.model import Normalised, Sizes, build_model, outline
from quadnorm.training.versions import environment

log = logging.getLogger("quadnorm")


def save_run(
    path: Path,
    config: TrainConfig,
    sizes: Sizes,
    model: Normalised,
    state: State,
    optimiser: torch.optim.Optimizer | None = None,
) -> None:
    """Write a checkpoint: with ``optimiser`` to resume from, without it only the weights."""
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    if optimiser is not None:
        names = [k for k, _ in model.named_parameters()]
        for i, values in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{names[i]}.{key}": value for key, value in values.items()}
        # Data and batch order have their own random streams, so this is the only random state of a run.
        tensors["random.torch"] = torch.get_rng_state()
    info: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "sizes": asdict(sizes),
        "state": state.to_json(),
        "environment": environment(),
    }
    if names_file(config.operator.name):
        info["operator_source"] = source_hash(config.operator.name)
    write_checkpoint(path, tensors, info)


class Saved:
    """A checkpoint in memory, checked: its config, the model's sizes, the state of the run and the tensors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors, info = read_checkpoint(path)
        self.config = checked(info.get("config"), f"the config in {path}")
        self.info = info
        expected = ", ".join(f.name for f in fields(State))
        with parsing(path, f"its state is incomplete; expected {expected}", DamagedError):
            self.environment: dict[str, Any] = dict(info.get("environment") or {})
            self.state = State(**info["state"])
            self.sizes = Sizes(**info["sizes"])

    @property
    def weights(self) -> str:
        """A hash of the model's weights; evaluations store it to name the weights they belong to."""
        return tensors_hash(self._part("model."))

    def model(self) -> Normalised:
        """The model with its weights. Names and shapes are compared with the file before memory is allocated."""
        self._compare(outline(self.config, self.sizes))
        self._note_changed_source()
        model = build_model(self.config, self.sizes)
        self.fill(model)
        return model

    def _note_changed_source(self) -> None:
        """Say so if the file of a user's own model has changed since training: its weights may mean something else."""
        name, before = self.config.operator.name, self.info.get("operator_source")
        if names_file(name) and before is not None and before != source_hash(name):
            log.warning("%s has changed since %s was trained", name.rpartition(":")[0], self.path)

    def fill(self, model: Normalised) -> None:
        """Load the weights into a model of the same config."""
        self._compare(model.state_dict())
        model.load_state_dict(self._part("model."))

    def _compare(self, wanted: Mapping[str, Tensor]) -> None:
        """Raise unless the file has exactly the tensors that are wanted."""
        given = self._part("model.")

        def fault(name: str) -> str:
            if name not in given:
                return "missing"
            if name not in wanted:
                return "unknown"
            if wanted[name].shape != given[name].shape:
                return "of another shape"
            return "of another dtype" if wanted[name].dtype != given[name].dtype else ""

        wrong = [name for name in sorted({*wanted, *given}) if fault(name)]
        if wrong:
            raise ValueError(
                f"{self.path} does not fit the model of its config: {len(wrong)} tensors differ, the first, "
                f"{wrong[0]!r}, is {fault(wrong[0])}. It was written by another version of quadnorm, or for another "
                f"config"
            )

    def resume(self, model: Normalised, optimiser: torch.optim.Optimizer) -> State:
        """Restore weights, optimiser and random state; returns the state of the run."""
        self.fill(model)
        given = self._part("optimiser.")
        state: dict[int, dict[str, Tensor]] = {}
        for i, (name, parameter) in enumerate(model.named_parameters()):
            own = {k.removeprefix(f"{name}."): v for k, v in given.items() if k.startswith(f"{name}.")}
            own = {k: v for k, v in own.items() if "." not in k}
            if any(k != "step" and v.shape != parameter.shape for k, v in own.items()):
                raise DamagedError(self.path, f"the optimiser's tensors of {name!r} have another shape")
            if own:
                state[i] = own
        if self.state.history and not state:
            raise ValueError(f"{self.path} holds weights only; a run resumes from {LAST}")
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        with parsing(self.path, "its random state cannot be set", DamagedError):
            torch.set_rng_state(self.tensors["random.torch"])
        return self.state

    def _part(self, prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in self.tensors.items() if k.startswith(prefix)}


def find_checkpoint(where: str | os.PathLike[str], which: str = "best") -> Path:
    """The checkpoint file: ``which`` (best or last) of a run's folder, or ``where`` itself if it is a file."""
    path = Path(where)
    if which not in ("best", "last"):
        raise ValueError(f"which must be 'best' or 'last', got {which!r}")
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"no run folder or checkpoint {path}")
        return path
    file = path / (BEST if which == "best" else LAST)
    if not file.exists():
        raise FileNotFoundError(f"{path} holds no {file.name}; has the run finished an epoch?")
    return file


def load_model(
    where: str | os.PathLike[str], which: str = "best", *, as_trained: bool = False
) -> tuple[nn.Module, TrainConfig]:
    """A trained model with its normalisers, in evaluation mode, and the config it was trained with.

    ``where`` is a run's folder or a checkpoint file; a file of :func:`save_anchored` gives an anchored model, or, with
    ``as_trained``, the model that was anchored. Nothing in the file is executed; a run of a model of your own,
    FILE.py:NAME, runs that file of yours again.
    """
    saved = Saved(find_checkpoint(where, which))
    model: nn.Module = saved.model().eval()
    anchored = saved.info.get("anchored")
    if anchored is not None and not as_trained:
        from quadnorm.adapt import anchor

        with parsing(saved.path, "it cannot be anchored as it says", DamagedError):
            # force: whether anchoring helps was checked, or overruled, when the file was written
            model = anchor(model, anchored["resolution"], anchored["placement"], force=True)
    return model, saved.config


def is_anchored(where: str | os.PathLike[str], which: str = "best") -> bool:
    """Whether a checkpoint is a file of :func:`save_anchored`."""
    return "anchored" in read_checkpoint(find_checkpoint(where, which))[1]


def _only_grid(saved: Saved) -> int | tuple[int, ...]:
    """The grid that a model was trained on; a ValueError if there are several."""
    first, *others = saved.config.resolutions.train
    if others:
        grids = ", ".join(map(str, (first, *others)))
        raise ValueError(f"{saved.path} was trained at {grids}; say which of them to anchor it to, resolution= (-r)")
    return first


def save_anchored(
    where: str | os.PathLike[str],
    out: str | os.PathLike[str],
    resolution: int | tuple[int, ...] | None = None,
    placement: str | Sequence[str] | None = None,
    which: str = "best",
    force: bool = False,
) -> nn.Module:
    """Write a trained model as a checkpoint that is loaded anchored to its training grid; returns the anchored model.

    The weights stay the same; the file also stores the grid to anchor to: ``resolution``, by default the one grid that
    the model was trained on. ``placement``: default that of the problem. A grid that the model was not trained on is
    refused unless ``force``: the outputs on the training grid would change; and so is a model whose drift on a smooth
    input grows.
    """
    from quadnorm.adapt import anchor

    saved = Saved(find_checkpoint(where, which))
    if "anchored" in saved.info:
        raise ValueError(f"{saved.path} is anchored already, at {saved.info['anchored'].get('resolution')}")
    placement = placement or saved.sizes.placement
    if placement == POINTS:
        raise ValueError(
            f"{saved.path} was trained on meshes, and a model is anchored to a grid; on meshes train with control "
            f"volumes instead (operator.params.norm=quad operator.params.measure=trapezoid)"
        )
    p = problem_of(saved.config)
    if resolution is None:
        resolution = _only_grid(saved)
    if not force and p.shape(resolution) not in [p.shape(grid) for grid in saved.config.resolutions.train]:
        trained = ", ".join(map(str, saved.config.resolutions.train))
        raise ValueError(
            f"{saved.path} was trained at {trained}, not at {resolution}; anchor it to its training grid, or "
            "pass force=True (--force)"
        )
    anchored = anchor(saved.model().eval(), resolution, placement, force=force)
    tensors = {k: v for k, v in saved.tensors.items() if k.startswith("model.")}
    write_checkpoint(Path(out), tensors, {**saved.info, "anchored": {"resolution": resolution, "placement": placement}})
    return anchored
