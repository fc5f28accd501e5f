"""Where samples lie, read off two resolutions of the same data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from quadnorm.carry import carry
from quadnorm.measures.placement import placements_per_axis


@dataclass(frozen=True)
class GridCheck:
    """What :func:`check_grid` found.

    ``placement`` is the best guess per axis, ``residuals`` the mismatch of every guess, relative to the data's
    variation, and ``sure`` whether the best is at least three times better than any that differs in its nodes.
    ``means`` says whether the values are means over cells rather than samples at their centres: the coarse ones are
    then the block means of the fine ones (``restrict="mean"`` keeps them so).
    """

    placement: tuple[str, ...]
    residuals: dict[tuple[str, ...], float]
    sure: bool
    means: bool = False

    def __str__(self) -> str:
        ranked = sorted(self.residuals.items(), key=lambda kv: kv[1])
        first, second = ranked[0], ranked[1]
        kind = "values look like means over the cells of" if self.means else "samples look"
        summary = f"{kind} {', '.join(self.placement)} (mismatch {first[1]:.1e}"
        summary += f", next best {', '.join(second[0])} {second[1]:.1e})"
        return summary if self.sure else summary + "; the data does not tell them apart"


def check_grid(
    coarse: Any, fine: Any, declared: str | Sequence[str] | None = None, *, dim: int | None = None
) -> GridCheck:
    r"""Infer the node placement from two resolutions of the same fields, and warn if it contradicts the declared one.

    For every placement the fine samples are interpolated (cubic spline) to where the coarse nodes would be; the
    right placement gives the coarse samples. ``periodic`` and ``left`` have the same nodes and are told apart by
    whether the field closes up across the seam. Means over cells (most data of finite-volume codes and of climate
    models) are told from samples at the centres by how the coarse values come from the fine ones.

    Args:
        coarse, fine: (..., \*spatial), tensors or arrays, of the same leading shape; every axis has another size.
        declared: what the data is said to be; a UserWarning is given if the data clearly says otherwise.
        dim: number of spatial axes; default all but the first two.

    >>> f = lambda r: torch.exp(r)[None, None]
    >>> print(check_grid(f(torch.linspace(0, 1, 17)), f(torch.linspace(0, 1, 65))).placement)
    ('endpoint',)
    """
    coarse, fine = torch.as_tensor(coarse), torch.as_tensor(fine)  # data on disk comes as arrays
    d = coarse.ndim - 2 if dim is None else dim
    if d < 1 or coarse.shape[: coarse.ndim - d] != fine.shape[: fine.ndim - d] or coarse.ndim != fine.ndim:
        raise ValueError(
            f"expected two tensors (..., *spatial) that differ in the last {d} axes only, got "
            f"{tuple(coarse.shape)} and {tuple(fine.shape)}"
        )
    n, m = tuple(coarse.shape[-d:]), tuple(fine.shape[-d:])
    if any(a >= b or a < 4 for a, b in zip(n, m, strict=True)):
        raise ValueError(f"the first grid must be coarser on every axis, with 4 samples or more, got {n} and {m}")
    expected = None if declared is None else placements_per_axis(declared, d)
    c, f = coarse.detach().double(), fine.detach().double()
    scale = torch.maximum((c - c.mean()).norm(), 1e-6 * c.norm()).clamp_min(1e-300)
    residuals: dict[tuple[str, ...], float] = {}
    for names in product(("endpoint", "cell", "left", "interior"), repeat=d):
        residuals[names] = ((carry(f, n, names) - c).norm() / scale).item()
    cells = ("cell",) * d
    by_means = ((carry(f, n, cells, "mean") - c).norm() / scale).item()
    means = by_means < min(residuals.values()) / 3
    if means:
        residuals[cells] = by_means
    ranked = sorted(residuals, key=residuals.__getitem__)
    sure = residuals[ranked[1]] > max(3 * residuals[ranked[0]], 1e-6)  # below lies rounding of float32 data
    best = tuple("periodic" if p == "left" and _closes(f, axis) else p for axis, p in enumerate(ranked[0], start=-d))
    result = GridCheck(best, residuals, sure, means)
    if expected is not None and sure and _nodes(expected) != _nodes(best):
        warnings.warn(
            f"the data is declared {', '.join(expected)}, but {result}; sums with that placement would be wrong",
            UserWarning,
            stacklevel=2,
        )
    return result


def _nodes(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("left" if p == "periodic" else p for p in names)


def _closes(f: Tensor, axis: int) -> bool:
    """Whether the step from the last sample to the first is like its neighbours."""
    g = f.movedim(axis, -1)
    steps = torch.diff(torch.cat([g[..., -2:], g[..., :2]], -1)).square().flatten(0, -2).sum(0)  # before, across, after
    return bool(steps[1] <= 4 * (steps[0] + steps[2]) + 1e-24)
