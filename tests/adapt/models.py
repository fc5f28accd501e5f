"""Models as people write them, and fields to run them on; nothing of the package in here."""

import torch
from torch import nn
from torch.nn import functional as F


def field(*sizes, batch=1, channels=1, placement="endpoint", dtype=torch.float32):
    """Smooth, neither zero nor symmetric at the boundary; the same functions on every grid, (B, C, *sizes)."""
    nodes = {
        "endpoint": lambda n: torch.arange(n, dtype=torch.float64) / (n - 1),
        "cell": lambda n: (torch.arange(n, dtype=torch.float64) + 0.5) / n,
        "left": lambda n: torch.arange(n, dtype=torch.float64) / n,
        "periodic": lambda n: torch.arange(n, dtype=torch.float64) / n,
    }[placement]
    axes = torch.meshgrid(*[nodes(n) for n in sizes], indexing="ij")
    rate = 2 * torch.pi if placement == "periodic" else 3.0
    fields = [
        sum(torch.sin(rate * t + k + c + 0.3 * b) for k, t in enumerate(axes))
        for b in range(batch)
        for c in range(channels)
    ]
    grown = 1.0 if placement == "periodic" else torch.exp(axes[0])
    return torch.stack([f * grown for f in fields]).reshape(batch, channels, *sizes).to(dtype)


class Spectral2d(nn.Module):
    """The spectral convolution of two corners, by ``torch.fft``."""

    def __init__(self, channels=8, modes=5, norm="backward"):
        super().__init__()
        self.modes, self.norm = modes, norm
        self.low, self.high = (
            nn.Parameter(torch.rand(channels, channels, modes, modes, dtype=torch.cfloat) / channels) for _ in range(2)
        )

    def forward(self, x):
        m, spectrum = self.modes, torch.fft.rfft2(x, norm=self.norm)
        out = torch.zeros(*x.shape[:-1], x.size(-1) // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)), norm=self.norm)


class ClassicFNO(nn.Module):
    """Coordinates, padding in samples, spectral convolutions, InstanceNorm."""

    def __init__(self, pad=0, width=8, modes=5, layers=2, crop="size", norm="backward", coordinates="linspace"):
        super().__init__()
        self.pad, self.crop, self.coordinates = pad, crop, coordinates
        self.norm = nn.InstanceNorm2d(width)
        self.lift, self.head = nn.Linear(3, width), nn.Linear(width, 1)
        self.spectral = nn.ModuleList(Spectral2d(width, modes, norm) for _ in range(layers))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def places(self, n):
        return torch.linspace(0, 1, n) if self.coordinates == "linspace" else torch.arange(n) / n

    def forward(self, x):
        b, _, h, w = x.shape
        gx = self.places(h).reshape(1, h, 1, 1).expand(b, h, w, 1)
        gy = self.places(w).reshape(1, 1, w, 1).expand(b, h, w, 1)
        x = self.lift(torch.cat([x.permute(0, 2, 3, 1), gx, gy], -1)).permute(0, 3, 1, 2)
        left = self.pad if self.crop == "both" else 0
        x = F.pad(x, [left, self.pad, left, self.pad])
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            x = F.gelu(self.norm(spectral(self.norm(x))) + skip(x))
        if self.pad and self.crop == "negative":
            x = x[..., : -self.pad, : -self.pad]
        elif self.pad and self.crop == "both":
            x = x[..., self.pad : -self.pad, self.pad : -self.pad]
        elif self.pad:
            x = x[..., :h, :w]
        return self.head(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Calls(nn.Module):
    """A pointwise lift, one function of the field (B, 6, *spatial), a pointwise head."""

    def __init__(self, function, channels=6, dim=2):
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
        self.function = function
        self.lift, self.head = conv(1, channels, 1), conv(channels, 1, 1)

    def forward(self, x):
        x = self.lift(x)
        return self.head(torch.tanh(self.function(x)))


class Attention(nn.Module):
    """Attention between all samples, in a form of choice."""

    def __init__(self, form, width=8):
        super().__init__()
        self.form = form
        self.lift, self.head = nn.Linear(1, width), nn.Linear(width, 1)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.multi = nn.MultiheadAttention(width, 2, batch_first=True) if form in ("multi", "encoder") else None
        if form == "encoder":
            self.multi = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)

    def attend(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        n, d = x.shape[1], x.shape[2]
        if self.form == "softmax":
            return torch.softmax(q @ k.transpose(-2, -1) / d**0.5, -1) @ v
        if self.form == "einsum":
            scores = torch.einsum("bid,bjd->bij", q, k).softmax(dim=-1)
            return torch.einsum("bij,bjd->bid", scores, v)
        if self.form == "sdpa":
            return F.scaled_dot_product_attention(q, k, v)
        if self.form == "galerkin":
            return q @ (k.transpose(-2, -1) @ v / n)
        if self.form == "galerkin after":
            return torch.matmul(q, torch.matmul(k.mT, v)) / n
        if self.form == "linear":
            return q.softmax(-1) @ (k.softmax(1).mT @ v)
        if self.form == "multi":
            return self.multi(x, x, x)[0]
        return self.multi(x)

    def forward(self, x):
        shape = x.shape
        y = self.lift(x.flatten(2).mT)
        y = self.head(y + self.attend(y))
        return y.mT.reshape(shape)
