"""Samples of a config as tensors: the problem's, at every grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from quadnorm.problems import problem
from quadnorm.training import TrainConfig
from quadnorm.training.data import samples

Tiny = Callable[..., TrainConfig]


def test_samples_are_the_problems_at_every_grid(tiny: Tiny) -> None:
    config = tiny("problem.seed=3", "problem.params.placement=cell", "dtype=float64")
    pairs = samples(config, "val", [9, (5, 7)])
    p = problem("poisson", placement="cell")
    for grid in (9, (5, 7)):
        x, y = p.sample(range(4, 8), grid, seed=3, dtype=torch.float64)
        assert torch.equal(pairs[grid][0], x)
        assert torch.equal(pairs[grid][1], y)


def test_the_cache_serves_the_same_samples(
    tiny: Tiny, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path_factory.mktemp("cache")))
    kept, drawn = samples(tiny("problem.cache=true"), "test", [9])[9], samples(tiny(), "test", [9])[9]
    for a, b in zip(kept, drawn, strict=True):
        torch.testing.assert_close(a, b)


def test_samples_that_are_not_numbers_are_named(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem("poisson")

    def spoilt(*args: object, **options: object) -> list[tuple[Tensor, Tensor]]:
        y = torch.ones(4, 1, 9, 9)
        y[2, 0, 3, 3] = math.inf
        return [(torch.ones(4, 1, 9, 9), y)]

    monkeypatch.setattr(type(p), "sample_many", spoilt)
    with pytest.raises(
        ValueError, match=r"poisson: 1 of 4 val samples hold NaN or infinite values in y at 9, .* sample 6"
    ):
        samples(tiny(), "val", [9])
