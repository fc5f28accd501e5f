"""Sections of a config that compute something."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quadnorm.training.config import SamplesConfig


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
