"""A dilated residual network: the convolutional operator that Fourier layers are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm.operators.domain import COUNTING, checked_placement, grid_shape, spatial_norm

DILATIONS = (1, 2, 4, 2, 1)


class ResNet(nn.Module):
    r"""Dilated residual network.

    .. math::
        v_0 = P * a, \qquad v_{l+1} = v_l + N\bigl(\sigma(k_{l5} * \dots \sigma(k_{l1} * v_l))\bigr), \qquad u = Q * v_L

    with kernels of three samples along each axis, dilated by 1, 2, 4, 2, 1, and σ = GELU: a block reaches ten samples.
    The kernels belong to samples, not to lengths: on a grid twice as fine the same network reaches half as far. On
    ``extend``, ``transfer`` and ``at_native`` it keeps the training grid's.

    Args:
        in_channels, out_channels: C_in, C_out.
        width, layers: channels and blocks.
        dim: spatial dimension, 1 to 3.
        norm: see :func:`quadnorm.make_norm`.
        placement: ``periodic`` pads by what lies on the other side, every other placement by zeros.

    Shapes: (B, C_in, *spatial) → (B, C_out, *spatial).

    >>> import torch
    >>> ResNet(width=8, layers=1)(torch.randn(2, 1, 16, 20)).shape
    torch.Size([2, 1, 16, 20])
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 32,
        layers: int = 2,
        dim: int = 2,
        norm: Any = "none",
        *,
        placement: str | Sequence[str] = "endpoint",
    ) -> None:
        super().__init__()
        if dim not in (1, 2, 3):
            raise ValueError(f"dim must be 1, 2 or 3, got {dim}")
        placement = checked_placement(placement, dim)
        periodic = "periodic" in ([placement] if isinstance(placement, str) else placement)
        if periodic and placement != "periodic":
            raise ValueError(
                f"a ResNet pads all axes alike; placement must be periodic on all or none, got {placement}"
            )
        self.in_channels, self.dim = in_channels, dim
        mode: Literal["circular", "zeros"] = "circular" if periodic else "zeros"
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]

        def make(inner: int, outer: int, dilation: int = 1) -> nn.Module:
            return conv(inner, outer, 3, padding=dilation, dilation=dilation, padding_mode=mode)

        self.lift, self.head = make(in_channels, width), make(width, out_channels)
        self.blocks = nn.ModuleList(nn.ModuleList(make(width, width, d) for d in DILATIONS) for _ in range(layers))
        self.norms = nn.ModuleList(spatial_norm(norm, width, COUNTING, placement) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C_in, *spatial) → (B, C_out, *spatial)."""
        grid_shape(x, self.in_channels, self.dim)
        v: Tensor = self.lift(x)
        for block, norm in zip(self.blocks, self.norms, strict=True):
            u = v
            for conv in block:  # type: ignore[attr-defined]
                u = F.gelu(conv(u))
            v = v + norm(u)
        y: Tensor = self.head(v)
        return y
