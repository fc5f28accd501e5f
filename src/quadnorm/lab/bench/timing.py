"""Measuring time and memory so that the figures are meaningful on a busy machine.

A single time says more about the machine than about the code. So compare with a peer, in one process, taking turns.
"""

import ctypes
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import nan
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypedDict


class BenchRow(TypedDict):
    """One comparison: ``ratio`` = seconds / peer_seconds, below 1 if we are faster."""

    name: str
    size: str
    seconds: float
    peak_mb: float
    peer: str
    peer_seconds: float
    ratio: float


def median_time(fn: Callable[[], object], repeats: int = 5) -> float:
    """Median time of ``fn()`` in seconds; if its first call does extra work, call it once before.

    >>> 0 <= median_time(lambda: sum(range(100))) < 1
    True
    """
    return interleaved({"": fn}, repeats)[""]


def interleaved(
    fns: Mapping[str, Callable[[], object]], repeats: int = 5, clock: Callable[[], float] | None = None
) -> dict[str, float]:
    """Median seconds of each function; they take turns, so that other load on the machine affects all of them alike.

    With ``clock=process_time`` these are seconds of the processor, over all threads: time that others have it is none.

    >>> sorted(interleaved({"a": lambda: None, "b": lambda: None}, repeats=3))
    ['a', 'b']
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    now = clock or perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in fns}
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()  # otherwise one function may pay for garbage that another one left
    try:
        for _ in range(repeats):
            for name, fn in fns.items():
                start = now()
                fn()
                seconds[name].append(now() - start)
    finally:
        if enabled:
            gc.enable()
    return {name: median(times) for name, times in seconds.items()}


def peak_memory(fn: Callable[[], object]) -> float:
    """Peak resident memory that ``fn()`` adds, in megabytes (10⁶ bytes).

    The operating system records the peak, so it cannot be missed, and the memory of C libraries counts as well. Only
    Linux lets a process reset its peak; elsewhere the result is NaN.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # freed memory still held by malloc would hide that much of the rise
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
    except (OSError, AttributeError, KeyError):
        return nan
    result = fn()  # kept until the peak is read: the result counts as memory of fn
    peak = _status("VmHWM")
    del result
    return max(peak - before, 0) * 1024 / 1e6


# malloc.h: what keeps everything that is freed, and what glibc's thresholds become by themselves after large blocks.
_TRIM, _MAP_FROM, _MAPS = -1, -3, -4
_KEPT = {_TRIM: 2**31 - 1, _MAPS: 0}
_GIVEN_BACK = {_TRIM: 2**26, _MAP_FROM: 2**25, _MAPS: 2**16}
_NAMES = {_TRIM: "MALLOC_TRIM_THRESHOLD_", _MAP_FROM: "MALLOC_MMAP_THRESHOLD_", _MAPS: "MALLOC_MMAP_MAX_"}


@contextmanager
def memory_kept() -> Iterator[bool]:
    """Let the C library keep whatever is freed inside, of any size; whether it does (glibc, in the main thread).

    Large tensors otherwise come from the system, page by page, and go back at once. What that costs either side of a
    comparison is decided by where its memory happens to lie. Other threads have heaps of 64 MiB, and larger blocks
    come from the system whatever the options are: hence the trial.
    """
    with _options(_KEPT) as able:
        yield able and _used_again(2**26)


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Let the C library give large blocks back to the system at once, as it does unless it is told otherwise.

    Before :func:`memory_kept`, not after it: holes in what was kept would go on being used.
    """
    with _options(_GIVEN_BACK):
        yield


@contextmanager
def _options(values: Mapping[int, int]) -> Iterator[bool]:
    """Options of malloc; afterwards those of the environment (where ``quadnorm`` leaves its own) or the default."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        set_option, give_back = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        yield False
        return
    try:
        done = [set_option(option, value) for option, value in values.items()]
        yield all(done)
    finally:
        for option in values:
            set_option(option, int(os.environ.get(_NAMES[option]) or _GIVEN_BACK[option]))
        give_back(0)


def memory_setting() -> str:
    """What the C library does with large blocks that are freed, found by trial."""
    return "kept" if _used_again(2**26) else "given back"


def _used_again(size: int) -> bool:
    """Whether a block of this many bytes, freed and asked for again, needs no new pages."""
    import resource  # not on Windows

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        bytearray(size)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    # The first blocks may miss a hole by a few bytes that others took. All pages would be more: none has over 64 KiB.
    return min(faults() for _ in range(5)) < size // 2**20


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
