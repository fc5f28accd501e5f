"""The operator of a config, and the module that carries its normalisers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._memory import require
from quadnorm._suggest import unknown
from quadnorm.problems import Problem
from quadnorm.problems.points import POINTS
from quadnorm.training.config import TrainConfig
from quadnorm.training.operator_params import check_params


@dataclass(frozen=True)
class Sizes:
    """What the problem decides of a model."""

    in_channels: int
    out_channels: int
    dim: int
    placement: str

    @classmethod
    def of(cls, p: Problem) -> Sizes:
        """The sizes of a problem; of inputs on points only the fields count, not the volume and the coordinates."""
        carried = 1 + p.dim if p.placement == POINTS else 0
        return cls(len(p.inputs) - carried, len(p.outputs), p.dim, p.placement)


class Normalised(nn.Module):
    """An operator between scalar normalisers: y = μ_y + σ_y · G((x − μ_x)/σ_x), one μ and σ per channel.

    Scalars, because a mean field on one grid says nothing on another. They are buffers, so that they are saved with the
    weights: inputs and outputs are in the problem's own units.

    x (B, C_in, *spatial) -> y (B, C_out, *spatial)

    >>> half = Normalised(nn.Identity(), 1, 1)
    >>> half.fit(torch.tensor([[[0.0, 4.0]]]), torch.tensor([[[1.0, 3.0]]]))
    >>> half(torch.tensor([[[0.0, 4.0]]]))
    tensor([[[1., 3.]]])
    """

    x_mean: Tensor
    x_std: Tensor
    y_mean: Tensor
    y_std: Tensor

    def __init__(self, operator: nn.Module, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.operator = operator
        for side, channels in (("x", in_channels), ("y", out_channels)):
            self.register_buffer(f"{side}_mean", torch.zeros(channels))
            self.register_buffer(f"{side}_std", torch.ones(channels))

    def fit(self, x: Tensor, y: Tensor) -> None:
        """Take μ and σ of every channel from samples x (B, C_in, *spatial) and y (B, C_out, *spatial)."""
        for side, values in (("x", x), ("y", y)):
            mean, std = moments(values)
            getattr(self, f"{side}_mean").copy_(mean)
            getattr(self, f"{side}_std").copy_(std)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        encoded = (x - _channels(self.x_mean, x)) / _channels(self.x_std, x)
        y: Tensor = self.operator(encoded, **options)
        return y * _channels(self.y_std, y) + _channels(self.y_mean, y)


def moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, (C,) each, over samples and space, in float64.

    A channel that does not vary has σ = 1: it becomes 0 and stays finite.
    """
    rows = values.transpose(0, 1).flatten(1)  # (C, B·N)
    mean = torch.stack([row.double().mean() for row in rows])
    std = torch.stack([(row.double() - m).square().mean().sqrt() for row, m in zip(rows, mean, strict=True)])
    # Rounding leaves a constant channel a σ of about 1e-7·|μ| in float32; dividing by it would amplify noise.
    return mean, torch.where(std > 1e-6 * mean.abs(), std, torch.ones_like(std))


def _channels(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape(-1, *[1] * (x.ndim - 2))


def operator_class(name: str) -> Callable[..., nn.Module]:
    """The class of an operator, by its name in a config."""
    from quadnorm import operators
    from quadnorm.training.neuralop import NeuralopFNO

    table: dict[str, Callable[..., nn.Module]] = {
        "fno": operators.FNO,
        "galerkin": operators.GalerkinTransformer,
        "transolver": operators.Transolver,
        "neuralop-fno": NeuralopFNO,
    }
    if name not in table:
        raise ValueError(unknown("operator", name, table))
    return table[name]


def build_model(config: TrainConfig, sizes: Sizes) -> Normalised:
    """The untrained model of a config; its weights come from ``config.seed`` alone.

    What the problem decides is filled in; everything else is checked against the operator's own arguments, and the
    memory for training against what there is.
    """
    # Weights, gradients and the optimiser's two averages.
    need = 4 * sum(t.nbytes for t in outline(config, sizes).values())
    require(need, f"training this {config.operator.name}, {config.operator.params},")
    return _build(config, sizes)


def outline(config: TrainConfig, sizes: Sizes) -> dict[str, Tensor]:
    """Names, shapes and dtypes of the model's tensors, which take no memory."""
    with torch.device("meta"):
        return _build(config, sizes).state_dict()


def _build(config: TrainConfig, sizes: Sizes) -> Normalised:
    name, params, decided = config.operator.name, config.operator.params, asdict(sizes)
    make = operator_class(name)
    known = inspect.signature(make).parameters
    for key in params:
        if key in decided:
            raise ValueError(f"operator.params.{key} is decided by the problem ({decided[key]}); leave it out")
        if key not in known:
            raise ValueError(f"operator.params for {name}: " + unknown("parameter", key, set(known) - set(decided)))
    on_points = sizes.placement == POINTS
    if on_points:
        from quadnorm.training.points import OnPoints, check_takes_points

        check_takes_points(make, name)
        del decided["placement"]  # the operator's word is about grids
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            check_params(make, params)
            operator = make(**{k: v for k, v in decided.items() if k in known}, **params)
        except (TypeError, ValueError) as error:
            raise ValueError(f"operator.params for {name}: {error}") from error
    wrap = OnPoints if on_points else Normalised
    return _cast(wrap(operator, sizes.in_channels, sizes.out_channels), getattr(torch, config.dtype))


def _cast(model: Normalised, dtype: torch.dtype) -> Normalised:
    """The model in a precision; complex weights stay complex, which ``Module.to`` would make real."""

    def one(t: Tensor) -> Tensor:
        if t.is_complex():
            return t.to(dtype.to_complex())
        return t.to(dtype) if t.is_floating_point() else t

    model._apply(one)  # type: ignore[no-untyped-call]
    return model
