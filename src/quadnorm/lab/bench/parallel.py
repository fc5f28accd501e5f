"""Fields split over processes: two processes against one, and the messages of each layer against other libraries'."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from quadnorm._torch import named
from quadnorm.lab.bench.timing import median_time, peak_memory
from quadnorm.norms import make_norm
from quadnorm.operators import FNO
from quadnorm.operators.spectral.convolution import SpectralConv
from quadnorm.parallel import Traffic, shard


@dataclass(frozen=True)
class Layer:
    """Sizes of a layer and of the split."""

    B: int = 1
    C: int = 32
    n: int = 2048
    m: int = 12
    P: int = 2

    @property
    def K(self) -> int:  # noqa: N802 (the mathematics' name)
        """Kept modes."""
        return 2 * self.m * self.m

    @property
    def field(self) -> int:
        """Bytes of this rank's part of the field."""
        return 4 * self.B * self.C * self.n * self.n // self.P


@dataclass(frozen=True)
class Exchange:
    """A collective: its kind, and the bytes that each rank puts in."""

    kind: str  # "all-reduce", "all-gather" or "all-to-all"
    bytes: int

    def seconds(self, P: int, latency: float, bandwidth: float) -> float:
        """Rings and pairwise exchanges: the usual α–β estimates.

        all-reduce 2·⌈log₂P⌉·α + 2·s·(P−1)/P/β, all-gather ⌈log₂P⌉·α + s·(P−1)/β, all-to-all ⌈log₂P⌉·α + s·(P−1)/P/β.
        """
        hops = ceil(log2(max(P, 2)))
        if self.kind == "all-reduce":
            return 2 * hops * latency + 2 * self.bytes * (P - 1) / P / bandwidth
        if self.kind == "all-gather":
            return hops * latency + self.bytes * (P - 1) / bandwidth
        return hops * latency + self.bytes * (P - 1) / P / bandwidth


@dataclass(frozen=True)
class Algorithm:
    """One library's way to compute a layer: its collectives, forward and backward."""

    name: str
    formula: str
    forward: tuple[Exchange, ...]
    backward: tuple[Exchange, ...]


def instance_norms(s: Layer) -> list[Algorithm]:
    """Instance mode, with γ and β: B·C groups."""
    G = s.B * s.C
    return [
        Algorithm(
            "quadnorm",
            "gather 2·B·G in float64; reduce 2·B·G + 2·C",
            (Exchange("all-gather", 8 * 2 * G),),
            (Exchange("all-reduce", 4 * (2 * G + 2 * s.C)),),
        ),
        Algorithm(
            "makani",
            "gather 3·B·C; reduce B·C twice, then γ and β",
            (Exchange("all-gather", 4 * 3 * G),),
            (Exchange("all-reduce", 4 * G), Exchange("all-reduce", 4 * G), Exchange("all-reduce", 4 * 2 * s.C)),
        ),
        Algorithm(
            "PhysicsNeMo",
            "GroupNorm: reduce 2·B·G; reduce 2·B·G, then 2·C",
            (Exchange("all-reduce", 4 * 2 * G),),
            (Exchange("all-reduce", 4 * 2 * G), Exchange("all-reduce", 4 * 2 * s.C)),
        ),
        Algorithm(
            "DTensor",
            "group_norm gathers the field, B·C·n²/P; its backward is refused",
            (Exchange("all-gather", s.field),),
            (),
        ),
    ]


def spectral_layers(s: Layer) -> list[Algorithm]:
    """A layer that keeps K modes of C channels."""
    rows, modes = 8 * s.B * s.C * s.n * s.m // s.P, 8 * s.B * s.C * 2 * s.m * s.m // s.P
    first = (Exchange("all-to-all", rows), Exchange("all-to-all", modes))
    along_first = (*first, *reversed(first))
    strips = Exchange("all-to-all", rows)
    along_last = (Exchange("all-to-all", s.field), strips, strips, Exchange("all-to-all", s.field))
    return [
        Algorithm(
            "quadnorm",
            "reduce B·K·C complex, each way",
            (Exchange("all-reduce", 8 * s.B * s.K * s.C),),
            (Exchange("all-reduce", 8 * s.B * s.K * s.C),),
        ),
        Algorithm("makani, first axis split", "4 transposes: B·C·n·m/P, B·C·2m·m/P and back", along_first, along_first),
        Algorithm("makani, last axis split", "4 transposes: B·C·n²/P, B·C·n·m/P and back", along_last, along_last),
        Algorithm(
            "DTensor",
            "no rule for an FFT of a split axis: gather the field first, B·C·n²/P, and hand the gradient back",
            (Exchange("all-gather", s.field),),
            (),
        ),
    ]


def predicted(algorithm: Algorithm, P: int, latency: float = 20e-6, bandwidth: float = 25e9) -> float:
    """Seconds of communication, forward and backward, by the α–β model; the constants are assumptions, not measured."""
    return sum(e.seconds(P, latency, bandwidth) for e in (*algorithm.forward, *algorithm.backward))


MODEL = {"width": 8, "modes": 12, "layers": 2, "norm": "quad:instance"}


def run(scale: float = 1.0, repeats: int = 3) -> list[dict[str, Any]]:
    """Training steps of an FNO at 1024² and 2048² (times ``scale``); messages at 2048² on 2, 64 and 1024 ranks."""
    rows: list[dict[str, Any]] = []
    for n in (1024, 2048):
        rows += _speed(max(32, round(n * scale)), repeats)
    rows += _counted(Layer(n=max(64, 2 * round(1024 * scale))))
    for P in (64, 1024):
        rows += _predicted(Layer(n=8192, P=P))
    return rows


def _speed(n: int, repeats: int) -> list[dict[str, Any]]:
    (alone,) = _processes(1, n, repeats)
    both = _processes(2, n, repeats)
    seconds, memory = max(s for s, _ in both), max(m for _, m in both)
    return [
        {
            "name": "FNO training step, 2 processes",
            "size": f"1×1×{n}×{n}",
            "seconds": seconds,
            "peak_mb": memory,
            "peer": "1 process",
            "peer_seconds": alone[0],
            "ratio": seconds / alone[0],
            "memory_ratio": memory / alone[1],
        }
    ]


def _processes(world: int, n: int, repeats: int) -> list[tuple[float, float]]:
    """Seconds and megabytes of each rank; fresh processes with one thread each."""
    context = multiprocessing.get_context("spawn")
    # Every field gets its own memory pages: malloc would keep small ones after use, and peaks could not be compared.
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**20))
    with tempfile.TemporaryDirectory() as folder, context.Pool(world) as pool:
        store = os.path.join(folder, "store")
        return pool.starmap(_step, [(rank, world, n, repeats, store) for rank in range(world)], chunksize=1)


def _step(rank: int, world: int, n: int, repeats: int, store: str) -> tuple[float, float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = FNO(**MODEL)  # type: ignore[arg-type]
    x = torch.randn(1, 1, n, n)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        shard(model, dist.group.WORLD, axis=0, size=n)  # type: ignore[arg-type]
        x = model._split.take(x).clone()  # type: ignore[operator]

    def step() -> None:
        model.zero_grad()
        model(x).square().sum().backward()

    step()  # weights and matrices are made once
    memory = peak_memory(step)
    seconds = median_time(step, repeats)
    if world > 1:
        dist.barrier()  # wait for the other process: a call to a group that it has left may hang
        dist.destroy_process_group()
    return seconds, memory


def _row(kind: str, a: Algorithm, s: Layer, how: str) -> dict[str, Any]:
    return {
        "name": f"{kind}, {a.name}",
        "size": f"{s.B}×{s.C}×{s.n}×{s.n} on {s.P}",
        "messages": f"{len(a.forward)} + {len(a.backward)}",
        "forward_bytes": sum(e.bytes for e in a.forward),
        "backward_bytes": sum(e.bytes for e in a.backward),
        "known": how,
        "formula": a.formula,
    }


def _counted(s: Layer) -> list[dict[str, Any]]:
    """Messages by formula. Ours and DTensor's are also counted on a simulated rank, and must agree with it."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        seen = pool.apply(_messages, (s,))
    rows = []
    for kind, algorithms in (("norm", instance_norms(s)), ("spectral", spectral_layers(s))):
        for a in algorithms:
            counted = seen.get((kind, a.name))
            row = _row(kind, a, s, "from their source" if counted is None else "counted")
            if counted is not None:
                forward, backward = counted
                row |= {
                    "messages": f"{len(forward)} + {len(backward)}",
                    "forward_bytes": sum(forward),
                    "backward_bytes": sum(backward),
                }
            elif a.name == "DTensor":
                row["known"] = "the least it could be"
            rows.append(row)
    return rows


def _messages(s: Layer) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
    """Bytes of every message of a layer, forward and backward, that one process of a simulated group sends."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    FakeStore = named("torch.testing._internal.distributed.fake_pg:FakeStore")

    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=s.P)
    mesh = init_device_mesh("cpu", (s.P,), mesh_dim_names=("space",))
    x = torch.randn(s.B, s.C, s.n // s.P, s.n, requires_grad=True)
    seen = {}
    layers: dict[str, nn.Module] = {"norm": make_norm("instance", s.C), "spectral": SpectralConv(s.C, s.C, s.m)}
    for kind, layer in layers.items():
        parted = shard(layer, mesh["space"], axis=0, size=s.n)
        with Traffic() as there:
            y = parted(x)
        with Traffic() as back:
            y.sum().backward()
        seen[kind, "quadnorm"] = ([m.bytes for m in there.messages], [m.bytes for m in back.messages])
    field = DTensor.from_local(x.detach(), mesh, [Shard(2)], run_check=False).requires_grad_()
    with Traffic() as there:
        nn.functional.group_norm(field, s.C)  # its backward has no sharding strategy: NotImplementedError
    seen["norm", "DTensor"] = ([m.bytes for m in there.messages], [])
    dist.destroy_process_group()
    return seen


def _predicted(s: Layer) -> list[dict[str, Any]]:
    rows = []
    for kind, algorithms in (("norm", instance_norms(s)), ("spectral", spectral_layers(s))):
        rows += [_row(kind, a, s, "predicted") | {"milliseconds": 1e3 * predicted(a, s.P)} for a in algorithms]
    return rows
