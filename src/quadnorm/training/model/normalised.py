"""An operator between the normalisers of its inputs and outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._memory import fits

LARGE = 2**28  # tensors with more numbers than this are never copied as a whole


class Normalised(nn.Module):
    """An operator between scalar normalisers: y = μ_y + σ_y · G((x − μ_x)/σ_x), one μ and σ per channel.

    One number per channel, not a mean field: a mean field would belong to one grid. The numbers are buffers and are
    saved with the weights, so that inputs and outputs are in the problem's own units.

    x (B, C_in, *spatial) -> y (B, C_out, *spatial)

    >>> half = Normalised(nn.Identity(), 1, 1)
    >>> half.fit(torch.tensor([[[0.0, 4.0]]]), torch.tensor([[[1.0, 3.0]]]))
    >>> half(torch.tensor([[[0.0, 4.0]]]))
    tensor([[[1., 3.]]])
    """

    x_mean: Tensor
    x_std: Tensor
    y_mean: Tensor
    y_std: Tensor

    def __init__(self, operator: nn.Module, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.operator = operator
        for side, channels in (("x", in_channels), ("y", out_channels)):
            self.register_buffer(f"{side}_mean", torch.zeros(channels))
            self.register_buffer(f"{side}_std", torch.ones(channels))

    def fit(self, x: Tensor, y: Tensor) -> None:
        """Take μ and σ of every channel from samples x (B, C_in, *spatial) and y (B, C_out, *spatial)."""
        for side, values in (("x", x), ("y", y)):
            mean, std = moments(values)
            getattr(self, f"{side}_mean").copy_(mean)
            getattr(self, f"{side}_std").copy_(std)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        encoded = (x - _channels(self.x_mean, x)) / _channels(self.x_std, x)
        y: Tensor = self.operator(encoded, **options)
        return y * _channels(self.y_std, y) + _channels(self.y_mean, y)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The tensors alone: models of other libraries add settings, which a file of weights cannot store."""
        state = super().state_dict(*args, **options)
        for name in [k for k, v in state.items() if not isinstance(v, Tensor)]:
            del state[name]
        return state


def moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, (C,) each, over samples and space, in float64.

    For a constant channel σ is set to 1, so that the channel is normalised to 0.
    """
    scale = _far(values)
    mean, std = _moments(values if scale is None else values / _channels(scale, values))
    if scale is not None:
        mean, std = mean * scale, std * scale
    # Rounding leaves a constant channel a σ of about 1e-7·|μ| in float32; dividing by it would amplify noise.
    return mean, torch.where(std > 1e-6 * mean.abs(), std, torch.ones_like(std))


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    if values.numel() > LARGE or not fits(4 * 8 * values.numel()):
        return _moments_of_many(values)
    rows = values.transpose(0, 1).flatten(1)  # (C, B·N)
    mean = torch.stack([row.double().mean() for row in rows])
    return mean, torch.stack([(row.double() - m).square().mean().sqrt() for row, m in zip(rows, mean, strict=True)])


def _far(values: Tensor) -> Tensor | None:
    """A power of 2 for each channel of float64 values whose squares leave the number format's range; None mostly."""
    if values.dtype != torch.float64 or not values.numel():
        return None
    over = (0, *range(2, values.ndim))
    largest = torch.maximum(values.amax(over), -values.amin(over))  # values.abs() would be a copy
    far = ((largest > 1e150) | (largest < 1e-150)) & (largest > 0) & largest.isfinite()
    return torch.exp2(torch.where(far, largest, 1.0).log2().round()) if bool(far.any()) else None


def _moments_of_many(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation, some samples at a time: ``values`` may be larger than memory."""
    parts = torch.split(values, max(1, LARGE // 256 // max(1, values[0].numel())))
    over = (0, *range(2, values.ndim))
    count = values.numel() // values.shape[1]
    # One piece of memory for all parts: the C library would keep a new one for each.
    room = torch.empty_like(parts[0], dtype=torch.float64)
    sums = torch.empty(2, len(parts), values.shape[1], dtype=torch.float64, device=values.device)
    for k, part in enumerate(parts):
        torch.sum(room[: len(part)].copy_(part), over, out=sums[0, k])
    mean = sums[0].sum(0) / count
    for k, part in enumerate(parts):
        torch.sum(room[: len(part)].copy_(part).sub_(_channels(mean, part)).square_(), over, out=sums[1, k])
    return mean, (sums[1].sum(0) / count).sqrt()


def _channels(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape(-1, *[1] * (x.ndim - 2))
