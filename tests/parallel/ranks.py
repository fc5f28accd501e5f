"""A few processes that run many cases: started once per size and test module, each case on all of them."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests import HANGS


class Ranks:
    """``world`` processes in one gloo group."""

    def __init__(self, world: int, timeout: float = HANGS) -> None:
        self.world = world
        self.folder = tempfile.mkdtemp()
        # Forked from a server that has imported everything and started nothing.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.parallel.ranks", "quadnorm.adapt", "quadnorm.parallel"])
        self.pipes, self.processes = [], []
        for rank in range(world):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, world, os.path.join(self.folder, "store"), there, timeout), daemon=True
            )
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def run(self, case: Any, limit: float = HANGS, **options: Any) -> list[Any]:
        """``case(rank, world, **options)`` on every rank; their results, or an error with the first traceback."""
        for pipe in self.pipes:
            pipe.send((case.__module__, case.__name__, options))
        end, results = time.monotonic() + limit, [(False, f"no answer in {limit} s")] * self.world
        for rank, pipe in enumerate(self.pipes):
            if pipe.poll(max(end - time.monotonic(), 0.1)):
                results[rank] = pipe.recv()
                if not results[rank][0]:
                    end = min(end, time.monotonic() + 1)  # the others may wait for it
        failed = [f"rank {r}: {text}" for r, (good, text) in enumerate(results) if not good]
        failed.sort(key=lambda text: "RankLostError" in text or "no answer" in text)  # the cause first
        if failed:
            self.close()  # the others may be waiting for the one that failed
            raise AssertionError("\n".join(failed))
        return [value for _, value in results]

    @property
    def alive(self) -> bool:
        return all(p.is_alive() for p in self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def _serve(rank: int, world: int, store: str, pipe: Any, timeout: float) -> None:
    torch.set_num_threads(1)
    os.environ["QUADNORM_KERNEL"] = "torch"  # nothing to compile in every process
    limit = timedelta(seconds=timeout)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=limit)
    while True:
        try:
            module, name, options = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            torch.manual_seed(0)
            pipe.send((True, getattr(importlib.import_module(module), name)(rank, world, **options)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


_POOLS: dict[int, Ranks] = {}


def run(world: int, case: Any, **options: Any) -> list[Any]:
    """Run a case on ``world`` processes, started when they are first asked for."""
    if world not in _POOLS or not _POOLS[world].alive:
        _POOLS[world] = Ranks(world)
    return _POOLS[world].run(case, **options)


@contextmanager
def pools() -> Iterator[None]:
    """Ends all processes afterwards."""
    try:
        yield
    finally:
        for ranks in _POOLS.values():
            ranks.close()
        _POOLS.clear()
