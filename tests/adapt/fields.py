"""Smooth fields on endpoint-inclusive grids, built without the package."""

import math
from itertools import pairwise

import torch


def smooth(n, d=2, channels=1, dtype=torch.float64):
    """Channel c: Σ_k sin(3 r_k + k + c) e^{r_0}, neither zero nor symmetric at the boundary; (1, C, n, …)."""
    r = [j / (n - 1) for j in range(n)]
    axes = torch.meshgrid(*[torch.tensor(r, dtype=torch.float64)] * d, indexing="ij")
    fields = [sum(torch.sin(3 * t + k + c) for k, t in enumerate(axes)) * torch.exp(axes[0]) for c in range(channels)]
    return torch.stack(fields)[None].to(dtype)


def orders(model, sizes, d=2, channels=1, dtype=torch.float64):
    """log2 of the ratios of successive differences of the model's outputs, taken at the coarsest grid's nodes."""
    return [math.log2(a / b) for a, b in pairwise(differences(model, sizes, d, channels, dtype))]


def differences(model, sizes, d=2, channels=1, dtype=torch.float64):
    """Largest differences of the model's outputs from grid to grid, taken at the coarsest grid's nodes."""
    with torch.no_grad():
        outputs = [model(smooth(n, d, channels, dtype)) for n in sizes]
    common = []
    for n, y in zip(sizes, outputs, strict=True):
        step = (n - 1) // (sizes[0] - 1)
        common.append(y[(...,) + (slice(None, None, step),) * d] if y.ndim == d + 2 and y.shape[-1] == n else y)
    return [(a - b).abs().max().item() for a, b in pairwise(common)]
