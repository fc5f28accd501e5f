"""The four ways of ``examples/zoo.py``: a model as it is, anchored, extended, and run at its training grid."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import quadnorm as qn

NATIVE = 33
WAYS = ("as it is", "anchored", "extended", "run at 33²")


def smooth(n: int) -> Tensor:
    """Three smooth fields that do not vanish at the boundary, at n endpoint-inclusive samples per axis."""
    r = torch.arange(n, dtype=torch.float64) / (n - 1)
    waves = [(1.3, 0.4, 2.1, 0.9), (2.9, 1.0, 0.7, 0.2), (3.7, 2.5, 3.1, 1.4)]
    return torch.stack([torch.sin(a * r + b)[:, None] * torch.cos(c * r + d) for a, b, c, d in waves])[:, None].float()


def ways(model: nn.Module) -> tuple[dict[str, Any], dict[str, str]]:
    """The model in every way that takes it, and why the others do not."""
    makers = {
        "anchored": lambda: qn.anchor(model, (NATIVE,) * 2, "endpoint", example=smooth(NATIVE)),
        "extended": lambda: qn.extend(model, (NATIVE,) * 2, "endpoint", example=smooth(NATIVE)),
        "run at 33²": lambda: qn.at_native(model, (NATIVE,) * 2, "endpoint"),
    }
    usable: dict[str, Any] = {"as it is": model}
    refused = {}
    for way, make in makers.items():
        try:
            usable[way] = make()
        except (ValueError, RuntimeError) as error:
            refused[way] = reason(error)
    return usable, refused


def reason(error: Exception) -> str:
    """An error's first line, without what announces a list below it."""
    first = str(error).splitlines()[0]
    return first.rpartition(";")[0] if first.endswith(":") else first
