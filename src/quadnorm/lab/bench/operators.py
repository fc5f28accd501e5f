"""Benchmark of the operators: training steps against named peers, growth with the number of samples, peak memory.

Every ratio is of medians taken in turns in one process. A training step is forward, mean square, backward and AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm.lab.bench.timing import BenchRow, interleaved, median_time, peak_memory, row
from quadnorm.operators import FNO, GalerkinTransformer, SpectralConv, Transolver

BATCH = 20


def run(
    scale: float = 1.0,
    sizes: tuple[int, ...] = (32, 64),
    threads: tuple[int, ...] = (1, 2),
    repeats: int = 7,
    largest: int = 512,
    memory: int = 421,
) -> list[BenchRow]:
    """All rows: FNO, spectral convolution and Transolver for each size and number of threads; growth; memory.

    ``scale`` shrinks every grid, down to 24 samples per axis, which 12 modes need.
    Without neuraloperator (``pip install 'quadnorm[compat]'``) the FNO has no peer: its ratio is NaN.

    >>> rows = run(sizes=(24,), threads=(1,), repeats=1, largest=32, memory=24)  # doctest: +SKIP
    >>> [r["peer"] for r in rows[1:3]]  # doctest: +SKIP
    ['rfft2 form', 'einsum form']
    """
    rows: list[BenchRow] = []
    sizes = tuple(dict.fromkeys(max(24, round(n * scale)) for n in sizes))
    largest, memory = (max(48, round(n * scale)) if scale != 1 else n for n in (largest, memory))
    before = torch.get_num_threads()
    try:
        for count in threads:
            torch.set_num_threads(count)
            for n in sizes:
                label = f"{BATCH}×{n}², {count} thread{'s' if count > 1 else ''}"
                rows += [_fno(n, label, repeats), _spectral(n, label, repeats), _transolver(n, label, repeats)]
        rows += _growth(largest, repeats)
    finally:
        torch.set_num_threads(before)
    return rows + _memory(memory)


def _step(model: nn.Module, x: Tensor) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()  # the first one allocates
    return step


def _compare(name: str, size: str, peer: str, ours: Any, theirs: Any, repeats: int) -> BenchRow:
    t = interleaved({"ours": ours, "peer": theirs}, repeats)
    return row(name, size, t["ours"], peer, t["peer"])


def _fno(n: int, label: str, repeats: int) -> BenchRow:
    """Same width, modes, layers, group norm and head; no channel MLP on either side."""
    x = torch.randn(BATCH, 1, n, n)
    ours = _step(FNO(norm="layer"), x)
    theirs = neuraloperator_fno()
    if theirs is None:
        return row("FNO training step", label, median_time(ours, repeats), "neuraloperator (not installed)", nan)
    return _compare("FNO training step", label, "neuraloperator FNO", ours, _step(theirs, x), repeats)


def neuraloperator_fno() -> nn.Module | None:
    """Neuraloperator's FNO with our sizes. It counts modes of both signs, so its 24 are our 12."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from neuralop import models
    except ImportError:
        return None
    peer: nn.Module = models.FNO(
        n_modes=(24, 24),
        hidden_channels=32,
        in_channels=1,
        out_channels=1,
        n_layers=4,
        norm="group_norm",
        use_channel_mlp=False,
        projection_channel_ratio=4,
    )
    return peer


class RFFT2Conv(nn.Module):
    """The spectral convolution in its usual form: rfft2, two corners of the spectrum, einsum, irfft2."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        shape = (channels, channels, modes, modes)
        self.corners = nn.ParameterList(torch.rand(shape, dtype=torch.cfloat) / channels**2 for _ in range(2))
        self.modes = modes

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C, H, W)."""
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        for rows, weight in ((slice(0, m), self.corners[0]), (slice(-m, None), self.corners[1])):
            out[:, :, rows, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, rows, :m], weight)
        y: Tensor = torch.fft.irfft2(out, s=x.shape[2:])
        return y


def _spectral(n: int, label: str, repeats: int) -> BenchRow:
    """Forward and backward at width 32 with 12 modes."""
    x = torch.randn(BATCH, 32, n, n, requires_grad=True)
    g = torch.randn(BATCH, 32, n, n)
    ours, theirs = SpectralConv(32, 32, 12), RFFT2Conv(32, 12)

    def both_ways(layer: nn.Module) -> Callable[[], object]:
        def call() -> None:
            x.grad = None
            layer.zero_grad()
            layer(x).backward(g)

        call()
        return call

    calls = both_ways(ours), both_ways(theirs)
    return _compare("spectral convolution", label, "rfft2 form", *calls, repeats)


class EinsumTransolver(nn.Module):
    """The same network as :class:`Transolver`, one row per sample and every sum an explicit einsum."""

    def __init__(self, model: Transolver) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C_out, H, W)."""
        B, _, H, W = x.shape
        a, b = torch.meshgrid(torch.linspace(0, 1, H), torch.linspace(0, 1, W), indexing="ij")
        r = torch.stack([a.flatten(), b.flatten()], 1).expand(B, -1, -1)
        v = self._mlp(self.model.lift, torch.cat([x.flatten(2).transpose(1, 2), r], 2))  # (B, N, C)
        for block in self.model.blocks:
            v = v + self._attention(block.attention, self._norm(block.norm1, v, H, W))
            v = v + self._mlp(block.mlp, self._norm(block.norm2, v, H, W))
        y = F.linear(v, self.model.head.weight, self.model.head.bias)
        return y.transpose(1, 2).reshape(B, -1, H, W)

    @staticmethod
    def _mlp(m: Any, v: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(v, m.first.weight, m.first.bias)), m.second.weight, m.second.bias)

    @staticmethod
    def _norm(m: Any, v: Tensor, H: int, W: int) -> Tensor:
        grid = v.transpose(1, 2).reshape(v.shape[0], -1, H, W)
        return F.group_norm(grid, 1, m.weight, m.bias).flatten(2).transpose(1, 2)

    @staticmethod
    def _attention(m: Any, v: Tensor) -> Tensor:
        s = torch.softmax(F.linear(v, m.slice.weight, m.slice.bias) / m.temperature, -1)  # (B, N, G)
        t = torch.einsum("bng,bnc->bgc", s, v) / (s.sum(1).unsqueeze(-1) + 1e-5)
        q, k, u = (f(t).unflatten(2, (m.heads, -1)) for f in (m.query, m.key, m.value))
        score = torch.softmax(torch.einsum("bghd,bkhd->bhgk", q, k) / q.shape[-1] ** 0.5, -1)
        t = m.out(torch.einsum("bhgk,bkhd->bghd", score, u).flatten(2))
        return torch.einsum("bng,bgc->bnc", s, t)


def _transolver(n: int, label: str, repeats: int) -> BenchRow:
    x = torch.randn(BATCH, 1, n, n)
    ours, theirs = Transolver(), EinsumTransolver(Transolver())
    return _compare(
        "Transolver 64/6 training step", label, "einsum form", _step(ours, x), _step(theirs, x), min(repeats, 5)
    )


def _growth(largest: int, repeats: int) -> list[BenchRow]:
    """Exponent p in seconds ∝ Nᵖ of a forward pass, given as ``ratio``: 1 is linear. Seconds: of the largest grid."""
    rows = []
    sizes = [n for n in (32, 64, 128, 256, 512) if n <= largest]
    for name, model in (("Galerkin Transformer", GalerkinTransformer()), ("Transolver 64/6", Transolver())):
        with torch.no_grad():
            fields = {str(n): torch.randn(1, 1, n, n) for n in sizes}
            calls: dict[str, Callable[[], object]] = {n: partial(model, x) for n, x in fields.items()}
            for call in calls.values():
                call()
            t = interleaved(calls, min(repeats, 3))
        seconds = [t[str(n)] for n in sizes]
        p = float(np.polyfit(np.log([n * n for n in sizes]), np.log(seconds), 1)[0]) if len(sizes) > 1 else nan
        growth = row(f"{name}: exponent of growth", f"{sizes[0]}² to {sizes[-1]}²", seconds[-1], "linear", nan)
        growth["ratio"] = p
        rows.append(growth)
    return rows


def _memory(n: int) -> list[BenchRow]:
    """Peak memory of a forward pass of one sample, whole and in strips; the ratio is of the peaks."""
    model, x = FNO(), torch.randn(1, 1, n, n)
    rows = []
    with torch.no_grad():
        model(x)
        whole = peak_memory(lambda: model(x))
        seconds = median_time(lambda: model(x), 3)
        rows.append(row("FNO forward, peak memory", f"1×{n}²", seconds, "itself", seconds, whole))
        model.forward_chunked(x)
        chunked = peak_memory(lambda: model.forward_chunked(x))
        peak = row(
            "FNO forward in strips, peak memory",
            f"1×{n}²",
            median_time(lambda: model.forward_chunked(x), 3),
            "whole",
            seconds,
            chunked,
        )
        rows.append(peak)
    return rows
