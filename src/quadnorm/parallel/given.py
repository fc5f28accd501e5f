"""Weights and masks given at call time: every rank has its own samples', and the scale is everybody's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quadnorm.parallel.collectives import all_parts, spread, total
from quadnorm.parallel.split import Split


@dataclass(frozen=True)
class Given:
    """Weights (1 or B, N) of this rank's samples, of which all ranks' sum to 1; every rank's mass, and who is there."""

    weights: Tensor
    masses: Tensor  # (P, 1 or B) float64
    count: Tensor  # (1 or B,) float64, samples with a positive weight on all ranks


def flattened(weights: Any, x: Tensor, local: tuple[int, ...], split: Split, what: str = "weights") -> Tensor:
    """Weights (*local), (B, *local) or with the samples in a row, checked, as (1 or B, N).

    One tensor becomes one tensor, however often a forward pass asks: its shares are then asked for once.
    """
    if split.memo.get(("flat", id(weights))) is weights:  # never told by its shape: (1, 7) may be a grid of one row
        already: Tensor = split.memo["flat", id(weights)]
        return already
    key = (id(weights), x.shape[0], local)
    known = split.memo.get(key)
    if known is not None and known[0] is weights:
        flat: Tensor = known[1]
        return flat
    flat = _flattened(weights, x, local, what)
    if split._now is not None:
        split.memo[key] = (weights, flat)
        split.memo["flat", id(flat)] = flat
    return flat


def _flattened(weights: Any, x: Tensor, local: tuple[int, ...], what: str) -> Tensor:
    w = torch.as_tensor(weights, device=x.device)
    if w.is_complex():
        raise TypeError(f"{what} must be real numbers, got {w.dtype}")
    B, N = x.shape[0], 1
    for n in local:
        N *= n
    got = tuple(w.shape)
    if got in (local, (N,)):
        return w.reshape(1, N)
    if got[1:] in (local, (N,)) and got[0] in (1, B):
        return w if got == (got[0], N) else w.reshape(got[0], N)
    raise ValueError(
        f"{what} have shape {got}; expected one per sample of this rank, {local}, "
        f"or one set for each of the {B} batch entries, {(B, *local)}"
    )


def masked(raw: Tensor, mask: Tensor, split: Split) -> Tensor:
    """Weights times a mask, made once in a forward pass."""
    key = ("masked", id(raw), id(mask))
    known = split.memo.get(key)
    if known is None or known[0] is not raw or known[1] is not mask:
        known = (raw, mask, raw * mask.to(raw.dtype))
        if split._now is not None:
            split.memo[key] = known
    w: Tensor = known[2]
    return w


def shares(raw: Tensor, split: Split) -> Tensor:
    """(P, 3, 1 or B) float64: of every rank, Σ w, the number of positive weights, and the smallest.

    One small all-gather for each tensor of weights in a forward pass, however many layers take it.
    """
    known = split.memo.get(id(raw))
    if known is not None and known[0] is raw:
        gathered: Tensor = known[1]
        return gathered
    w = raw.detach().double()
    low = w.amin(1) if w.shape[1] else torch.zeros(w.shape[0], dtype=torch.float64, device=w.device)
    gathered = all_parts(torch.stack([w.sum(1), (w > 0).sum(1).double(), low]), split.group)
    _check(gathered)
    remember(raw, gathered, split)
    return gathered


def remember(raw: Tensor, gathered: Tensor, split: Split) -> None:
    """Keep the shares of weights for the rest of the forward pass."""
    if split._now is not None:
        split.memo[id(raw)] = (raw, gathered)
        split.memo["flat", id(raw)] = raw


def _check(gathered: Tensor) -> None:
    """All ranks see the same numbers here, and raise or go on together."""
    low, sums = gathered[:, 2].amin().item(), gathered[:, 0].sum(0)
    if low < 0:
        raise ValueError(f"weights must not be negative, got {low:g}; use 0 for a sample that is absent")
    if not bool(torch.isfinite(sums).all()):
        raise ValueError("weights hold NaN or infinite values; expected finite numbers, 0 where a sample is absent")
    if bool((sums <= 0).any()):
        empty = (sums <= 0).nonzero()[:, 0].tolist()
        raise ValueError(
            f"all weights of all ranks are zero for batch entries {empty[:10]}: nothing is left to average over; "
            f"drop these entries, or give them weights"
        )


def normalised(raw: Tensor, alpha: float | Tensor, split: Split, dtype: torch.dtype) -> Given:
    """α·counting + (1−α)·w, scaled over all ranks; counting counts the samples that are there."""
    gathered = shares(raw, split)
    sums, counts = gathered[:, 0].sum(0), gathered[:, 1].sum(0)  # (1 or B,)
    present = (raw > 0).to(torch.float64)
    scale = sums[:, None]
    if raw.requires_grad:
        scale = spread(total(raw.double().sum(1), split.group), group=split.group)[0][:, None]
    w = raw.double() / scale
    share = alpha if isinstance(alpha, float) else alpha.double()
    if not isinstance(share, float) or share > 0:
        w = share * present / counts[:, None] + (1 - share) * w
    known = float(share.detach()) if isinstance(share, Tensor) else share
    masses = known * gathered[:, 1] / counts + (1 - known) * gathered[:, 0] / sums
    given = Given(w.to(dtype), masses, counts)
    # The normalised weights are themselves given to the layers inside.
    low = torch.zeros_like(masses)
    remember(given.weights, torch.stack([masses, gathered[:, 1].expand_as(masses), low], 1), split)
    return given
