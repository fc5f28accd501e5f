"""The cost of anchoring and extending: forward passes compared with those of the original models."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm._ways import ANCHORED, AS_TRAINED, EXTENDED, NATIVE
from quadnorm.adapt import anchor, at_native, extend, transfer
from quadnorm.adapt.shares import FieldShares, OnGrid
from quadnorm.lab.bench.timing import BenchRow, interleaved, row
from quadnorm.operators import FNO, GalerkinTransformer, Transolver


def run(scale: float = 1.0, repeats: int = 11) -> list[BenchRow]:
    """Forward passes at 257² (times ``scale``) of models for 33²: anchored, extended, run at the training grid.

    The peer is the original model's forward pass at 257². An extended model also runs once at 33², so for its row the
    peer is the original model at 257² plus the original model at 33².
    """
    n = max(17, round(256 * scale) + 1)
    torch.manual_seed(0)
    models: dict[str, nn.Module] = {
        "FNO, LayerNorm": FNO(),
        "FNO, InstanceNorm": FNO(norm="instance"),
        "GalerkinTransformer": GalerkinTransformer(),
        "Transolver": Transolver(),
        "FNO of torch.fft calls": FourierCalls(),
        "FNO of torch.fft calls, padded": FourierCalls(padding=9),
    }
    theirs = _neuralop()
    if theirs is not None:
        models["neuraloperator FNO"] = theirs
    rows = []
    for name, model in models.items():
        rows += _compare(name, model.eval(), n, repeats)
        rows += _transferred(name, model, n, repeats)
    return rows


def _transferred(name: str, model: nn.Module, n: int, repeats: int) -> list[BenchRow]:
    """What :func:`quadnorm.transfer` costs at most: the native run and 1.2 forwards at the new grid, 3.6 with news.

    Shares are set by hand: weights are random, and estimates would leave out what is not worth its cost.
    """
    x, native = torch.randn(2, 1, n, n), torch.randn(2, 1, 33, 33)
    parts: dict[str, tuple[float, tuple[float, float], float]] = {
        "native run alone": (0.0, (0.0, 0.0), 0.0),
        "with its detail": (0.5, (0.0, 0.0), 1.2),
        "with detail and news": (0.5, (0.5, 0.2), 3.6),
    }
    runs: dict[str, Any] = {"as trained": lambda: model(x), "natively": lambda: model(native)}
    for what, (gain, news, _) in parts.items():
        with torch.no_grad():
            moved = transfer(model, 33, "endpoint", data=(native, model(native)))
        moved.report.grids[n, n] = OnGrid((FieldShares(((0.1,), (0.1,)), (gain,), (gain,), news),))
        runs[what] = partial(moved, x)
    for run in runs.values():
        with torch.no_grad():
            run()
    with torch.no_grad():
        seconds = interleaved(runs, repeats)
    rows = []
    for what, (_, _, forwards) in parts.items():
        promised = seconds["natively"] + forwards * seconds["as trained"]
        peer = f"{name} natively" + (f" and {forwards:g} × as trained" if forwards else "")
        rows.append(row(f"{name}, transferred, {what}", f"2×1×{n}×{n}", seconds[what], peer, promised))
    return rows


def _compare(name: str, model: nn.Module, n: int, repeats: int) -> list[BenchRow]:
    x = torch.randn(2, 1, n, n)
    native = torch.randn(2, 1, 33, 33)
    ways = {
        AS_TRAINED: model,
        ANCHORED: anchor(model, 33, "endpoint", force=True),  # weights are random: only the cost is measured here
        EXTENDED: extend(model, 33, "endpoint"),
        NATIVE: at_native(model, 33, "endpoint"),
        "native run": lambda _: model(native),
    }

    def forward(m: Any) -> Any:
        with torch.no_grad():
            return m(x)

    for m in ways.values():
        forward(m)  # weights and matrices are made once per resolution
    seconds = interleaved({way: lambda m=m: forward(m) for way, m in ways.items()}, repeats)
    peer = seconds[AS_TRAINED]
    return [
        row(f"{name}, {way}", f"2×1×{n}×{n}", seconds[way], f"{name} as trained", peer) for way in (ANCHORED, NATIVE)
    ] + [
        row(
            f"{name}, extended",
            f"2×1×{n}×{n}",
            seconds[EXTENDED],
            f"{name} as trained, and natively",
            peer + seconds["native run"],
        )
    ]


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


def _neuralop() -> nn.Module | None:
    try:
        from neuralop.models import FNO as Theirs  # noqa: N811
    except ImportError:
        return None
    model: nn.Module = Theirs(
        n_modes=(24, 24), in_channels=1, out_channels=1, hidden_channels=32, norm="group_norm", use_channel_mlp=False
    )
    return model
