"""Samples that do not fit into memory: tensors backed by an unnamed temporary file."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._memory import available, size
from quadnorm.problems.cache import location

_log = logging.getLogger("quadnorm")


def spilled(need: int, what: str) -> Callable[..., Tensor]:
    """A function like :func:`torch.empty` that allocates on the cache's disk; an error if ``need`` bytes are not free.

    The operating system keeps the parts that are used in memory; the file is deleted together with the tensor.
    """
    folder = location()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise ValueError(
            f"{what} would need {size(need)}; {size(available() or 0)} of memory and {size(free)} of disk in {folder} "
            "are free (QUADNORM_CACHE names another folder)"
        )
    _log.info("%s: %s, more than memory holds; kept on disk in %s", what, size(need), folder)

    def empty(shape: tuple[int, ...], *, dtype: torch.dtype) -> Tensor:
        with tempfile.TemporaryFile(dir=folder) as file:
            numbers: Any = np.memmap(file, str(dtype).removeprefix("torch."), "w+", shape=shape)
        return torch.from_numpy(numbers)

    return empty
