"""Memory for outputs as large as the input."""

import ctypes
import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor

# From this size on, the C library takes memory from the kernel and gives it back at once, so that every output is made
# of pages the kernel has to find and clear: half the time of writing it, unless they are large ones.
LARGE = 2**25
HUGE_PAGES = 14  # Linux's MADV_HUGEPAGE
PAGE = 4096


def empty_like(x: Tensor) -> Tensor:
    """An uninitialised tensor like x, on huge pages where the system has them to give on request.

    Values are those of :func:`torch.empty_like`: the request is a hint, and refused in silence.
    """
    y = torch.empty_like(x)
    if y.nbytes >= LARGE and y.device.type == "cpu":
        advise = _madvise()
        if advise is not None:
            start = -(-y.data_ptr() // PAGE) * PAGE
            advise(start, (y.data_ptr() + y.nbytes - start) // PAGE * PAGE, HUGE_PAGES)
    return y


@cache
def _madvise() -> Any:
    if sys.platform != "linux":
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise
