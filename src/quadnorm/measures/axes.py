"""One axis of a tensor-product grid: a rule that serves every n, or given coordinates that serve one."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm._precision import is_exporting
from quadnorm.measures.geometry.coordinates import FloatArray, to_numpy
from quadnorm.measures.rules import Rule

Bound = tuple[float, float]


class Axis(Protocol):
    """Nodes in [lo, hi] and weights that sum to 1, for n samples."""

    @property
    def lo(self) -> float: ...
    @property
    def hi(self) -> float: ...
    @property
    def size(self) -> int | None:
        """The only n that is possible, or None."""

    def nodes(self, n: int) -> Tensor: ...
    def weights(self, n: int) -> Tensor: ...
    def flat(self, n: int) -> bool:
        """Whether all n weights are equal."""


@dataclass(frozen=True)
class RuleAxis:
    """A rule of the table on [lo, hi]."""

    rule: Rule
    lo: float = 0.0
    hi: float = 1.0

    size = None

    def nodes(self, n: int) -> Tensor:
        return self.lo + (self.hi - self.lo) * self.rule.nodes(n)

    def weights(self, n: int) -> Tensor:
        if not torch.compiler.is_compiling() or self.rule.traceable:
            return self.rule.weights(n)
        if is_exporting():
            return _exported_weights(self.rule.name, n)
        w: Tensor = _rule_weights(self.rule.name, n)
        return w

    def flat(self, n: int) -> bool:
        return self.rule.flat or n == 1

    def __str__(self) -> str:
        return self.rule.name


@dataclass(frozen=True)
class GivenAxis:
    """Given nodes x_0 … x_{n−1}, strictly monotone, each with its share of [lo, hi].

    ``words`` say what the nodes are; ``part``: which part of the sphere's latitudes (by area) or longitudes they cover,
    where they are such; ``periodic``: the axis wraps around, with the period hi − lo.
    """

    x: tuple[float, ...]
    shares: tuple[float, ...]
    lo: float
    hi: float
    words: str = "nodes"
    part: float = 1.0
    periodic: bool = False

    @staticmethod
    def of(values: Any, bound: Bound | None, periodic: bool, label: str) -> GivenAxis:
        """Check and freeze user input; shares are control volumes.

        w_0 = (x_1−x_0)/2, w_i = (x_{i+1}−x_{i−1})/2, w_{n−1} = (x_{n−1}−x_{n−2})/2, over the length of the domain.
        Where the nodes do not reach ``lo`` and ``hi``, the end cells extend to them. On a ``periodic`` axis the cells
        wrap around. Exact for constants, for lines too when the end nodes are the ends; order 2.
        """
        x = checked_nodes(values, label)
        if bound is None:
            if periodic:
                raise ValueError(f"{label}: a periodic axis needs bounds=(lo, hi), whose length is the period")
            if x.size == 1:
                raise ValueError(f"{label}: a single node has no length of its own; pass bounds=(lo, hi)")
            bound = (float(x.min()), float(x.max()))
        lo, hi = checked_bound(bound, label)
        slack = 1e-12 * (hi - lo)
        if x.min() < lo - slack or x.max() > hi + slack:
            raise ValueError(f"{label}: nodes span [{x.min():g}, {x.max():g}], outside the bounds ({lo:g}, {hi:g})")
        if periodic and x.size > 1 and np.ptp(x) > (hi - lo) - slack:
            raise ValueError(
                f"{label}: on a periodic axis both ends of ({lo:g}, {hi:g}) are the same point; leave the last node out"
            )
        ends = lo, hi
        if periodic:
            seam = (x[0] + x[-1] - (hi - lo)) / 2
            ends = seam, seam + (hi - lo)
        w = np.diff(faces_between(np.sort(x), ends)) / (hi - lo)
        shares = w if x[0] <= x[-1] else w[::-1]
        words = "periodic nodes" if periodic else "nodes"
        return GivenAxis(tuple(x.tolist()), tuple(shares.tolist()), lo, hi, words, periodic=periodic)

    @property
    def size(self) -> int | None:
        return len(self.x)

    def nodes(self, n: int) -> Tensor:
        return torch.tensor(self.x, dtype=torch.float64, device="cpu")

    def weights(self, n: int) -> Tensor:
        return torch.tensor(self.shares, dtype=torch.float64, device="cpu")

    def flat(self, n: int) -> bool:
        return len(set(self.shares)) == 1

    def __str__(self) -> str:
        return f"{len(self.x)} {self.words} on [{self.lo:g}, {self.hi:g}]"


def checked_nodes(values: Any, label: str) -> FloatArray:
    """Finite, strictly monotone coordinates of one axis."""
    x = np.asarray(to_numpy(values), dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"{label}: expected a 1-D array of at least one node, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"{label}: node {int(np.argmin(np.isfinite(x)))} is {x[~np.isfinite(x)][0]}; expected numbers")
    steps = np.diff(x)
    if not ((steps > 0).all() or (steps < 0).all()):
        bad = int(np.argmax(steps * np.sign(x[-1] - x[0] or 1) <= 0))
        raise ValueError(
            f"{label}: nodes must be strictly increasing or decreasing, but node {bad} is {x[bad]:g} and "
            f"node {bad + 1} is {x[bad + 1]:g}; sort the nodes (and the samples with them) and merge duplicates"
        )
    return x


def faces_between(x: FloatArray, ends: Bound) -> FloatArray:
    """Where the cells of increasing nodes begin and end: halfway between neighbours, and at the ends of the axis."""
    return np.concatenate(([ends[0]], (x[1:] + x[:-1]) / 2, [ends[1]]))


def checked_bound(bound: Any, label: str) -> Bound:
    """A pair of finite numbers lo < hi."""
    try:
        lo, hi = (float(b) for b in bound)
    except (TypeError, ValueError):
        raise ValueError(f"{label}: bounds must be a pair (lo, hi), got {bound!r}") from None
    if not (isfinite(lo) and isfinite(hi) and lo < hi):
        raise ValueError(f"{label}: bounds must be finite with lo < hi, got ({lo:g}, {hi:g})")
    return lo, hi


def _exported_weights(name: str, n: int) -> Tensor:
    """Weights of a rule without a closed form, written into an exported program as numbers."""
    if not isinstance(n, int):
        raise ValueError(
            f"the rule {name!r} has no closed form, so a program for every size cannot hold it; export with a fixed "
            f"size on this axis, or use 'trapezoid', 'midpoint' or 'periodic'"
        )
    return torch.tensor(_listed_weights(name, n), dtype=torch.float64, device="cpu")


def _listed_weights(name: str, n: int) -> list[float]:
    from quadnorm.measures.rules import RULES

    with _torch.disable_current_modes():
        values: list[float] = RULES[name].weights(n).tolist()
    return values


# What torch.compiler.assume_constant_result does, which first imports the whole compiler (longer than torch itself).
_listed_weights._dynamo_marked_constant = True  # type: ignore[attr-defined]


# Rules without a closed form stay opaque to a tracer: the graph holds the rule's name and looks the weights up later.
@torch.library.custom_op("quadnorm::rule_weights", mutates_args=())
def _rule_weights(name: str, n: int) -> Tensor:
    from quadnorm.measures.rules import RULES

    return RULES[name].weights(n).clone()


@_rule_weights.register_fake
def _(name: str, n: int) -> Tensor:
    return torch.empty((n,), dtype=torch.float64, device="cpu")
