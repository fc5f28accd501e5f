"""Random inputs to try a model with when no example is given."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from quadnorm.measures.base import Shape


def guess_examples(model: nn.Module, resolution: Shape) -> Iterator[tuple[Tensor, str]]:
    """Random inputs that the model might accept, with their layout: (1, C, *spatial) and (1, *spatial, C) in turn.

    C is what the first module with channels takes, or less by the coordinates that the model may add itself, or small.
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    channels = _input_channels(model) or 1
    random = torch.Generator("cpu").manual_seed(0)
    for c in dict.fromkeys((channels, channels - len(resolution), 1, 2, 3)):
        if c > 0:
            x = torch.randn(1, c, *resolution, generator=random, device="cpu").to(like.device, like.dtype)
            yield x, "first"
            yield x.movedim(1, -1), "last"


def _input_channels(model: nn.Module) -> int | None:
    """What the first module with channels takes."""
    for m in model.modules():
        for name in ("in_channels", "in_features", "num_channels", "num_features"):
            c = getattr(m, name, None)
            if isinstance(c, int):
                return c
    return None
