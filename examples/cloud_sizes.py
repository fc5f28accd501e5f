"""A Transolver trained on clouds of 1,000 points, asked on clouds of 1,000 to 100,000: error and memory.

Domains are star-shaped, r(φ) = 1 + Σ a_k cos(kφ + b_k), each drawn anew, with a random smooth field f on it. The answer
compares every point with the whole domain: y(p) = tanh(2 (f(p) − ⟨f⟩)) + |p|² / (2 ⟨|p|²⟩), ⟨·⟩ the mean over the
domain, by a fine polar grid. ``python examples/cloud_sizes.py`` trains for a minute or two and prints the table.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import quadnorm as qn

COUNT, SIZES, TESTS, STEPS, BATCH = 1000, (1000, 10_000, 100_000), 8, 500, 4


@dataclass(frozen=True)
class Domain:
    """A star-shaped domain and a field on it, drawn from a seed."""

    seed: int

    def numbers(self) -> Tensor:
        """(4, 6) random numbers, the same at every call."""
        return torch.randn(4, 6, generator=torch.Generator().manual_seed(self.seed))

    def radius(self, angle: Tensor) -> Tensor:
        """r(φ)."""
        a, b = self.numbers()[:2, :3]
        k = torch.arange(2, 5)
        return 1 + (0.12 * a * torch.cos(k * angle[..., None] + 3 * b)).sum(-1).clamp(-0.6, 0.6)

    def field(self, p: Tensor) -> Tensor:
        """f, three plane waves."""
        a, b = self.numbers()[2:]
        waves = torch.stack([a[:3], a[3:]]) * 1.5  # (2, 3)
        return torch.sin(p @ waves + 3 * b[:3]).sum(-1)

    def points(self, n: int, seed: int) -> Tensor:
        """N points, evenly spread at random."""
        g = torch.Generator().manual_seed(1_000_003 * seed + self.seed)
        chosen = torch.zeros(0, 2)
        while len(chosen) < n:
            p = 3.4 * torch.rand(4 * n, 2, generator=g) - 1.7
            chosen = torch.cat([chosen, p[p.norm(dim=1) < self.radius(torch.atan2(p[:, 1], p[:, 0]))]])
        return chosen[:n]

    def answer(self, p: Tensor) -> Tensor:
        """y, with the means over the domain by 256 × 64 polar cells."""
        angle = (torch.arange(256) + 0.5) / 256 * 2 * torch.pi
        part = (torch.arange(64) + 0.5) / 64
        r = self.radius(angle)[:, None] * part
        grid = torch.stack([r * torch.cos(angle)[:, None], r * torch.sin(angle)[:, None]], -1)
        area = self.radius(angle)[:, None] ** 2 * part
        mean = (self.field(grid) * area).sum() / area.sum()
        square = (r**2 * area).sum() / area.sum()
        return torch.tanh(2 * (self.field(p) - mean)) + (p**2).sum(-1) / (2 * square)


class Slices(nn.Module):
    """Physics attention as Transolver has it: points are shared out to slices, which attend to each other."""

    def __init__(self, width: int = 48, slices: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, width))
        self.slice = nn.ModuleList(nn.Linear(width, slices) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        """(B, N, 1) and (B, N, 2) → (B, N, 1)."""
        v = self.lift(torch.cat([x, pos], -1))
        for k, (cut, qkv, mlp) in enumerate(zip(self.slice, self.qkv, self.mlp, strict=True)):
            z = self.norms[2 * k](v)
            s = torch.softmax(cut(z) / 0.5, -1)
            t = torch.einsum("bnc,bng->bgc", z, s) / (s.sum(1)[..., None] + 1e-5)
            query, key, value = qkv(t).chunk(3, -1)
            t = torch.softmax(query @ key.mT / t.shape[-1] ** 0.5, -1) @ value
            v = v + torch.einsum("bgc,bng->bnc", t, s)
            v = v + mlp(self.norms[2 * k + 1](v))
        y: Tensor = self.head(v)
        return y


class Summed(Slices):
    """The same with sums in place of means over slices, divided by the trained number of points."""

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        """(B, N, 1) and (B, N, 2) → (B, N, 1)."""
        v = self.lift(torch.cat([x, pos], -1))
        for k, (cut, qkv, mlp) in enumerate(zip(self.slice, self.qkv, self.mlp, strict=True)):
            z = self.norms[2 * k](v)
            s = torch.softmax(cut(z) / 0.5, -1)
            t = torch.einsum("bnc,bng->bgc", z, s) / COUNT
            query, key, value = qkv(t).chunk(3, -1)
            t = torch.softmax(query @ key.mT / t.shape[-1] ** 0.5, -1) @ value
            v = v + torch.einsum("bgc,bng->bnc", t, s)
            v = v + mlp(self.norms[2 * k + 1](v))
        y: Tensor = self.head(v)
        return y


def batch(seeds: range, n: int, cloud: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Field, coordinates and answer on clouds of n points."""
    domains = [Domain(s) for s in seeds]
    pos = torch.stack([d.points(n, cloud) for d in domains])
    x, y = (torch.stack([getattr(d, f)(p) for d, p in zip(domains, pos, strict=True)]) for f in ("field", "answer"))
    return x[..., None], pos, y[..., None]


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def train(model: nn.Module, steps: int = STEPS) -> nn.Module:
    """On fresh domains and clouds of ``COUNT`` points."""
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for step in range(steps):
        x, pos, y = batch(range(1000 + BATCH * step, 1000 + BATCH * (step + 1)), COUNT)
        optimiser.zero_grad()
        error(model(x, pos), y).backward()
        optimiser.step()
        schedule.step()
    return model.eval()


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.no_grad()
def measure(model: nn.Module, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """Errors in % by size, extended first: the memory that it adds to the process is then its own."""
    x, pos, _ = batch(range(1), COUNT)
    extended = qn.extend(model, COUNT, layout="points", example=(x, pos))
    anchored = qn.anchor(model, COUNT, layout="points", example=(x, pos))
    runs = {"extended": extended, "as trained": model, "anchored": anchored}
    rows: dict[int, dict[str, Any]] = {n: {"points": n} for n in sizes}
    for way, run in runs.items():
        for n in sizes:
            clouds = [batch(range(k, k + 1), n, cloud=1) for k in range(TESTS)]
            before = megabytes()
            errors = [error(run(x, pos), y) for x, pos, y in clouds]
            rows[n][way] = 100 * float(torch.stack(errors).mean())
            rows[n][f"{way}, MB"] = megabytes() - before
    return list(rows.values())


def main() -> None:
    """Train both, print a table."""
    for name, make in {"Transolver": Slices, "with sums": Summed}.items():
        torch.manual_seed(0)
        for row in measure(train(make())):
            print(name, {k: round(v, 2) for k, v in row.items()}, flush=True)


if __name__ == "__main__":
    main()
