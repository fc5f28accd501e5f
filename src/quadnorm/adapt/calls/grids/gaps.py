"""How far a model's output on another grid is from that on its training grid, at the training grid's nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.grids.nodes import Nodes
from quadnorm.adapt.calls.trees import tensors


def at_training_nodes(output: Any, forms: tuple[Forms, ...], nodes: Nodes) -> list[Tensor]:
    """The tensors of an output on the new grid, at the training grid's nodes."""
    results = []
    for t, fs in zip(tensors(output), forms, strict=True):
        y = t
        for dim, f in enumerate(fs):
            if f.on_grid and y.shape[dim] == nodes.size(f):
                y = nodes.restrict(y, dim, f)
        results.append(y)
    return results


def relative_gap(output: Any, native: Any) -> float:
    """The largest relative L² difference among the tensors of two outputs; infinite where shapes differ."""
    worst = 0.0
    pairs = list(zip(tensors(output), tensors(native), strict=True))
    for a, b in pairs:
        if a.shape != b.shape:
            return float("inf")
        if not (b.is_floating_point() or b.is_complex()) or b.numel() == 0:
            continue
        gap = (a.double() - b.double()) if not b.is_complex() else a - b
        size = torch.linalg.vector_norm(b.double() if not b.is_complex() else b).clamp_min(1e-30)
        worst = max(worst, float(torch.linalg.vector_norm(gap) / size))
    return worst if pairs else float("nan")
