"""An FNO as most people write it (torch.fft calls, InstanceNorm, 9 samples of padding) on a grid it was not trained on.

Darcy flow, trained at 33²; mean relative L² error in % on 15 other samples at 33² and 129², as trained and in three
ways. ``python examples/padded_fno.py`` takes about three minutes on one core; needs ``pip install 'quadnorm[bench]'``.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.problems import problem

TRAIN, FINE = 33, 129


class Spectral(nn.Module):
    """The two-corner spectral convolution."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        shape = (channels, channels, modes, modes)
        self.low, self.high = (nn.Parameter(torch.rand(shape, dtype=torch.cfloat) / channels**2) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C, H, W)."""
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))


class PaddedFNO(nn.Module):
    """Coordinates, padding, four layers, a pointwise head."""

    def __init__(self, padding: int = 9, width: int = 32, modes: int = 12) -> None:
        super().__init__()
        self.padding, self.norm = padding, nn.InstanceNorm2d(width)
        self.lift = nn.Linear(3, width)
        self.head = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1))
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(4))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, H, W) → (B, 1, H, W)."""
        b, _, h, w = x.shape
        rows = torch.linspace(0, 1, h).reshape(1, h, 1, 1).expand(b, h, w, 1)
        columns = torch.linspace(0, 1, w).reshape(1, 1, w, 1).expand(b, h, w, 1)
        v = self.lift(torch.cat([x.permute(0, 2, 3, 1), rows, columns], -1)).permute(0, 3, 1, 2)
        v = F.pad(v, [0, self.padding, 0, self.padding])
        for k, (spectral, skip) in enumerate(zip(self.spectral, self.skip, strict=True)):
            v = self.norm(spectral(self.norm(v))) + skip(v)
            v = F.gelu(v) if k < 3 else v
        y: Tensor = self.head(v[..., :h, :w].permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y


def relative(y: Tensor, truth: Tensor) -> Tensor:
    """Relative L² error of each sample."""
    return (y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)


def main(count: int = 100, epochs: int = 20, tests: int = 15) -> dict[str, list[float]]:
    """Train, then print one line per way."""
    torch.set_num_threads(1)
    darcy = problem("darcy")
    torch.manual_seed(0)
    x, y = (t.float() for t in darcy.sample(range(count), resolution=TRAIN, seed=0))
    mean_x, scale_x, mean_y, scale_y = x.mean(), x.std(), y.mean(), y.std()
    model = PaddedFNO()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=epochs * -(-count // 20))
    for _ in range(epochs):
        for i in torch.randperm(count).split(20):
            loss = relative(model((x[i] - mean_x) / scale_x) * scale_y + mean_y, y[i]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()
    ways = {
        "as trained": model,
        "anchored": qn.anchor(model, TRAIN, "endpoint"),
        "extended": qn.extend(model, TRAIN, "endpoint"),
        "run at the training grid": qn.at_native(model, TRAIN, "endpoint"),
    }
    print(f"{'':20s}" + "".join(f"{n:>7d}²" for n in (TRAIN, FINE)))
    results: dict[str, list[float]] = {way: [] for way in ways}
    for n in (TRAIN, FINE):
        a, truth = (t.float() for t in darcy.sample(range(5000, 5000 + tests), resolution=n, seed=0))
        with torch.no_grad():
            for way, run in ways.items():
                parts = [run((p - mean_x) / scale_x) * scale_y + mean_y for p in a.split(5)]
                results[way].append(float(100 * relative(torch.cat(parts), truth).mean()))
    for way, values in results.items():
        print(f"{way:20s}" + "".join(f"{v:8.2f}" for v in values))
    return results


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
