"""The FNO of ``examples/crop_puzzle.py``, by ``torch.fft`` calls: norms or none, and three kinds of coordinates."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Spectral(nn.Module):
    """The two-corner spectral convolution."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        shape = (channels, channels, modes, modes)
        self.low, self.high = (nn.Parameter(torch.rand(shape, dtype=torch.cfloat) / channels**2) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, n, n) → (B, C, n, n)."""
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        # for so few channels faster than einsum, which multiplies one complex matrix after the other
        out[:, :, :m, :m] = (spectrum[:, :, None, :m, :m] * self.low).sum(1)
        out[:, :, -m:, :m] = (spectrum[:, :, None, -m:, :m] * self.high).sum(1)
        return torch.fft.irfft2(out, s=x.shape[-2:])


def perceptron(inside: int, hidden: int, out: int) -> nn.Module:
    """Two layers on single samples."""
    return nn.Sequential(nn.Conv2d(inside, hidden, 1), nn.GELU(), nn.Conv2d(hidden, out, 1))


class Net(nn.Module):
    """v ← gelu(MLP(norm(spectral(norm(v)))) + skip(v)), four times; ``coordinates``: linspace, closed or none.

    With ``blind`` the coordinates are those of the middle at every sample: what they add to the output is gone.
    """

    def __init__(self, norm: bool, coordinates: str, width: int = 8, modes: int = 6) -> None:
        super().__init__()
        self.coordinates, self.blind = coordinates, False
        self.lift = nn.Conv2d(1 + {"linspace": 2, "closed": 4, "none": 0}[coordinates], width, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(4))
        self.mlp = nn.ModuleList(perceptron(width, width, width) for _ in range(4))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(4))
        self.norm = nn.InstanceNorm2d(width) if norm else nn.Identity()
        self.head = perceptron(width, 4 * width, 1)

    def axis(self, n: int) -> Tensor:
        """The coordinates along one axis, (1, n) or (2, n)."""
        if self.coordinates == "linspace":
            values = torch.linspace(0, 1, n)[None]
        else:
            turns = 2 * torch.pi * torch.arange(n) / n
            values = torch.stack([turns.sin(), turns.cos()])
        return values.mean(1, keepdim=True).expand_as(values) if self.blind else values

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, n, m) → (B, 1, n, m)."""
        n, m = x.shape[-2:]
        if self.coordinates != "none":
            rows, columns = (self.axis(k) for k in (n, m))
            fields = torch.cat([rows[:, :, None].expand(-1, n, m), columns[:, None].expand(-1, n, m)])
            x = torch.cat([x, fields[None].expand(x.shape[0], -1, -1, -1)], 1)
        v = self.lift(x)
        for spectral, mlp, skip in zip(self.spectral, self.mlp, self.skip, strict=True):
            v = F.gelu(mlp(self.norm(spectral(self.norm(v)))) + skip(v))
        y: Tensor = self.head(v)
        return y
