"""Batches of an epoch: every sample once, several grids in turn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.training import TrainConfig
from quadnorm.training.data import batches, epoch_grids

Tiny = Callable[..., TrainConfig]


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5), st.integers(0, 9))
def test_an_epoch_sees_every_sample_once(count: int, batch: int, seed: int, epoch: int) -> None:
    config = TrainConfig(samples={"train": count}, batch=batch, seed=seed)  # type: ignore[arg-type]
    taken = [b.index for b in batches(config, epoch)]
    assert [len(b) for b in taken] == [batch] * (count // batch) + [count % batch] * (count % batch > 0)
    assert sorted(torch.cat(taken).tolist()) == list(range(count))
    for start in range(config.steps_per_epoch):  # from any step on it is the same sequence
        assert all(torch.equal(a.index, b) for a, b in zip(batches(config, epoch, start), taken[start:], strict=True))


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
