"""Check and build the model of a config: the operator and its normalisers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._load import from_file, names_file
from quadnorm._memory import require
from quadnorm._suggest import unknown
from quadnorm._text import one_line
from quadnorm.measures.placement import Placements
from quadnorm.problems import Problem
from quadnorm.problems.points import POINTS
from quadnorm.training.config import TrainConfig
from quadnorm.training.config.operator_params import check_params
from quadnorm.training.model.normalised import Normalised


@dataclass(frozen=True)
class Sizes:
    """The properties of a model that the problem decides: channels, dimension, placement."""

    in_channels: int
    out_channels: int
    dim: int
    placement: Placements

    def __post_init__(self) -> None:
        if not isinstance(self.placement, str):  # JSON has lists only
            object.__setattr__(self, "placement", tuple(self.placement))

    @classmethod
    def of(cls, p: Problem) -> Sizes:
        """The sizes of a problem; of inputs on points only the fields count, not the volume and the coordinates."""
        carried = 1 + p.dim if p.placement == POINTS else 0
        return cls(len(p.inputs) - carried, len(p.outputs), p.dim, p.placement)


def operator_class(name: str) -> Callable[..., nn.Module]:
    """The class of an operator, by its name in a config; FILE.py:NAME runs that file."""
    if names_file(name):
        make: Callable[..., nn.Module] = from_file(name, "a class of models, or a function that makes one")
        return make
    from quadnorm import operators
    from quadnorm.training.model.packages import NeuralopFNO, PhysicsnemoFNO

    table: dict[str, Callable[..., nn.Module]] = {
        "fno": operators.FNO,
        "galerkin": operators.GalerkinTransformer,
        "transolver": operators.Transolver,
        "resnet": operators.ResNet,
        "neuralop-fno": NeuralopFNO,
        "physicsnemo-fno": PhysicsnemoFNO,
    }
    if name not in table:
        raise ValueError(unknown("operator", name, table))
    return table[name]


def build_model(config: TrainConfig, sizes: Sizes) -> Normalised:
    """The untrained model of a config; its weights depend on ``config.seed`` only.

    Arguments that the problem decides are filled in; all others are checked against the operator's signature, and the
    memory that training needs against the memory that is free.
    """
    # Weights, gradients and the optimiser's two averages.
    need = 4 * sum(t.nbytes for t in outline(config, sizes).values())
    require(need, f"training this {config.operator.name}, {config.operator.params},")
    return _build(config, sizes)


def outline(config: TrainConfig, sizes: Sizes) -> dict[str, Tensor]:
    """The model's tensors by name, with shape and dtype but without memory (``meta`` device).

    A model of the user's own may read values while it is built; then it is built with memory.
    """
    try:
        with torch.device("meta"):
            model = _build(config, sizes)
    except Exception:  # whatever the constructor of a foreign class makes of tensors without values
        if not names_file(config.operator.name):
            raise
        model = _build(config, sizes)
    tensors: dict[str, Tensor] = model.state_dict()
    return tensors


def check_grids(config: TrainConfig, sizes: Sizes, shapes: Iterable[tuple[int, ...]]) -> None:
    """Raise a ValueError if the model cannot run on a grid, such as one with fewer samples than its modes need.

    Nothing is computed (``meta`` device), so that it can be checked before data are made.
    """
    if sizes.placement == POINTS:
        return
    if names_file(config.operator.name):
        _try_own(config, sizes, shapes)
        return
    with torch.device("meta"), torch.no_grad():
        model = _build(config, sizes)
        for shape in shapes:
            x = torch.empty(1, sizes.in_channels, *shape, dtype=getattr(torch, config.dtype))
            try:
                model(x)
            except ValueError as error:
                grid = "×".join(map(str, shape))
                raise ValueError(f"the {config.operator.name} of this config does not run at {grid}: {error}") from None


def _try_own(config: TrainConfig, sizes: Sizes, shapes: Iterable[tuple[int, ...]]) -> None:
    """Run a model of the user's own on one sample of each grid, and compare its output with what training needs."""
    model = _build(config, sizes).eval()
    for shape in shapes:
        grid = "×".join(map(str, shape))
        x = torch.randn(1, sizes.in_channels, *shape, generator=torch.Generator().manual_seed(0), device="cpu")
        try:
            with torch.no_grad():
                y = model.operator(x.to(getattr(torch, config.dtype)))
        except Exception as error:
            raise ValueError(
                f"{config.operator.name} raised {type(error).__name__} on an input of shape {tuple(x.shape)}, one "
                f"sample at {grid}: {one_line(error)}"
            ) from error
        wanted = (1, sizes.out_channels, *shape)
        if not isinstance(y, Tensor) or tuple(y.shape) != wanted:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"{config.operator.name} gives {got} for an input of shape {tuple(x.shape)}; training needs fields "
                f"with channels first, {wanted}"
            )


def _build(config: TrainConfig, sizes: Sizes) -> Normalised:
    name, params, decided = config.operator.name, config.operator.params, asdict(sizes)
    make = operator_class(name)
    known: Any = inspect.signature(make).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()):
        known = {**known, **dict.fromkeys(params)}  # **options: any further parameter
    for key in params:
        if key in decided:
            raise ValueError(f"operator.params.{key} is decided by the problem ({decided[key]}); leave it out")
        if key not in known:
            raise ValueError(f"operator.params for {name}: " + unknown("parameter", key, set(known) - set(decided)))
    on_points = sizes.placement == POINTS
    if on_points:
        from quadnorm.training.model.points import OnPoints, check_takes_points

        check_takes_points(make, name)
        del decided["placement"]  # an operator's ``placement`` is about grids
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            check_params(make, params)
            operator = make(**{k: v for k, v in decided.items() if k in known}, **params)
        except (TypeError, ValueError) as error:
            raise ValueError(f"operator.params for {name}: {error}") from error
        if not isinstance(operator, nn.Module):
            raise ValueError(f"{name} gave {type(operator).__name__}, expected a torch.nn.Module")
    wrap = OnPoints if on_points else Normalised
    return _cast(wrap(operator, sizes.in_channels, sizes.out_channels), getattr(torch, config.dtype))


def _cast(model: Normalised, dtype: torch.dtype) -> Normalised:
    """The model in another precision. Complex weights stay complex; ``Module.to`` would make them real."""

    def one(t: Tensor) -> Tensor:
        if t.is_complex():
            return t.to(dtype.to_complex())
        return t.to(dtype) if t.is_floating_point() else t

    model._apply(one)
    return model
