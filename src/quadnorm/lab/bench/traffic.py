"""Communication of each layer when fields are split over P ranks: ours and other libraries' algorithms, a cost model.

All numbers are bytes that one rank puts into a collective. B entries, C channels, n₁ × n₂ samples split along the first
axis, m kept modes per axis (2m along the first), so K = 2m·m modes, float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2


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
