"""Splits, batch order, several grids, normalisers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from quadnorm.problems import problem
from quadnorm.training import Normalised, TrainConfig
from quadnorm.training.config import SamplesConfig
from quadnorm.training.data import batches, epoch_grids, samples
from quadnorm.training.model import Sizes, build_model, moments

Tiny = Callable[..., TrainConfig]


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50))
def test_splits_are_disjoint_and_a_larger_training_set_keeps_the_others(train: int, val: int, test: int) -> None:
    split = SamplesConfig(train=train, val=val, test=test)
    parts = [set(split.indices(s)) for s in ("train", "val", "test")]  # type: ignore[arg-type]
    assert [len(p) for p in parts] == [train, val, test]
    assert len(set.union(*parts)) == train + val + test
    larger = SamplesConfig(train=train + 7, val=val, test=test)
    assert larger.indices("val") == split.indices("val")
    assert larger.indices("test") == split.indices("test")
    assert set(larger.indices("train")) > parts[0]


def test_samples_are_the_problems_at_every_grid(tiny: Tiny) -> None:
    config = tiny("problem.seed=3", "problem.params.placement=cell", "dtype=float64")
    found = samples(config, "val", [9, (5, 7)])
    p = problem("poisson", placement="cell")
    for grid in (9, (5, 7)):
        x, y = p.sample(range(4, 8), grid, seed=3, dtype=torch.float64)
        assert torch.equal(found[grid][0], x)
        assert torch.equal(found[grid][1], y)


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


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5), st.integers(0, 9))
def test_an_epoch_sees_every_sample_once(count: int, batch: int, seed: int, epoch: int) -> None:
    config = TrainConfig(samples={"train": count}, batch=batch, seed=seed)  # type: ignore[arg-type]
    found = [b.index for b in batches(config, epoch)]
    assert [len(b) for b in found] == [batch] * (count // batch) + [count % batch] * (count % batch > 0)
    assert sorted(torch.cat(found).tolist()) == list(range(count))
    for start in range(config.steps_per_epoch):  # from any step on it is the same sequence
        assert all(torch.equal(a.index, b) for a, b in zip(batches(config, epoch, start), found[start:], strict=True))


def test_the_order_depends_on_seed_and_epoch_only(tiny: Tiny) -> None:
    def order(*overrides: str, epoch: int = 0) -> list[int]:
        return torch.cat([b.index for b in batches(tiny(*overrides), epoch)]).tolist()

    base = order()
    assert base == order("operator.params.norm=quad", "problem.seed=5", "batch=5", "resolutions.train=[5,9]")
    assert base != order("seed=1")
    assert base != order(epoch=1)


def test_several_grids_take_turns() -> None:
    def config(per_epoch: int | None, count: int = 3) -> TrainConfig:
        return TrainConfig(
            samples={"train": 10},
            batch=2,
            resolutions={"train": [9, 17, 33][:count], "per_epoch": per_epoch},  # type: ignore[arg-type]
        )

    assert [b.grid for b in batches(config(None), 0)] == [9, 17, 33, 9, 17]
    assert [b.grid for b in batches(config(None), 1)] == [17, 33, 9, 17, 33]
    assert [epoch_grids(config(1), e) for e in range(4)] == [(9,), (17,), (33,), (9,)]
    assert [epoch_grids(config(2), e) for e in range(3)] == [(9, 17), (33, 9), (17, 33)]
    # Over as many epochs as there are grids each is used equally often.
    for k in (1, 2, 3):
        used = [b.grid for e in range(3) for b in batches(config(k), e)]
        assert {g: used.count(g) for g in (9, 17, 33)} == {9: 5, 17: 5, 33: 5}


def test_normalisers_are_one_mean_and_deviation_per_channel() -> None:
    """Channel 0 takes −1, 3 equally often: μ = 1, σ = 2. Channel 1 is constant: μ = 5 and σ is set to 1."""
    x = torch.tensor([-1.0, 3.0]).repeat(3, 8).reshape(3, 1, 4, 4)
    x = torch.cat([x, torch.full_like(x, 5.0)], 1)
    mean, std = moments(x)
    assert mean.tolist() == [1.0, 5.0]
    assert std.tolist() == [2.0, 1.0]


def test_deviation_survives_a_large_mean() -> None:
    x = 1e6 + torch.tensor([-1.0, 1.0]).repeat(1000).reshape(1, 1, 2000)
    assert moments(x)[1].item() == pytest.approx(1.0, rel=1e-6)


def test_the_model_works_in_the_problems_units() -> None:
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x**2

    model = Normalised(Square(), 1, 1)
    x, y = 3 + 2 * torch.randn(50, 1, 7), 10 - 4 * torch.randn(50, 1, 7)
    model.fit(x, y)
    z = (x - x.mean()) / x.std(correction=0)
    torch.testing.assert_close(model(x), z**2 * y.std(correction=0) + y.mean(), rtol=1e-4, atol=1e-4)
    assert set(model.state_dict()) == {"x_mean", "x_std", "y_mean", "y_std"}


def test_a_model_depends_on_its_seed_alone(tiny: Tiny) -> None:
    sizes = Sizes(1, 1, 2, "endpoint")
    torch.manual_seed(1)
    a = build_model(tiny(), sizes).state_dict()
    torch.manual_seed(2)
    expected = torch.rand(1)
    torch.manual_seed(2)
    b = build_model(tiny(), sizes).state_dict()
    assert torch.equal(torch.rand(1), expected)  # the caller's random stream is untouched
    assert all(torch.equal(a[k], b[k]) for k in a)
    c = build_model(tiny("seed=1"), sizes).state_dict()
    assert any(not torch.equal(a[k], c[k]) for k in a)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("operator.params.widht=3", "operator.params for fno: unknown parameter 'widht'; did you mean 'width'?"),
        ("operator.params.norm=qaud", "operator.params for fno: unknown norm 'qaud'; did you mean 'quad'?"),
        ("operator.params.dim=3", r"operator.params.dim is decided by the problem \(2\); leave it out"),
        ("operator.params.layers=0", "operator.params for fno: layers must be"),
    ],
)
def test_wrong_operator_parameters(tiny: Tiny, override: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        build_model(tiny(override), Sizes(1, 1, 2, "endpoint"))
