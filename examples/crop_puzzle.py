"""A puzzle: a norm is blamed for what a coordinate channel does.

An FNO with InstanceNorm, trained on periodic Navier–Stokes at one resolution, gets worse at others. On a periodic grid
counting samples is the integral, so that the norm cannot leak. The coordinates ``linspace(0, 1, n)`` can: they jump
where the axis closes, their last sample moves with n, and the FFT sees both.

Four small FNOs of one seed: norm or none, coordinates or none, and coordinates that close (sine and cosine). Trained
at 32², tested at 32², 64² and 128² as they are and extended. ``python examples/crop_puzzle.py [--figure FILE.svg]``
takes about two minutes on one core; needs ``pip install 'quadnorm[bench]'``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.problems import problem

TRAIN, GRIDS, SAMPLES, TESTS = 32, (32, 64, 128), 48, 12
CASES = {
    "InstanceNorm, coordinates linspace(0, 1, n)": ("instance", "linspace"),
    "no norm, coordinates linspace(0, 1, n)": ("none", "linspace"),
    "InstanceNorm, no coordinates": ("instance", "none"),
    "InstanceNorm, coordinates sin 2πr, cos 2πr": ("instance", "closed"),
}


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
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Net(nn.Module):
    """Three layers; ``coordinates``: linspace, closed or none."""

    def __init__(self, norm: str, coordinates: str, width: int = 16, modes: int = 8) -> None:
        super().__init__()
        self.coordinates = coordinates
        self.lift = nn.Conv2d(1 + {"linspace": 2, "closed": 4, "none": 0}[coordinates], width, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(3))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        self.norm = nn.InstanceNorm2d(width) if norm == "instance" else nn.Identity()
        self.head = nn.Sequential(nn.Conv2d(width, 32, 1), nn.GELU(), nn.Conv2d(32, 1, 1))

    def axis(self, n: int) -> Tensor:
        """The coordinates along one axis, (1, n) or (2, n)."""
        if self.coordinates == "linspace":
            return torch.linspace(0, 1, n)[None]
        turns = 2 * torch.pi * torch.arange(n) / n
        return torch.stack([turns.sin(), turns.cos()])

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, n, m) → (B, 1, n, m)."""
        n, m = x.shape[-2:]
        if self.coordinates != "none":
            rows, columns = (self.axis(k) for k in (n, m))
            fields = torch.cat([rows[:, :, None].expand(-1, n, m), columns[:, None].expand(-1, n, m)])
            x = torch.cat([x, fields[None].expand(x.shape[0], -1, -1, -1)], 1)
        v = self.lift(x)
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            v = F.gelu(self.norm(spectral(v)) + skip(v))
        y: Tensor = self.head(v)
        return y


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def measure(
    norm: str, coordinates: str, x: Tensor, y: Tensor, tests: list[tuple[Tensor, Tensor]]
) -> dict[str, list[float]]:
    """Train one network; errors in % on every test grid as it is and extended."""
    torch.manual_seed(0)
    model, steps = Net(norm, coordinates), 240
    optimiser = torch.optim.Adam(model.parameters(), 4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        at = torch.randint(len(x), (12,))
        optimiser.zero_grad()
        error(model(x[at]), y[at]).backward()
        optimiser.step()
        schedule.step()
    ways = {"as it is": model.eval(), "extended": qn.extend(model, (TRAIN, TRAIN), "periodic", example=x[:1])}
    with torch.no_grad():
        return {way: [100 * float(error(run(a), b)) for a, b in tests] for way, run in ways.items()}


def main() -> None:
    """Print the table, keep it beside the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    flow = problem("navier-stokes")
    ((x, y),) = flow.dataset_many(range(SAMPLES), [TRAIN])
    tests = flow.dataset_many(range(SAMPLES, SAMPLES + TESTS), list(GRIDS))
    scale = x.std(), y.std()
    x, y = x / scale[0], y / scale[1]
    tests = [(a / scale[0], b / scale[1]) for a, b in tests]
    results = {}
    for name, case in CASES.items():
        results[name] = measure(*case, x, y, tests)
        for way, values in results[name].items():
            print(f"{name:45s} {way:9s}", *(f"{v:7.2f}" for v in values), flush=True)
    if options.figure:
        options.figure.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        draw(results, options.figure)


def draw(results: dict[str, dict[str, list[float]]], file: Path) -> None:
    """Errors against the test grid."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for k, (name, ways) in enumerate(results.items()):
        axes.plot(GRIDS, ways["as it is"], color=f"C{k}", marker="osD^"[k], label=name)
        axes.plot(GRIDS, ways["extended"], color=f"C{k}", linestyle=":", marker="osD^"[k], markerfacecolor="none")
    axes.set(xscale="log", xlabel="test grid n", ylabel="relative L² error, %", xticks=GRIDS)
    axes.set_xticklabels([f"{n}²" for n in GRIDS])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, title="solid: as it is; dotted: extended", title_fontsize=8)
    figure.savefig(file)


if __name__ == "__main__":
    main()
