"""Where running at the training grid is as good as anchoring, and where it is not.

Five small problems with known answers, four on [0, 1] and one on scattered points of the unit square. A small model is
trained on each at 33 samples (400 points) and tested on another grid in four ways: mean relative L² errors, %, over
three seeds. One model is also evaluated at scattered points, where only two of the ways exist. For the model that was
trained on points, "as trained" counts them and "anchored" gives it their control volumes; extension is for grids.

``python examples/native_or_anchored.py`` takes about three minutes on one core; needs ``pip install 'quadnorm[mesh]'``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

import quadnorm as qn
from quadnorm.operators import FNO, Transolver

Fields = tuple[Tensor, Tensor]  # input and answer, (B, 1, n)
N0, TESTS = 33, 40


def grid(n: int | Tensor) -> Tensor:
    """Endpoint-inclusive, or the points that are given."""
    return n if isinstance(n, Tensor) else torch.arange(n, dtype=torch.float64) / (n - 1)


def waves(a: Tensor, b: Tensor, r: Tensor, power: int = 0) -> Tensor:
    """Σ_k (a_k cos kπr + b_k sin kπr) / (kπ)^power; (B, n)."""
    k = math.pi * torch.arange(1, a.shape[1] + 1, dtype=torch.float64)
    return (a / k**power) @ torch.cos(k[:, None] * r) + (b / k**power) @ torch.sin(k[:, None] * r)


def fields(random: torch.Generator, batch: int) -> tuple[Tensor, Tensor]:
    """Random a and b of five waves."""
    a, b = torch.randn(2, batch, 5, generator=random, dtype=torch.float64) / torch.arange(1, 6)
    return a, b


def smooth(random: torch.Generator, batch: int, n: int | Tensor, fine: bool) -> Fields:
    """−u″ = f, u(0) = u(1) = 0, smooth f."""
    (a, b), r = fields(random, batch), grid(n)
    u = waves(a, b, r, 2)
    u = u - u[:, :1] * (1 - r) - u[:, -1:] * r
    return waves(a, b, r)[:, None], 10 * u[:, None]


def steps(random: torch.Generator, batch: int, n: int | Tensor, fine: bool) -> Fields:
    """−u″ = f with a jump of f at c: twice integrated, −(h₁r² + (h₂−h₁)(r−c)₊²)/2 plus a line."""
    h, r = torch.randn(2, batch, 1, generator=random, dtype=torch.float64), grid(n)
    c = 0.2 + 0.6 * torch.rand(batch, 1, generator=random, dtype=torch.float64)
    f = torch.where(r < c, h[0], h[1])
    u = -(h[0] * r**2 + (h[1] - h[0]) * (r - c).relu() ** 2) / 2
    return f[:, None], 10 * (u - r * u[:, -1:])[:, None]


def texture(random: torch.Generator, batch: int, n: int | Tensor, fine: bool) -> Fields:
    """The answer is f·exp(∫f); where ``fine``, f also has a wave, of integral 0, that 33 samples cannot hold."""
    (a, b), r = fields(random, batch), grid(n)
    k = math.pi * torch.arange(1, 6, dtype=torch.float64)
    total = (b * (1 - torch.cos(k)) / k).sum(1, keepdim=True)
    f = waves(a, b, r) + (0.5 * torch.sin(2 * math.pi * 40 * r) if fine else 0)
    return f[:, None], (f * torch.exp(total))[:, None]


def kinks(random: torch.Generator, batch: int, n: int | Tensor, fine: bool) -> Fields:
    """The answer is A|sin(9πr + p)|·∫f² for f = A sin(9πr + p) + B: kinks, mostly between the samples."""
    A, B, p = torch.rand(3, batch, 1, generator=random, dtype=torch.float64) + 0.5
    s, r = 9 * math.pi, grid(n)
    wave = torch.sin(s * r + 6 * p)
    ends = torch.cos(6 * p) - torch.cos(s + 6 * p), torch.sin(12 * p) - torch.sin(2 * s + 12 * p)
    square = A**2 * (0.5 + ends[1] / (4 * s)) + 2 * A * B * ends[0] / s + B**2
    return (A * wave + B)[:, None], ((A * wave).abs() * square)[:, None]


def fit(model: nn.Module, batch: Callable[[], tuple[tuple[Tensor, ...], Tensor]], count: int) -> nn.Module:
    """Adam with a cosine schedule on fresh samples."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count)
    for _ in range(count):
        x, y = batch()
        loss = ((model(*x) - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def error(y: Tensor, truth: Tensor) -> float:
    """Mean relative L², %."""
    return float(100 * ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean())


def trained(make: Callable[..., Fields], count: int, seed: int) -> nn.Module:
    """A 1-D FNO, trained at 33 samples."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(1 + 10 * seed)

    def batch() -> tuple[tuple[Tensor, ...], Tensor]:
        x, y = make(random, 16, N0, False)
        return (x.float(),), y.float()

    return fit(FNO(width=16, modes=8, layers=2, dim=1, projection=32), batch, count)


def unseen(make: Callable[..., Fields], place: int | Tensor, fine: bool = False) -> list[Fields]:
    """The same samples at 33 and at another grid or at points; with fine scales there, if asked for."""
    cases = ((N0, False), (place, fine))
    pairs = [make(torch.Generator().manual_seed(2), TESTS, n, scales) for n, scales in cases]
    return [(x.float(), y.float()) for x, y in pairs]


def on_grids(make: Callable[..., Fields], n: int, fine: bool, count: int, seed: int = 0) -> list[float]:
    """Errors at 33 samples, then at n as trained, anchored, run at the training grid, and extended."""
    model = trained(make, count, seed)
    ways = [
        model,
        qn.anchor(model, N0, "endpoint"),
        qn.at_native(model, N0, "endpoint"),
        qn.extend(model, N0, "endpoint"),
    ]
    (x0, y0), (x, y) = unseen(make, n, fine)
    with torch.no_grad():
        return [error(model(x0), y0), *(error(way(x), y) for way in ways)]


def at_points(make: Callable[..., Fields], count: int, seed: int = 0) -> list[float]:
    """The model of a grid at 1000 random points, at which the input is known too: native and extended only."""
    from scipy.interpolate import CubicSpline

    model = trained(make, count, seed)
    points = torch.rand(1000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (x0, y0), (x, y) = unseen(make, points)
    with torch.no_grad():
        native = model(x0)
        carried = torch.from_numpy(CubicSpline(grid(N0).numpy(), native.double().numpy(), axis=-1)(points.numpy()))
        extended = qn.extend(model, N0, "endpoint").at_points(points[:, None], x0, values=x)
    return [error(native, y0), math.nan, math.nan, error(carried, y), error(extended, y)]


def on_meshes(count: int, seed: int = 0) -> list[float]:
    """Transolver on 400 scattered points, tested on 3000: y = f·(1 + ∫f), f = A + sin(a·r) of several lengths."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(1 + 10 * seed)
    clouds = [torch.rand(m, 2, generator=random) ** torch.tensor([1.5, 1.0]) for m in (400, 3000)]
    volumes = [qn.voronoi_weights(p, ((0, 1), (0, 1))).float() for p in clouds]

    def fields_on(p: Tensor, batch: int, source: torch.Generator) -> Fields:
        k = 4 * torch.randn(batch, 2, generator=source) + 4
        f = 1 + torch.sin(k @ p.T)  # ∫ sin(k·r) over the square: Im Π (e^{ik} − 1)/(ik)
        total = 1 + torch.prod((torch.exp(1j * k) - 1) / (1j * k), 1).imag
        return f[..., None], (f * (1 + total[:, None]))[..., None]

    def batch() -> tuple[tuple[Tensor, ...], Tensor]:
        x, y = fields_on(clouds[0], 8, random)
        return (x, clouds[0], volumes[0]), y

    model = fit(Transolver(width=16, layers=2, norm="quad", heads=2), batch, count)
    native = qn.at_native(model, clouds[0], weights=volumes[0])
    with torch.no_grad():
        (x0, y0), (x, y) = (fields_on(p, TESTS, torch.Generator().manual_seed(2)) for p in clouds)
        at_home = error(model(x0, clouds[0], volumes[0]), y0)
        counted = error(model(x, clouds[1], torch.ones(3000)), y)
        weighed = error(model(x, clouds[1], volumes[1]), y)
        return [at_home, counted, weighed, error(native(x, clouds[1]), y), math.nan]


CASES: dict[str, Callable[[int, int], list[float]]] = {
    "smooth, nested grid (257)": lambda count, seed: on_grids(smooth, 257, False, count, seed),
    "smooth, fine to coarse (17)": lambda count, seed: on_grids(smooth, 17, False, count, seed),
    "fine-scale input (257)": lambda count, seed: on_grids(texture, 257, True, count, seed),
    "jumps in the input, grid not nested (100)": lambda count, seed: on_grids(steps, 100, False, count, seed),
    "kinks in the output (257)": lambda count, seed: on_grids(kinks, 257, False, count, seed),
    "the same, evaluated at 1000 scattered points": lambda count, seed: at_points(kinks, count, seed),
    "trained on scattered points (400 → 3000)": lambda count, seed: on_meshes(count // 2, seed),
}


def main(count: int = 600, seeds: int = 3) -> dict[str, list[float]]:
    """Print one line per case: means over the seeds, and in parentheses the range that they span."""
    heads = ("error there", "as trained", "anchored", "run at the training grid", "extended")
    print(f"{'':42s} " + " ".join(f"{h:>24s}" for h in heads))
    results = {}
    for name, run in CASES.items():
        values = torch.tensor([run(count, seed) for seed in range(seeds)])
        results[name] = values.mean(0).tolist()
        spans = zip(results[name], values.amin(0).tolist(), values.amax(0).tolist(), strict=True)
        cells = ["" if math.isnan(v) else f"{v:.2f} ({low:.2f}–{high:.2f})" for v, low, high in spans]
        print(f"{name:42s} " + " ".join(f"{c:>24s}" for c in cells), flush=True)
    return results


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
