"""Measuring time and memory so that the figures mean something on a busy machine.

A time on its own says more about the machine than about the code: compare with a peer, in one process, taking turns.
"""

import ctypes
import gc
from collections.abc import Callable, Mapping
from math import nan
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypedDict


class BenchRow(TypedDict):
    """One comparison: ``ratio`` = seconds / peer_seconds, below 1 where we are faster."""

    name: str
    size: str
    seconds: float
    peak_mb: float
    peer: str
    peer_seconds: float
    ratio: float


def median_time(fn: Callable[[], object], repeats: int = 5) -> float:
    """Median of the seconds that ``fn()`` takes; call it once before if a first call is special.

    >>> 0 <= median_time(lambda: sum(range(100))) < 1
    True
    """
    return interleaved({"": fn}, repeats)[""]


def interleaved(fns: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each function, taking turns, so that what else the machine does hits all of them alike.

    >>> sorted(interleaved({"a": lambda: None, "b": lambda: None}, repeats=3))
    ['a', 'b']
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    seconds: dict[str, list[float]] = {name: [] for name in fns}
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()  # or one function pays for what another left behind
    try:
        for _ in range(repeats):
            for name, fn in fns.items():
                start = perf_counter()
                fn()
                seconds[name].append(perf_counter() - start)
    finally:
        if enabled:
            gc.enable()
    return {name: median(times) for name, times in seconds.items()}


def peak_memory(fn: Callable[[], object]) -> float:
    """How many megabytes (10⁶ bytes) of resident memory ``fn()`` adds at its worst moment.

    The kernel keeps the high-water mark, so no sample can miss it, and memory of C libraries counts as well. Only Linux
    lets a process reset its mark; elsewhere the answer is NaN.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # freed memory still held by malloc would hide that much of the rise
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
    except (OSError, AttributeError, KeyError):
        return nan
    result = fn()  # kept until after the reading: the result is part of what fn needs
    peak = _status("VmHWM")
    del result
    return max(peak - before, 0) * 1024 / 1e6


def _status(field: str) -> int:
    """A field of /proc/self/status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)[field].split()[0])


def row(name: str, size: str, seconds: float, peer: str, peer_seconds: float, peak_mb: float = nan) -> BenchRow:
    """A row with its ratio."""
    ratio = seconds / peer_seconds
    return BenchRow(
        name=name, size=size, seconds=seconds, peak_mb=peak_mb, peer=peer, peer_seconds=peer_seconds, ratio=ratio
    )
