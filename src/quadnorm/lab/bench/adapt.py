"""The cost of anchoring and extending a model: its passes on finer grids, the time to adapt and to capture, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import exp, log, nan
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm.adapt import anchor, extend, transfer
from quadnorm.adapt.shares import FieldShares, OnGrid
from quadnorm.lab.bench.timing import BenchRow, interleaved, peak_memory, row
from quadnorm.operators import FNO

NATIVE = (33, 33)  # the training grid
WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "anchor": lambda model: anchor(model, NATIVE, "endpoint", force=True),  # weights are random: only the cost counts
    "extend": lambda model: extend(model, NATIVE, "endpoint"),
}


def run(scale: float = 1.0, repeats: int = 7) -> list[BenchRow]:
    """Passes at 65² and 129² (times ``scale``) of models for 33², anchored and extended, batch 2.

    And :func:`quadnorm.transfer` at 129². The peer is the model as trained, on the same grid; an extended model's time
    includes its run at 33². Seconds are those of the processor, over all threads. Rows without a peer: seconds to adapt
    the model, and those of the first call on a grid, in which its graph is captured. Memory is the rise of the peak in
    a forward pass without gradients. The last rows are geometric means of the ratios.
    """
    torch.manual_seed(0)
    grids = [max(35, round((n - 1) * scale) + 1) for n in (65, 129)]
    rows: list[BenchRow] = []
    for name, model in _models():
        rows += _rows(name, model.eval(), grids, repeats)
        rows += _transferred(name, model, grids[-1], repeats)
    for way in WAYS:
        ratios = [r["ratio"] for r in rows if r["name"].endswith((f"{way}: forward", f"{way}: and backward"))]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        rows.append({**row(f"all, {way}: geometric mean", "", nan, "as trained", nan), "ratio": mean})
        rows.append({**row(f"all, {way}: largest", "", nan, "as trained", nan), "ratio": max(ratios)})
    return rows


def _rows(name: str, model: nn.Module, grids: list[int], repeats: int) -> Iterator[BenchRow]:
    adapted: dict[str, Any] = {"as trained": model}
    for way, make in WAYS.items():
        start = process_time()
        adapted[way] = make(model)
        yield row(f"{name}, {way}: adapting", "33×33", process_time() - start, "", nan)
    for n in grids:
        x = torch.randn(2, 1, n, n)

        def forward(m: Any, x: Tensor = x) -> None:
            with torch.no_grad():
                m(x)

        def backward(m: Any, x: Tensor = x) -> None:
            m.zero_grad()
            m(x).square().mean().backward()

        size, peaks = f"2×1×{n}×{n}", {}
        for way, m in adapted.items():
            start = process_time()
            forward(m)
            if way != "as trained":
                yield row(f"{name}, {way}: first call", size, process_time() - start, "", nan)
            backward(m)
            peaks[way] = peak_memory(lambda m=m: forward(m))
        for what, run_pass in (("forward", forward), ("and backward", backward)):
            calls = {way: lambda m=m, f=run_pass: f(m) for way, m in adapted.items()}
            seconds = interleaved(calls, repeats, process_time)
            for way in WAYS:
                yield row(f"{name}, {way}: {what}", size, seconds[way], "as trained", seconds["as trained"], peaks[way])
        for way in WAYS:
            share = peaks[way] / peaks["as trained"] if peaks["as trained"] else nan
            yield {**row(f"{name}, {way}: memory", size, nan, "as trained", nan, peaks[way]), "ratio": share}


def _transferred(name: str, model: nn.Module, n: int, repeats: int) -> list[BenchRow]:
    """What :func:`quadnorm.transfer` costs at most: the native run and 1.2 forwards at the new grid, 3.6 with news.

    Shares are set by hand: weights are random, and estimates would leave out what is not worth its cost.
    """
    x, native = torch.randn(2, 1, n, n), torch.randn(2, 1, *NATIVE)
    parts: dict[str, tuple[float, tuple[float, float], float]] = {
        "run at the training grid alone": (0.0, (0.0, 0.0), 0.0),
        "with its detail": (0.5, (0.0, 0.0), 1.2),
        "with detail and news": (0.5, (0.5, 0.2), 3.6),
    }
    runs: dict[str, Any] = {"as trained": lambda: model(x), "natively": lambda: model(native)}
    for what, (gain, news, _) in parts.items():
        with torch.no_grad():
            moved = transfer(model, NATIVE, "endpoint", data=(native, model(native)))
        moved.report.grids[n, n] = OnGrid((FieldShares(((0.1,), (0.1,)), (gain,), (gain,), news),))
        runs[what] = partial(moved, x)
    for run in runs.values():
        with torch.no_grad():
            run()
    with torch.no_grad():
        seconds = interleaved(runs, repeats, process_time)
    rows = []
    for what, (_, _, forwards) in parts.items():
        promised = seconds["natively"] + forwards * seconds["as trained"]
        peer = f"{name} natively" + (f" and {forwards:g} × as trained" if forwards else "")
        rows.append(row(f"{name}, transferred, {what}", f"2×1×{n}×{n}", seconds[what], peer, promised))
    return rows


def _models() -> Iterator[tuple[str, nn.Module]]:
    yield "classic FNO", FourierCalls()
    yield "classic FNO, padded", FourierCalls(padding=9)
    try:
        from neuralop.models import FNO as Theirs  # noqa: N811
    except ImportError:
        pass
    else:
        options: dict[str, Any] = {"n_modes": (24, 24), "in_channels": 1, "out_channels": 1, "hidden_channels": 32}
        yield "neuraloperator FNO", Theirs(**options, norm="group_norm")
        yield "neuraloperator FNO, padded", Theirs(**options, norm="group_norm", domain_padding=0.125)
    yield "Galerkin attention", AttentionCalls(galerkin=True)
    yield "softmax attention", AttentionCalls(galerkin=False)
    yield "our FNO", FNO()
    yield "U-Net", UNet()


class FourierCalls(nn.Module):
    """A Fourier neural operator as most people write it: ``torch.fft``, InstanceNorm, padding in samples."""

    def __init__(self, width: int = 32, modes: int = 12, layers: int = 4, padding: int = 0) -> None:
        super().__init__()
        self.modes, self.padding = modes, padding
        self.lift, self.head = nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1)
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.norm = nn.InstanceNorm2d(width)
        kernel = torch.randn(layers, 2, width, width, modes, modes, dtype=torch.cfloat) / width
        self.kernel = nn.Parameter(kernel)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, H, W) → (B, 1, H, W)."""
        m, (h, w) = self.modes, x.shape[-2:]
        v = F.pad(self.lift(x), [0, self.padding, 0, self.padding])
        for skip, (low, high) in zip(self.skip, self.kernel, strict=True):
            spectrum = torch.fft.rfft2(v)
            out = torch.zeros_like(spectrum)
            out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], low)
            out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], high)
            v = F.gelu(self.norm(torch.fft.irfft2(out, s=v.shape[-2:])) + skip(v))
        y: Tensor = self.head(v[..., :h, :w])
        return y


class AttentionCalls(nn.Module):
    """Two layers of attention between all samples: Q(KᵀV)/n, or softmax."""

    def __init__(self, galerkin: bool, width: int = 16) -> None:
        super().__init__()
        self.galerkin = galerkin
        self.lift, self.head = nn.Linear(1, width), nn.Linear(width, 1)
        self.maps = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, H, W) → (B, 1, H, W)."""
        v = self.lift(x.flatten(2).mT)
        for layer in self.maps:
            q, k, u = layer(v).chunk(3, -1)
            v = v + (q @ (k.mT @ u / v.shape[1]) if self.galerkin else F.scaled_dot_product_attention(q, k, u))
        y: Tensor = self.head(v).mT.reshape(x.shape)
        return y


class UNet(nn.Module):
    """One level down by a stride and up again, GroupNorm."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.inner, self.last = nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(2 * width, 1, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, c) for c in (width, 2 * width))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, H, W) → (B, 1, H, W)."""
        v = F.gelu(self.norms[0](self.first(x)))
        u = self.inner(F.gelu(self.norms[1](self.down(v))))
        y: Tensor = self.last(torch.cat([v, F.interpolate(u, size=v.shape[-2:], mode="bilinear")], 1))
        return y
