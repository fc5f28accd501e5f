"""Operators on shards equal operators on the whole: grids and points, every kernel and measure."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from quadnorm.operators.spectral.convolution import SpectralConv
from tests.adapt.models import ClassicFNO
from tests.parallel.compare import compare, cut, world_group
from tests.parallel.ranks import run

SMALL = {"width": 8, "layers": 2}
MASK = torch.arange(11)[:, None] + torch.arange(9) > 4

MODELS: dict[str, Any] = {
    "fno": lambda: FNO(modes=3, norm="layer", **SMALL),
    "fno quadrature": lambda: FNO(modes=3, norm="quad:instance", measure="trapezoid", kernel="quadrature", **SMALL),
    "fno hermitian gain": lambda: FNO(modes=3, norm="blend", kernel="hermitian", gain=True, **SMALL),
    "fno padded blend": lambda: FNO(modes=3, measure=qn.Blend(0.3, qn.Grid("simpson")), padding=0.25, **SMALL),
    "fno masked": lambda: FNO(modes=3, measure=qn.Grid("midpoint").masked(MASK), placement="cell", **SMALL),
    "fno anchored": lambda: qn.anchor(FNO(modes=2, norm="instance", **SMALL), 7),
    "fno anchored blend": lambda: qn.anchor(FNO(modes=2, norm="blend", **SMALL), (7, 6)),
    "galerkin": lambda: GalerkinTransformer(heads=2, norm="quad", **SMALL),
    "galerkin anchored": lambda: qn.anchor(GalerkinTransformer(heads=2, norm="layer", **SMALL), 7),
    "transolver": lambda: Transolver(heads=2, norm="token", slices=3, **SMALL),
    "transolver trapezoid": lambda: Transolver(
        heads=2, norm="quad", slices=3, measure="trapezoid", learn_temperature=True, **SMALL
    ),
    "transolver anchored": lambda: qn.anchor(Transolver(heads=2, slices=3, norm="layer", **SMALL), 7),
    "fno extended": lambda: qn.extend(FNO(modes=2, norm="layer", **SMALL), 7, example=torch.randn(1, 1, 7, 7)),
    "torch norms": lambda: nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)),
    "torch norms with the training grid's measure": lambda: qn.convert(
        nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4), nn.GELU(), nn.InstanceNorm2d(4), nn.Conv2d(4, 1, 1)),
        "quad",
        measure=qn.Anchored((7, 7)),
    )[0],
}


def case_model(rank: int, world: int, name: str, dtype: torch.dtype, how: str, axis: int) -> None:
    x = torch.randn(2, 1, 11, 9, dtype=dtype)
    compare(MODELS[name]().to(dtype), x, world_group(), axis, cut(x.shape[2 + axis], world, how))


@pytest.mark.parametrize("name", MODELS)
def test_grid(name: str) -> None:
    for world, how, axis in ((2, "even", 0), (3, "uneven", 1), (4, "empty", 0)):
        run(world, case_model, name=name, dtype=torch.float64, how=how, axis=axis)
    run(2, case_model, name=name, dtype=torch.float32, how="uneven", axis=1)


def case_extended(rank: int, world: int) -> None:
    """Attention, and kernels of several samples."""
    x, example = torch.randn(2, 1, 11, 9, dtype=torch.float64), torch.randn(1, 1, 7, 7, dtype=torch.float64)
    kernels = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.InstanceNorm2d(4), nn.Conv2d(4, 1, 1))
    for model in (Transolver(heads=2, slices=3, norm="layer", width=8, layers=1), kernels):
        extended = qn.extend(model.double(), 7, "endpoint", example=example)
        extended.stencils = "carried"  # else kernels reach into other ranks' samples
        compare(extended, x, world_group(), 1, cut(9, world, "uneven"))


def test_extended_models_of_all_kinds() -> None:
    run(2, case_extended)


def case_padded_extended(rank: int, world: int) -> None:
    """As people write it: complex weights, padding in samples. Its shards hold fewer samples than it keeps waves."""
    x = torch.randn(2, 1, 11, 9)
    compare(qn.extend(ClassicFNO(pad=3, modes=3), 7, "endpoint"), x, world_group(), 0, cut(11, world, "uneven"))


def test_a_padded_model_of_strangers_extended() -> None:
    run(3, case_padded_extended)


def case_points(rank: int, world: int, kind: str, how: str, given: str, batch: bool) -> None:
    make = {"galerkin": GalerkinTransformer, "transolver": Transolver}[kind]
    measure = "counting" if given in ("none", "count") else "trapezoid"
    model = make(heads=2, norm="layer" if given == "none" else "quad", measure=measure, **SMALL).double()
    x = torch.randn(2, 13, 1, dtype=torch.float64)
    r = torch.rand(2, 13, 2, dtype=torch.float64) if batch else torch.rand(13, 2, dtype=torch.float64)
    whole, spatial = {"coordinates": r}, {"coordinates": r.ndim - 2}
    if given != "none":
        w = torch.rand(2, 13, dtype=torch.float64)
        w[0, 3] = w[1, 12] = 0.0
        x[0, 3] = torch.nan  # nobody is there
        whole["weights"], spatial["weights"] = w, 1
    if given == "apart":
        whole["norm_weights"], spatial["norm_weights"] = torch.ones(2, 13, dtype=torch.float64), 1
    if given != "none":
        x = x.nan_to_num(0.0)  # gradients at absent points mean nothing, and NaN spoils the comparison
    compare(model, x, world_group(), 0, cut(13, world, how), first=1, whole=whole, spatial=spatial)


@pytest.mark.parametrize("kind", ["galerkin", "transolver"])
@pytest.mark.parametrize("given", ["none", "count", "weights", "apart"])
def test_points(kind: str, given: str) -> None:
    run(2, case_points, kind=kind, how="even", given=given, batch=False)
    run(3, case_points, kind=kind, how="empty", given=given, batch=True)


def case_dimensions(rank: int, world: int) -> None:
    for dim, shape in ((1, (12,)), (3, (5, 6, 7))):
        layer = SpectralConv(2, 3, 2, dim, measure="trapezoid").double()
        for axis in range(dim):
            compare(layer, torch.randn(2, 2, *shape, dtype=torch.float64), world_group(), axis, shape[axis])
            layer.zero_grad()
    both = FNO(modes=(2, 3), backend="fft", **SMALL).double()  # the whole by FFT, the shards by sums
    compare(both, torch.randn(1, 1, 12, 10, dtype=torch.float64), world_group(), -1, 10)


def test_one_and_three_dimensions() -> None:
    run(3, case_dimensions)


REFUSED = {
    "Conv2d": nn.Conv2d(1, 1, 3, padding=1),
    "BatchNorm2d": nn.BatchNorm2d(4),
    "AvgPool2d": nn.AvgPool2d(2),
    "SpectralNorm": qn.make_norm("spectral", 4),
    "LayerNorm": nn.LayerNorm((4, 5, 5)),
}


def test_models_that_carry_the_whole_field_are_refused() -> None:
    """Each rank would carry its own part as if it were the whole: wrong numbers without a word."""
    from quadnorm.parallel import shard, single

    with pytest.raises(ValueError, match=r"cannot work on shards:\n  \(model\).*one that is anchored or extended"):
        shard(qn.at_native(FNO(modes=2, **SMALL), 7), single())


@pytest.mark.parametrize("name", REFUSED)
def test_modules_that_mix_samples_in_other_ways_are_refused(name: str) -> None:
    from quadnorm.parallel import shard, single

    model = nn.Sequential(nn.Conv2d(1, 4, 1), REFUSED[name])
    with pytest.raises(ValueError, match=rf"cannot work on shards:\n  1 \({name}\)"):
        shard(model, single())
    assert type(model) is nn.Sequential  # nothing was changed
