"""Benchmark of the weighted norm on one device, eager and compiled, against PyTorch's GroupNorm; and a prediction.

The device is synchronized before and after each timing. Nobody has run this on a GPU yet: the figures in the docs are
predictions (:func:`roofline`); the rows of a run name its device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from quadnorm.lab.bench.timing import BenchRow, interleaved, row
from quadnorm.norms import QuadNorm
from quadnorm.norms.kernels.triton.tiles import whole_row

SHAPES = ((8, 32, 64, 64), (8, 64, 128, 128), (2, 64, 256, 256), (1, 32, 512, 512))
UNTESTED = "no run on a GPU is known to us: please report the figures and the device"


class Device(NamedTuple):
    """A data sheet's memory bandwidth, in bytes per second."""

    name: str
    bandwidth: float


DEVICES = (Device("A100 80GB", 2.039e12), Device("H100 SXM", 3.35e12), Device("B200", 8.0e12))
REACHED = 0.8  # of the data sheet's bandwidth, by good streaming kernels
LAUNCH = 4e-6  # seconds from one launch to the next


def run(device: str, scale: float = 1.0, repeats: int = 30, compiled: bool = True) -> list[BenchRow]:
    """Forward, and forward with backward: ratios to native GroupNorm, and to compiled code.

    >>> rows = run("cpu", scale=0.05, repeats=1, compiled=False)  # doctest: +SKIP
    >>> rows[0]["name"], rows[0]["peer"]  # doctest: +SKIP
    ('forward on cpu', 'nn.GroupNorm')
    """
    if not 0 < scale <= 1:
        raise ValueError(f"scale must be in (0, 1], got {scale}; 1 is full size")
    place = checked_device(device)
    rows: list[BenchRow] = []
    for shape in [(*s[:2], *(max(4, round(n * scale)) for n in s[2:])) for s in SHAPES]:
        for mode in ("layer", "instance"):
            rows += _shape(shape, mode, place, repeats, compiled)
    return rows


def checked_device(name: str) -> torch.device:
    """The device of that name; a ValueError if it cannot be used on this machine.

    >>> checked_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from None
    return device


def _shape(shape: tuple[int, ...], mode: str, device: torch.device, repeats: int, compiled: bool) -> list[BenchRow]:
    C = shape[1]
    torch.manual_seed(0)
    x, g = torch.randn(shape, device=device), torch.randn(shape, device=device)
    ours = QuadNorm(C, mode=mode, device=device)
    native = nn.GroupNorm(1 if mode == "layer" else C, C, device=device)
    layers: dict[str, Callable[[Tensor], Tensor]] = {"ours": ours, "nn.GroupNorm": native}
    if compiled:
        torch.compiler.reset()
        layers["compiled QuadNorm"] = torch.compile(ours, fullgraph=True, dynamic=False)
    rows = []
    for kind, timed in (("forward", _forward), ("forward+backward", _step)):
        fns = {name: timed(layer, x, g) for name, layer in layers.items()}
        for fn in fns.values():
            fn()
            fn()
        times = interleaved(fns, repeats)
        size = f"({','.join(map(str, shape))}) {mode}"
        rows += [
            row(f"{kind} on {device}", size, times["ours"], peer, times[peer]) for peer in layers if peer != "ours"
        ]
    return rows


def _forward(layer: Callable[[Tensor], Tensor], x: Tensor, g: Tensor) -> Callable[[], None]:
    def call() -> None:
        with torch.no_grad():
            layer(x)
        _wait(x.device)

    return call


def _step(layer: Callable[[Tensor], Tensor], x: Tensor, g: Tensor) -> Callable[[], None]:
    def call() -> None:
        torch.autograd.backward(layer(x.detach().requires_grad_()), g)
        _wait(x.device)

    return call


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def roofline(shape: tuple[int, ...], groups: int, device: Device, itemsize: int = 4) -> tuple[float, float]:
    """Predicted seconds of forward and backward: bytes over bandwidth, plus launches. Not a measurement.

    A row that fits on chip is read once (backward: x and g) and written once; longer rows are read twice. The kernels'
    real loads and stores are counted in ``tests/norms/kernels/test_triton.py``.

    >>> forward, backward = roofline((8, 64, 128, 128), 64, DEVICES[0])
    >>> f"{forward * 1e6:.0f} µs, {backward * 1e6:.0f} µs"
    '74 µs, 115 µs'
    """
    B, C, *spatial = shape
    N = 1
    for n in spatial:
        N *= n
    on_chip = whole_row(C // groups, N) is not None
    numbers, reads, launches = B * C * N * itemsize, 1 if on_chip else 2, 1 if on_chip else 3
    rate = REACHED * device.bandwidth
    return numbers * (reads + 1) / rate + launches * LAUNCH, numbers * (2 * reads + 1) / rate + launches * LAUNCH
