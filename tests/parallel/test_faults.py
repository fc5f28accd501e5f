"""A rank that dies or stalls: the others fail with a message, in time, and nothing hangs."""

from __future__ import annotations

import os
import time

import pytest
import torch

from quadnorm.operators import FNO
from quadnorm.parallel import RankLostError, shard
from tests import HANGS
from tests.parallel.compare import world_group
from tests.parallel.ranks import Ranks

TIMEOUT = 10.0  # more than ranks need to meet on a busy machine


def case_lost(rank: int, world: int, how: str) -> None:
    model = shard(FNO(modes=2, width=4, layers=2, norm="quad"), world_group(), size=8)
    x = model._split.take(torch.randn(1, 1, 8, 8))
    loss = model(x).square().sum()
    if rank == 1:
        if how == "dies":
            os._exit(1)
        time.sleep(2 * HANGS)

    def steps() -> None:
        for _ in range(3):
            loss.backward(retain_graph=True)
            model(x)

    with pytest.raises(
        RankLostError, match=rf"rank {rank} of {world} could not .*another rank has died, left or fallen"
    ):
        steps()


@pytest.mark.parametrize("how", ["dies", "stalls"])
def test_the_others_fail_in_time(how: str) -> None:
    ranks = Ranks(3, timeout=TIMEOUT)
    try:
        for pipe in ranks.pipes:
            pipe.send((case_lost.__module__, "case_lost", {"how": how}))
        for rank in (0, 2):
            assert ranks.pipes[rank].poll(HANGS), f"rank {rank} hangs"
            good, text = ranks.pipes[rank].recv()
            assert good, text
    finally:
        ranks.close()
