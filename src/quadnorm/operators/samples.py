"""One view of grids and scattered points for the operators, and tokens as grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.measures import Measure
from quadnorm.measures.placement import Placements
from quadnorm.norms.weights import given_mask, given_weights
from quadnorm.operators.domain import counting, grid_shape, positions, sample_weights, without_absent


@dataclass
class Samples:
    """A batch of fields at N places: values, where they lie, and what each of them counts. Channels come first."""

    values: Tensor  # (B, C, N)
    places: Tensor  # (1 or B, d, N)
    shape: tuple[int, ...]  # of the grid; (N,) for scattered points
    weights: Tensor | None = None  # (1 or B, N), summing to 1; None: each sum takes those of its own measure
    norm_options: dict[str, Tensor] = field(default_factory=dict)  # what the norms are given besides the field
    scattered: bool = False  # the input was (B, N, C)

    @staticmethod
    def on_grid(
        x: Tensor,
        measure: Measure,
        placement: Placements,
        channels: int,
        dim: int,
        weights: Any = None,
        mask: Any = None,
    ) -> Samples:
        """Samples of a grid (B, C, *spatial). ``weights`` take the place of the measure's, ``mask`` multiplies them."""
        shape = grid_shape(x, channels, dim)
        values = x.flatten(2)
        places = positions(measure, placement, shape, x.device, x.dtype)[None]
        if weights is None and mask is None:
            return Samples(values, places, shape)
        w = sample_weights(measure, weights, values, shape, mask)
        assert w is not None
        return Samples(without_absent(values, w), places, shape, w, norm_options(x, shape, weights, mask))

    @staticmethod
    def at_points(
        x: Tensor,
        coordinates: Any,
        measure: Measure,
        channels: int,
        dim: int,
        weights: Any = None,
        mask: Any = None,
        norm_weights: Any = None,
    ) -> Samples:
        """Samples at scattered points (B, N, C) at ``coordinates`` (N, d) or (B, N, d)."""
        if x.ndim != 3 or x.shape[2] != channels:
            raise ValueError(
                f"got points of shape {tuple(x.shape)}, expected (batch, N, {channels}): "
                f"with coordinates, channels come last"
            )
        B, N = x.shape[:2]
        r = coordinates if isinstance(coordinates, Tensor) else torch.as_tensor(coordinates, device="cpu")
        r = r.to(device=x.device, dtype=x.dtype)
        if tuple(r.shape) not in ((N, dim), (B, N, dim)):
            raise ValueError(
                f"coordinates have shape {tuple(r.shape)}; expected {(N, dim)} for all samples or {(B, N, dim)}, "
                f"one row of {dim} numbers for each of the {N} points"
            )
        values = x.transpose(1, 2)
        w = sample_weights(measure, _point_weights(measure, weights, N, x), values, (N,), mask)
        assert w is not None
        places = r.transpose(-1, -2).expand(B if r.ndim == 3 or w.shape[0] > 1 else 1, -1, -1)
        options = {"weights": w.expand(B, -1)}
        if norm_weights is not None:
            options = norm_options(values, (N,), norm_weights, mask)
        return Samples(without_absent(values, w), without_absent(places, w), (N,), w, options, scattered=True)

    def normed(self, norm: nn.Module, v: Tensor) -> Tensor:
        """norm(v) for v (B, C, N), the norm seeing the grid and the given weights."""
        y: Tensor = norm(v.view(*v.shape[:2], *self.shape), **self.norm_options)
        return y.flatten(2)

    def restore(self, y: Tensor) -> Tensor:
        """(B, C, N) in the layout of the input."""
        return y.transpose(1, 2) if self.scattered else y.view(*y.shape[:2], *self.shape)


def samples_of(
    operator: Any, x: Tensor, coordinates: Any, weights: Any, mask: Any, norm_weights: Any = None
) -> Samples:
    """The samples that an operator is called with: of a grid, or of points if there are ``coordinates``."""
    measure, channels, dim = operator.measure, operator.in_channels, operator.dim
    if coordinates is not None:
        return Samples.at_points(x, coordinates, measure, channels, dim, weights, mask, norm_weights)
    if norm_weights is not None:
        raise ValueError("norm_weights are for scattered points; on a grid give the norm a measure of its own")
    return Samples.on_grid(x, measure, operator.placement, channels, dim, weights, mask)


def norm_options(x: Tensor, shape: tuple[int, ...], weights: Any, mask: Any) -> dict[str, Tensor]:
    """What norms inside an operator are called with: weights and mask of (B, *shape), where they are given."""
    options = {}
    if weights is not None:
        options["weights"] = given_weights(weights, x, shape).expand(x.shape[0], -1).reshape(-1, *shape)
    if mask is not None:
        options["mask"] = given_mask(mask, x, shape).expand(x.shape[0], -1).reshape(-1, *shape)
    return options


def _point_weights(measure: Measure, weights: Any, N: int, x: Tensor) -> Any:
    if weights is not None:
        return weights
    if measure.shape == (N,):
        return measure.shared_weights((N,), x.device)
    if counting(measure):
        return torch.ones(N, device=x.device)
    raise ValueError(
        f"{measure!r} weighs the samples of a grid and cannot weigh {N} scattered points; pass weights= "
        f"(for example voronoi_weights(points)), or set measure='counting'"
    )


def tokens_to_grid(x: Tensor, shape: Sequence[int] | None = None, dim: int = 2) -> Tensor:
    """Tokens (B, N, C) in row-major order as a field (B, C, *shape).

    Without ``shape`` the number of tokens must leave no choice: 25 tokens are a 5×5 grid, but 4096 may be 64×64,
    32×128, …, and the shape is asked for.

    >>> tokens_to_grid(torch.zeros(2, 12, 5), (3, 4)).shape
    torch.Size([2, 5, 3, 4])
    """
    if x.ndim != 3:
        raise ValueError(f"expected tokens (batch, N, C), got shape {tuple(x.shape)}")
    N = x.shape[1]
    if shape is None:
        grids = list(islice(_grids(N, dim), 4))
        if len(grids) != 1:
            several = ", ".join("×".join(map(str, g)) for g in grids) or "none"
            raise ValueError(
                f"{N} tokens do not say what {dim}-dimensional grid they are (possible: {several}"
                f"{', …' if len(grids) > 3 else ''}); pass the grid's shape"
            )
        shape = grids[0]
    if prod(shape) != N:
        raise ValueError(f"{N} tokens do not fill a grid of shape {tuple(shape)}, which has {prod(shape)} places")
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *shape)


def _grids(N: int, dim: int) -> Iterator[tuple[int, ...]]:
    """Grids of N samples with two or more along each of ``dim`` axes."""
    if dim == 1:
        yield from [(N,)] * (N > 1)
        return
    for n in range(2, N // 2 + 1):
        if N % n == 0:
            yield from ((n, *rest) for rest in _grids(N // n, dim - 1))


def grid_to_tokens(x: Tensor) -> Tensor:
    """The inverse of :func:`tokens_to_grid`.

    >>> grid_to_tokens(torch.zeros(2, 5, 3, 4)).shape
    torch.Size([2, 12, 5])
    """
    return x.flatten(2).transpose(1, 2)
