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
from quadnorm._suggest import unknown
from quadnorm._ways import WAYS, WORDS
from quadnorm.problems.points import POINTS
from quadnorm.training.config import TrainConfig
from quadnorm.training.config.read import checked
from quadnorm.training.data import problem_of, samples
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

    ``where`` is a run's folder or a checkpoint file; a file of :func:`save_adapted` gives an adapted model, or, with
    ``as_trained``, the model that was adapted. Nothing in the file is executed; a run of a model of your own,
    FILE.py:NAME, runs that file of yours again.
    """
    saved = Saved(find_checkpoint(where, which))
    model: nn.Module = saved.model().eval()
    how = _adapted(saved.info)
    if how is not None and not as_trained:
        from quadnorm.adapt.saved import adapted_as

        with parsing(saved.path, "its model cannot be adapted as it says", DamagedError):
            model = adapted_as(how, model)
    return model, saved.config


def adapted_way(where: str | os.PathLike[str], which: str = "best") -> str | None:
    """The way in which the model of a file of :func:`save_adapted` is adapted; None for other checkpoints."""
    how = _adapted(read_checkpoint(find_checkpoint(where, which))[1])
    return None if how is None else WORDS.get(str(how["way"]))


def _adapted(info: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the model of a checkpoint is adapted, if it is; files of older versions say where it is anchored."""
    old = info.get("anchored")
    return info.get("adapted") if old is None else _anchored(old["resolution"], old["placement"])


def _anchored(resolution: Any, placement: Any) -> dict[str, Any]:
    """How a model is anchored; force: whether that helps was checked, or overruled, when the file was written."""
    grid = {"resolution": resolution, "placements": placement}
    return {"way": "anchor", **grid, "layout": None, "example": None, "options": {"force": True}}


def _only_grid(saved: Saved) -> int | tuple[int, ...]:
    """The grid that a model was trained on; a ValueError if there are several."""
    first, *others = saved.config.resolutions.train
    if others:
        grids = ", ".join(map(str, (first, *others)))
        raise ValueError(f"{saved.path} was trained at {grids}; say which of them to adapt it to, resolution= (-r)")
    return first


def save_adapted(
    where: str | os.PathLike[str],
    out: str | os.PathLike[str],
    how: str = "transferred",
    resolution: int | tuple[int, ...] | None = None,
    placement: str | Sequence[str] | None = None,
    which: str = "best",
    force: bool = False,
) -> nn.Module:
    """Write a trained model as a checkpoint that is loaded adapted to other grids; returns the adapted model.

    The weights stay the same; the file also says how they are used on other grids.

    Args:
        where: a run's folder or a checkpoint.
        out: the file to write, ``*.safetensors``.
        how: ``transferred`` (with the run's validation pairs), ``anchored``, ``extended`` or ``native``.
        resolution: the training grid; by default the one grid that the model was trained on.
        placement: where its samples lie; default that of the problem.
        which: the weights, best or last.
        force: allow a grid that the model was not trained on, and an anchored model whose drift on a smooth input
            grows.
    """
    from quadnorm import adapt
    from quadnorm.adapt.adapted import Adapted
    from quadnorm.adapt.levels import is_piecewise_constant

    if how not in WORDS.values():
        raise ValueError(unknown("way to adapt a model", how, WORDS.values()))
    if Path(out).suffix != ".safetensors":
        raise ValueError(f"-o {out}: a checkpoint is written; expected a name that ends in .safetensors")
    saved = Saved(find_checkpoint(where, which))
    before = _adapted(saved.info)
    if before is not None:
        way = WORDS.get(before["way"], before["way"])
        raise ValueError(f"{saved.path} is adapted already: {way}, training grid {before['resolution']}")
    placement = placement or saved.sizes.placement
    if placement == POINTS:
        raise ValueError(
            f"{saved.path} was trained on meshes, and a model is adapted to a grid; on meshes train with control "
            f"volumes instead (operator.params.norm=quad operator.params.measure=trapezoid)"
        )
    p = problem_of(saved.config)
    if resolution is None:
        resolution = _only_grid(saved)
    if not force and p.shape(resolution) not in [p.shape(grid) for grid in saved.config.resolutions.train]:
        trained = ", ".join(map(str, saved.config.resolutions.train))
        raise ValueError(
            f"{saved.path} was trained at {trained}, not at {resolution}; adapt it to its training grid, or "
            "pass force=True (--force)"
        )
    model, shape = saved.model().eval(), p.shape(resolution)
    if how == "anchored":
        adapted = adapt.anchor(model, shape, placement, force=force)
    else:
        x, y = samples(saved.config, "val", [resolution])[resolution]
        options: Any = {"restrict": "nearest" if is_piecewise_constant(x) else "cubic"}
        options |= {"data": (x, y)} if how == "transferred" else {}
        adapted = getattr(adapt, WAYS[how].function)(model, shape, placement, **options)
    tensors = {k: v for k, v in saved.tensors.items() if k.startswith("model.")}
    how_it_is = adapted.saved() if isinstance(adapted, Adapted) else _anchored(shape, placement)
    write_checkpoint(Path(out), tensors, {**saved.info, "adapted": how_it_is})
    return adapted
