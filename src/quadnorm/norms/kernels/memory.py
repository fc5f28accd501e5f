"""Memory for outputs as large as the input."""

import ctypes
import sys
from functools import cache
from typing import Any

from torch import Tensor

# From this size on, the C library takes memory from the system and gives it back at once, so that every output is made
# of pages the system has to find and clear: half the time of writing it, unless they are large ones.
LARGE = 2**25
HUGE_PAGES = 14  # Linux's MADV_HUGEPAGE
PAGE = 4096


def ask_for_huge_pages(y: Tensor) -> None:
    """Put a fresh CPU tensor on huge pages where the system has them to give; a hint, which may be ignored."""
    advise = _madvise()
    if advise is not None and y.device.type == "cpu":
        start = -(-y.data_ptr() // PAGE) * PAGE
        advise(start, (y.data_ptr() + y.nbytes - start) // PAGE * PAGE, HUGE_PAGES)


@cache
def _madvise() -> Any:
    if sys.platform != "linux":
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise
