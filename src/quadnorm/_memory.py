"""How much memory there is, asked before it is taken, and what becomes of memory that is freed."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path

# The words of PyTorch's allocators, of C++ and of NumPy; each comes as a plain RuntimeError or ValueError.
_NO_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "Cannot allocate memory",
    "Storage size calculation overflowed",
    "array is too big",
)
_SENTENCE = "there is not enough memory"
_ASKED = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+) ([kMGTPE])iB")
# Of malloc.h: give nothing back to the system below 2 GiB of free memory, and take no block from it separately.
_KEEP = ((-1, "MALLOC_TRIM_THRESHOLD_", 2**31 - 1), (-4, "MALLOC_MMAP_MAX_", 0))


def keep_memory() -> bool:
    """Let the C library keep freed memory for later, 2 GiB of it, instead of giving it back to the system.

    A training step allocates and frees the same fields again and again. By default glibc gives blocks above 32 MiB
    back at once, and smaller ones as it comes; the system has to clear every page when it hands it out again: up to
    two fifths of a step's processor time. The ``quadnorm`` command calls this when it starts; in a program of your own,
    call it once, before the first step. Freed memory then stays with the process (its resident size does not fall).

    Holds in this process, for its main thread, and in the processes that it starts. Whoever has set a policy by
    ``MALLOC_…`` or ``GLIBC_TUNABLES`` in the environment keeps it, and other C libraries theirs; the return value says
    whether anything was set.

    >>> import quadnorm
    >>> done = quadnorm.keep_memory()  # doctest: +SKIP
    """
    names = [name for _, name, _ in _KEEP]
    others = [name for name in os.environ if name.startswith("MALLOC_") and name not in names]
    if "GLIBC_TUNABLES" in os.environ or others or any(os.environ.get(n, str(v)) != str(v) for _, n, v in _KEEP):
        return False
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    done = True
    for option, name, value in _KEEP:
        done &= bool(set_option(option, value))
        os.environ[name] = str(value)  # for the processes that this one starts
    return done


def available() -> int | None:
    """Bytes that this process may still take, as far as the system tells; None where it does not."""
    limits = []
    try:
        lines = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
        limits.append(1024 * sum(int(line[1]) for line in lines if line[0] in ("MemAvailable:", "SwapFree:")))
    except (OSError, ValueError, IndexError):
        pass
    if not limits:
        try:
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return None
    try:
        most = int(Path("/sys/fs/cgroup/memory.max").read_text())
        limits.append(most - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(0, min(limits))


def require(count: int, what: str) -> None:
    """Raise a ValueError if ``what`` needs more bytes than there are.

    >>> require(10**18, "1000 samples")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: 1000 samples would need 1.0 EB of memory; ... are free
    """
    there = available()
    if there is not None and count > there:
        raise ValueError(f"{what} would need {size(count)} of memory; {size(there)} are free")


def fits(count: int) -> bool:
    """Whether so many bytes are there, as far as the system tells."""
    there = available()
    return there is None or count <= there


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, in any of the ways that Python, NumPy, PyTorch and C++ have.

    >>> out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp:124] ... can't allocate memory: you tried ..."))
    True
    >>> out_of_memory(RuntimeError("shapes do not fit"))
    False
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, of any device
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if not isinstance(error, (RuntimeError, ValueError)) or _SENTENCE in str(error):  # said already, with more
        return False
    return any(words in str(error) for words in _NO_MEMORY)


def no_memory(error: BaseException) -> str:
    """One sentence for an error that says that memory ran out: how much was asked for, how much there is, what to do.

    >>> no_memory(RuntimeError("not enough memory: you tried to allocate 8000000000000 bytes"))  # doctest: +ELLIPSIS
    'there is not enough memory: 8.0 TB were asked for, ... are free; take fewer samples or a coarser grid'
    """
    asked, there = _ASKED.search(str(error)), available()
    count = 0.0
    if asked:
        count = float(asked[1] or float(asked[2]) * 1024 ** (1 + "kMGTPE".index(asked[3])))
    figures = f": {size(count)} were asked for, {size(there)} are free" if count and there is not None else ""
    return f"{_SENTENCE}{figures}; take fewer samples or a coarser grid"


def size(count: float) -> str:
    """A number of bytes for people.

    >>> size(300), size(2.5e9)
    ('300 B', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} EB"
