"""One view of grids and scattered points for the token operators, and spatial norms for tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.measures import Measure
from quadnorm.operators.domain import counting, grid_shape, positions, sample_weights


@dataclass
class Samples:
    """A batch of fields at N places, channels first."""

    field: Tensor  # (B, C, N)
    places: Tensor  # (1 or B, d, N)
    shape: tuple[int, ...]  # of the grid; (N,) for scattered points
    weights: Tensor | None  # (1 or B, N), summing to 1; None: each sum takes those of its own measure
    given: Tensor | None  # what the norms are given

    @staticmethod
    def of(
        x: Tensor,
        coordinates: Any,
        weights: Any,
        measure: Measure,
        placement: str,
        channels: int,
        dim: int,
        norm_weights: Any = None,
    ) -> Samples:
        """From a grid (B, C, *spatial), or from points (B, N, C) if there are ``coordinates``."""
        if coordinates is not None:
            made = _scattered(x, torch.as_tensor(coordinates), weights, measure, channels, dim)
            return made if norm_weights is None else replace(made, given=norm_weights)
        if norm_weights is not None:
            raise ValueError("norm_weights are for scattered points; on a grid give the norm a measure of its own")
        shape = grid_shape(x, channels, dim)
        field = x.flatten(2)
        places = positions(measure, placement, shape, x.device, x.dtype)[None]
        if weights is None:
            return Samples(field, places, shape, None, None)
        w = sample_weights(measure, weights, field, shape)
        assert w is not None
        return Samples(_present(field, w), places, shape, w, w.expand(x.shape[0], -1).reshape(-1, *shape))

    def normed(self, norm: nn.Module, v: Tensor) -> Tensor:
        """norm(v) for v (B, C, N), the norm seeing the grid and the given weights."""
        grid = v.view(*v.shape[:2], *self.shape)
        y: Tensor = norm(grid) if self.given is None else norm(grid, weights=self.given)
        return y.flatten(2)

    def restore(self, y: Tensor, scattered: bool) -> Tensor:
        """(B, C, N) in the layout of the input."""
        return y.transpose(1, 2) if scattered else y.view(*y.shape[:2], *self.shape)


def _scattered(x: Tensor, r: Tensor, weights: Any, measure: Measure, channels: int, dim: int) -> Samples:
    if x.ndim != 3 or x.shape[2] != channels:
        raise ValueError(
            f"got points of shape {tuple(x.shape)}, expected (batch, N, {channels}): "
            f"with coordinates, channels come last"
        )
    B, N = x.shape[:2]
    r = r.to(device=x.device, dtype=x.dtype)
    if tuple(r.shape) not in ((N, dim), (B, N, dim)):
        raise ValueError(
            f"coordinates have shape {tuple(r.shape)}; expected {(N, dim)} for all samples or {(B, N, dim)}, "
            f"one row of {dim} numbers for each of the {N} points"
        )
    if weights is None:
        if measure.shape == (N,):
            weights = measure.shared_weights((N,))
        elif counting(measure):
            weights = torch.ones(N)
        else:
            raise ValueError(
                f"{measure!r} weighs the samples of a grid and cannot weigh {N} scattered points; pass weights= "
                f"(for example voronoi_weights(points)), or set measure='counting'"
            )
    field = x.transpose(1, 2)
    w = sample_weights(measure, weights, field, (N,))
    assert w is not None
    places = r.transpose(-1, -2).expand(B if r.ndim == 3 or w.shape[0] > 1 else 1, -1, -1)
    return Samples(_present(field, w), _present(places, w), (N,), w, w.expand(B, -1))


def _present(f: Tensor, w: Tensor) -> Tensor:
    """F (B, C, N) with 0 where nothing is: padding may hold anything, and 0·NaN is NaN."""
    return torch.where((w == 0).unsqueeze(1), torch.zeros((), dtype=f.dtype, device=f.device), f)


def tokens_to_grid(x: Tensor, shape: Sequence[int] | None = None, dim: int = 2) -> Tensor:
    """Tokens (B, N, C) in row-major order as a field (B, C, *shape); without ``shape``, a grid with ``dim`` equal
    sides.

    >>> tokens_to_grid(torch.zeros(2, 12, 5), (3, 4)).shape
    torch.Size([2, 5, 3, 4])
    """
    if x.ndim != 3:
        raise ValueError(f"expected tokens (batch, N, C), got shape {tuple(x.shape)}")
    N = x.shape[1]
    if shape is None:
        side = round(N ** (1 / dim))
        if side**dim != N:
            raise ValueError(
                f"{N} tokens do not fill a grid with {dim} equal sides ({side}^{dim} = {side**dim}); "
                f"pass the grid's shape"
            )
        shape = (side,) * dim
    if prod(shape) != N:
        raise ValueError(f"{N} tokens do not fill a grid of shape {tuple(shape)}, which has {prod(shape)} places")
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *shape)


def grid_to_tokens(x: Tensor) -> Tensor:
    """The inverse of :func:`tokens_to_grid`.

    >>> grid_to_tokens(torch.zeros(2, 5, 3, 4)).shape
    torch.Size([2, 12, 5])
    """
    return x.flatten(2).transpose(1, 2)


class SpatialNorm(nn.Module):
    """A norm of fields for token models: (B, N, C) → (B, C, *shape), norm, and back.

    Replacing ``nn.LayerNorm(C)`` in a token model by this changes what is averaged: the former normalizes each token
    by itself, the latter with statistics over space. That is the paper's choice for its token operators, and never
    made silently here.

    Args:
        norm: a module that takes (B, C, *spatial), as :func:`quadnorm.make_norm` makes them.
        shape: of the tokens' grid; the attribute can be set later. Without it the grid has ``dim`` equal sides.

    >>> from quadnorm.norms import make_norm
    >>> SpatialNorm(make_norm("quad", 8))(torch.randn(2, 25, 8)).shape
    torch.Size([2, 25, 8])
    """

    def __init__(self, norm: nn.Module, shape: Sequence[int] | None = None, dim: int = 2) -> None:
        super().__init__()
        self.norm, self.shape, self.dim = norm, shape, dim

    def forward(self, x: Tensor, weights: Any = None) -> Tensor:
        """Normalize tokens; ``weights`` as the norm takes them."""
        grid = tokens_to_grid(x, self.shape, self.dim)
        return grid_to_tokens(self.norm(grid) if weights is None else self.norm(grid, weights=weights))
