"""Extended models on fields that are split over ranks: the native run is everybody's, the new samples each rank's own.

The input's restriction to the training grid is a sum over samples, of which every rank has a share: one all-reduce of
as many numbers as the training grid has, whatever the new resolution. From there on nothing is exchanged. A rank's
samples need not fill a grid of their own: they are evaluated as points.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm.adapt.extended import Extended
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watching.layouts import Dims, grid_of_inputs, map_fields
from quadnorm.adapt.watching.points import PointNodes, arranged_shard
from quadnorm.carry.grids import carry
from quadnorm.measures._cache import CACHE
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS
from quadnorm.parallel.collectives import spread, total
from quadnorm.parallel.split import Part, Range, Split

ROWS = 512  # columns of a restriction made at once


class ExtendedOnShards(Extended):
    """An extended model that is given each rank's samples."""

    _split: Split

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments, of which fields are this rank's part."""
        if self.layout not in ("first", "last"):
            raise ValueError(
                f"fields of layout {self.layout!r} cannot be split over ranks: extend the model with fields "
                "(B, C, *spatial) or (B, *spatial, C)"
            )
        if self.stencils != "carried":
            raise ValueError(
                "the model has stencils or patches, which reach into other ranks' samples; set stencils = 'carried' on "
                "the extended model to interpolate their results at the training grid instead, or run it unsplit"
            )
        local = grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)
        part = self._split.resolve(local)
        native = self._restricted((args, kwargs), part)
        axes = [
            PLACEMENTS[p].nodes(n)[a:b] for p, n, (a, b) in zip(self.placements, part.shape, part.mine, strict=True)
        ]
        places = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)).numpy()
        if not len(places):  # this rank takes part in the sums all the same
            places = np.zeros((1, len(axes)))

        def at_points(nodes: PointNodes) -> Any:
            return arranged_shard((args, kwargs), local, nodes, self.layout)

        y = self.evaluated(native, places, at_points)
        first = 2 if self.layout == "first" else 1

        def shaped(t: Tensor) -> Tensor:
            if t.ndim <= first or t.shape[first] != len(places):
                return t
            return torch.unflatten(t.narrow(first, 0, prod(local)), first, local)

        return mapped(shaped, y)

    def _restricted(self, arguments: Any, part: Part) -> Any:
        """The whole fields on the training grid, on every rank."""

        def change(x: Tensor, dims: Dims) -> Tensor:
            kind, labels = x.dtype, not (x.is_floating_point() or x.is_complex())
            way = "nearest" if labels else self.restrict
            x = x.to(torch.float64) if labels else x
            for k, dim in enumerate(dims):
                M = _restriction(self.placements[k], part.shape[k], part.mine[k], self.resolution[k], way, x)
                x = torch.matmul(x.movedim(dim, -1), M.to(x.dtype)).movedim(-1, dim)
            # Every rank goes on with a copy of its own, and differentiates its share of the loss.
            (own,) = spread(total(x, self._split.group), group=self._split.group)
            return own.round().to(kind) if labels else own

        return map_fields(arguments, part.local, self.layout, change)


def _restriction(placement: str, n: int, mine: Range, n0: int, method: str, like: Tensor) -> Tensor:
    """(local, n₀): the share that this rank's samples of an axis have in the training grid's."""

    def build() -> Tensor:
        rows = torch.arange(*mine, device="cpu")
        parts = [
            carry(torch.nn.functional.one_hot(some, n).double(), (n0,), placement, method)
            for some in torch.split(rows, ROWS)
        ]
        return torch.cat(parts).to(like.device, like.dtype)

    return CACHE.get(("shards", placement, n, mine, n0, method, like.device, like.dtype), build)
