"""neuraloperator's coordinate channels, which move with the number of samples."""

from __future__ import annotations

from typing import Any

import torch
from neuralop.layers import embeddings
from torch import nn

from quadnorm.adapt.anchoring.rules.registry import RULES, Outcome, Place, anchored, unchanged
from quadnorm.adapt.anchoring.torch_modules import change_class
from quadnorm.adapt.nodes import positions
from quadnorm.measures.base import Shape


class _AnchoredGrid(nn.Module):
    """Sample j of the training grid had the coordinate j/n₀; a new sample that lies at its index t has t/n₀."""

    native: Shape
    placements: tuple[str, ...]
    grid_boundaries: Any

    def grid(self, spatial_dims: Any, device: Any, dtype: torch.dtype) -> Any:
        sizes = tuple(spatial_dims)
        if not torch.compiler.is_compiling() and sizes == self.native:
            return super().grid(spatial_dims, device, dtype)
        axes = []
        for n, n0, placement, (a, b) in zip(sizes, self.native, self.placements, self.grid_boundaries, strict=True):
            t = torch.from_numpy(positions(placement, n0, n)) / n0
            axes.append((a + (b - a) * t).to(device=device, dtype=dtype))
        return [g[None, None] for g in torch.meshgrid(*axes, indexing="ij")]


class AnchoredGridEmbeddingND(_AnchoredGrid, embeddings.GridEmbeddingND):
    """neuraloperator's ``GridEmbeddingND`` with coordinates that do not move with n."""


class AnchoredGridEmbedding2D(_AnchoredGrid, embeddings.GridEmbedding2D):
    """neuraloperator's ``GridEmbedding2D`` with coordinates that do not move with n."""


def coordinates_rule(module: Any, place: Place) -> Outcome:
    """Anchor the coordinates j/n that models see as channels."""
    if all(p in ("left", "periodic") for p in place.placements):
        return unchanged("its coordinates j/n are the samples' places")
    nd = isinstance(module, embeddings.GridEmbeddingND)
    change_class(module, AnchoredGridEmbeddingND if nd else AnchoredGridEmbedding2D)
    module.native, module.placements = place.resolution, place.placements
    return anchored(module, "coordinates j/n, which move with n on these samples → those of the training grid")


RULES[embeddings.GridEmbeddingND] = coordinates_rule
RULES[embeddings.GridEmbedding2D] = coordinates_rule
