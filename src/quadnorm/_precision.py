"""How many digits sums over space have, whatever the precision around them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from quadnorm import _torch

# torch 2.6 cannot tell an export from a compilation: there every trace is in plain operations, as an export is.
is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


def sum_dtype(x: Tensor) -> torch.dtype:
    """The precision of sums over space: float64 for float64, float32 for everything else.

    >>> sum_dtype(torch.ones(1, dtype=torch.float16))
    torch.float32
    """
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast on x's device; nothing at all where autocast is off, so that no trace shows it.

    >>> with torch.autocast("cpu"), full_precision(torch.ones(1)):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float32
    """
    return torch.autocast(x.device.type, enabled=False) if under_autocast(x) else nullcontext()


def under_autocast(x: Tensor) -> bool:
    """Whether autocast is on for x's device."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_batched(t: Tensor) -> bool:
    """Whether t stands for many tensors at once, as derivatives do under ``autograd.grad(is_grads_batched=True)``."""
    return _torch.is_functorch_wrapped(t) or _torch.is_legacy_batched(t)
