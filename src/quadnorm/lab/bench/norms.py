"""Benchmark of the weighted norm, against PyTorch's GroupNorm with the same reduction and the paper's listing op by op.

Ratios are of medians taken in turns in one process. A last row per comparison holds their geometric mean. Eager rows
come twice: first with memory that is kept, as in every process of the ``quadnorm`` command, which shows the kernels
alone; then with memory that the C library gives back to the system, its default, where much of the time goes into
pages that the system hands out again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import nan
from statistics import geometric_mean
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.lab.bench.timing import (
    BenchRow,
    interleaved,
    median_time,
    memory_given_back,
    memory_kept,
    peak_memory,
    row,
)
from quadnorm.norms.kernels.dispatch import use_kernel
from quadnorm.norms.quad import QuadNorm

FORMATS = {
    "channels last": (torch.float32, True),
    "bfloat16": (torch.bfloat16, False),
    "bfloat16, channels last": (torch.bfloat16, True),
}
FORMAT_SHAPES = ((4, 64, 128, 128), (8, 32, 64, 64))
SHAPES = ((8, 32, 64, 64), (8, 64, 128, 128), (2, 64, 256, 256), (2, 32, 64, 64, 64))


def run(scale: float = 1.0, repeats: int = 15, compiled: bool = True) -> list[BenchRow]:
    """All rows. ``scale`` shrinks every spatial axis, ``compiled`` adds torch.compile (seconds per shape and mode).

    >>> rows = run(scale=0.05, repeats=1, compiled=False)  # doctest: +SKIP
    >>> rows[0]["name"], rows[0]["peer"]  # doctest: +SKIP
    ('forward+backward, numba', 'nn.GroupNorm')
    """
    if not 0 < scale <= 1:
        raise ValueError(f"scale must be in (0, 1], got {scale}; 1 is full size")
    shapes, others = ([_shrunk(s, scale) for s in all_] for all_ in (SHAPES, FORMAT_SHAPES))

    def eager() -> list[BenchRow]:
        return [*_all_eager(shapes, repeats), *_all_formats(others, repeats)]

    with memory_given_back():
        back = [BenchRow(**{**r, "name": f"{r['name']}, memory given back"}) for r in eager()]
    with memory_kept() as kept:
        rows = eager()
        if compiled:
            ours = [r for shape in shapes for mode in ("layer", "instance") for r in _compiled(shape, mode, repeats)]
            rows += [*ours, *_means(ours)]
    rows += [*_saved(shapes[0]), *_temporaries(shapes[2]), *_linear(scale, repeats)]
    return rows + back if kept else rows  # else the C library has no such choice: the rows are the same


def _shrunk(shape: tuple[int, ...], scale: float) -> tuple[int, ...]:
    return (*shape[:2], *(max(4, round(n * scale)) for n in shape[2:]))


def _all_eager(shapes: Sequence[tuple[int, ...]], repeats: int) -> list[BenchRow]:
    rows = [r for shape in shapes for mode in ("layer", "instance") for r in _eager(shape, mode, repeats)]
    return [*rows, *_means(rows)]


def _all_formats(shapes: Sequence[tuple[int, ...]], repeats: int) -> list[BenchRow]:
    rows = [
        r
        for shape in shapes
        for mode in ("layer", "instance")
        for f in FORMATS
        for r in _format(shape, mode, f, repeats)
    ]
    return [*rows, *_means(rows)]


def _format(shape: tuple[int, ...], mode: str, name: str, repeats: int) -> list[BenchRow]:
    """Other memory formats and bfloat16, each against GroupNorm on the same tensors."""
    dtype, last = FORMATS[name]
    ours, native, x, g = _pair(shape, mode)
    ours, native = ours.to(dtype), native.to(dtype)
    kind = torch.contiguous_format if not last else torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    x, g = (t.to(dtype).to(memory_format=kind) for t in (x, g))
    fns, peers = _calls(ours, native, x, g)
    for f in (*fns.values(), *peers.values()):
        f()
    times = interleaved({**fns, **peers}, repeats)
    size = f"{_size(shape)} {mode}"
    return [row(f"{f}, {name}", size, times[f], "nn.GroupNorm", times[f.split(",")[0]]) for f in fns]


def listing(layer: QuadNorm, x: Tensor) -> Tensor:
    """The formula of the paper's listing, one operation after the other; as there, every call rebuilds the weights."""
    w = torch.ones((), dtype=x.dtype)
    for n in x.shape[2:]:
        a = torch.full((n,), 1 / (n - 1), dtype=x.dtype)
        a[0] = a[-1] = 0.5 / (n - 1)
        w = w.unsqueeze(-1) * a
    w = w.reshape(1, 1, *x.shape[2:])
    dims = tuple(range(1 if layer.mode == "layer" else 2, x.ndim))
    total = w.sum() * (x.shape[1] if layer.mode == "layer" else 1)
    mean = (x * w).sum(dims, keepdim=True) / total
    var = ((x - mean).pow(2) * w).sum(dims, keepdim=True) / total
    y = (x - mean) / torch.sqrt(var + layer.eps)
    shape = (1, -1, *[1] * (x.ndim - 2))
    assert layer.weight is not None
    assert layer.bias is not None
    return y * layer.weight.view(shape) + layer.bias.view(shape)


def _pair(shape: tuple[int, ...], mode: str) -> tuple[QuadNorm, nn.GroupNorm, Tensor, Tensor]:
    C = shape[1]
    torch.manual_seed(0)
    native = nn.GroupNorm(1 if mode == "layer" else C, C)
    return QuadNorm(C, mode=mode), native, torch.randn(shape), torch.randn(shape)


def _step(layer: Callable[[Tensor], Tensor], x: Tensor, g: Tensor, kernel: str = "auto") -> Callable[[], None]:
    def step() -> None:
        with use_kernel(kernel):
            torch.autograd.backward(layer(x.detach().requires_grad_()), g)

    return step


def _inference(layer: Callable[[Tensor], Tensor], x: Tensor, kernel: str = "auto") -> Callable[[], None]:
    def step() -> None:
        with use_kernel(kernel), torch.no_grad():
            layer(x)

    return step


def _kernels() -> list[str]:
    return ["numba", "torch"] if find_spec("numba") else ["torch"]


Calls = dict[str, Callable[[], None]]


def _calls(ours: QuadNorm, native: nn.GroupNorm, x: Tensor, g: Tensor) -> tuple[Calls, Calls]:
    """Our steps with every kernel, and the peer's."""
    fns: Calls = {}
    for k in _kernels():
        fns[f"forward+backward, {k}"] = _step(ours, x, g, k)
        fns[f"forward, {k}"] = _inference(ours, x, k)
    return fns, {"forward+backward": _step(native, x, g), "forward": _inference(native, x)}


def _eager(shape: tuple[int, ...], mode: str, repeats: int) -> list[BenchRow]:
    ours, native, x, g = _pair(shape, mode)
    fns, peers = _calls(ours, native, x, g)
    slow = _step(lambda t: listing(ours, t), x, g)
    for f in (*fns.values(), *peers.values(), slow):
        f()
    times = interleaved({**fns, **peers}, repeats)
    # The listing is ten times slower and would empty the others' caches: it is timed after them, and less often.
    times["listing"] = median_time(slow, max(1, repeats // 5))
    size = f"{_size(shape)} {mode}"
    rows = [row(name, size, times[name], "nn.GroupNorm", times[name.split(",")[0]]) for name in fns]
    best = f"forward+backward, {_kernels()[0]}"
    return [*rows, row(best, size, times[best], "paper's listing, op by op", times["listing"])]


def _compiled(shape: tuple[int, ...], mode: str, repeats: int) -> list[BenchRow]:
    ours, native, x, g = _pair(shape, mode)
    torch.compiler.reset()
    a, b = (_step(torch.compile(m, fullgraph=True, dynamic=False), x, g) for m in (ours, native))
    for f in (a, b):
        f()
        f()
    times = interleaved({"ours": a, "peer": b}, repeats)
    return [
        row(
            "compiled forward+backward", f"{_size(shape)} {mode}", times["ours"], "compiled nn.GroupNorm", times["peer"]
        )
    ]


def _means(rows: list[BenchRow]) -> list[BenchRow]:
    """Geometric means of each comparison: of our seconds, of the peer's, and so of the ratios."""
    comparisons: dict[tuple[str, str], list[BenchRow]] = {}
    for r in rows:
        comparisons.setdefault((r["name"], r["peer"]), []).append(r)
    return [
        row(
            name,
            "geometric mean",
            geometric_mean([r["seconds"] for r in same]),
            peer,
            geometric_mean([r["peer_seconds"] for r in same]),
        )
        for (name, peer), same in comparisons.items()
    ]


def saved_bytes(layer: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Bytes that a forward call saves for the backward pass, each storage counted once."""
    storages: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = layer(x.detach().requires_grad_())
    del y
    return sum(storages.values())


def _saved(shape: tuple[int, ...]) -> list[BenchRow]:
    """Megabytes in the memory column, their ratio in place of a ratio of times."""
    rows = []
    for mode in ("layer", "instance"):
        ours, native, x, _ = _pair(shape, mode)
        a, b = saved_bytes(ours, x), saved_bytes(native, x)
        r = row(
            "saved for backward, shared weights included", f"{_size(shape)} {mode}", nan, "nn.GroupNorm", 1.0, a / 1e6
        )
        r["peer_seconds"], r["ratio"] = nan, a / b
        rows.append(r)
    return rows


def _temporaries(shape: tuple[int, ...]) -> list[BenchRow]:
    """Peak memory of one step in addition to the input: output, gradients and temporaries."""
    ours, native, x, g = _pair(shape, "layer")
    b = _peak(_step(native, x, g))
    rows = []
    for kernel in _kernels():
        a = _peak(_step(ours, x, g, kernel))
        r = row(f"peak memory of a step, {kernel}", f"{_size(shape)} layer", nan, "nn.GroupNorm", 1.0, a)
        r["peer_seconds"], r["ratio"] = nan, a / b if b else nan
        rows.append(r)
    return rows


def _peak(fn: Callable[[], Any]) -> float:
    fn()
    return peak_memory(fn)


def _linear(scale: float, repeats: int) -> list[BenchRow]:
    """The exponent p of seconds ∝ pointsᵖ from 256² to 4096², one channel, in the ratio's column: 1 is linear."""
    import numpy as np

    sizes = [max(8, round(n * scale)) for n in (256, 512, 1024, 2048, 4096)]
    layer = QuadNorm(1)
    times = []
    for n in sizes:
        x, g = torch.randn(1, 1, n, n), torch.randn(1, 1, n, n)
        step = _step(layer, x, g)
        step()
        times.append(median_time(step, max(1, repeats // 5)))
    p = float(np.polyfit(np.log([n * n for n in sizes]), np.log(times), 1)[0])
    r = row("exponent of the cost in points", f"{sizes[0]}² to {sizes[-1]}²", times[-1], "linear", times[-1])
    r["ratio"] = p
    return [r]


def _size(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ")"
