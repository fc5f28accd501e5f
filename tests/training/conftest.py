"""What every test of this room uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from quadnorm.training import TrainConfig, read_config
from tests.training.tiny_runs import TINY


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny() -> Callable[..., TrainConfig]:
    """The tiny config, changed by overrides."""
    return lambda *overrides: read_config(TINY, overrides)
