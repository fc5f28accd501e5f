"""Where the samples of a field lie, and what each of them counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import sum_dtype
from quadnorm.measures import PLACEMENTS, Anchored, Blend, Grid, Masked, Measure, Separable, as_measure
from quadnorm.measures._cache import CACHE
from quadnorm.measures.axes import RuleAxis
from quadnorm.measures.placement import Placements, as_placements, placements_per_axis, rules_of
from quadnorm.norms import make_norm
from quadnorm.norms.factory import parse
from quadnorm.norms.weights import blended, check_weights, given_mask, given_weights, scaled

COUNTING = Grid("counting")


class Measured(nn.Module):
    """A module whose sums over space run against ``measure``; one can be assigned at any time, by name too."""

    _measure: Measure

    @property
    def measure(self) -> Measure:
        """What its sums run against."""
        return self._measure

    @measure.setter
    def measure(self, spec: str | Sequence[str] | Measure) -> None:
        self._measure = as_measure(spec)
        for part in self._sums():
            part.measure = self._measure

    def _sums(self) -> Iterable[Any]:
        """The modules inside that take their measure from this one."""
        return ()


def counting(measure: Measure) -> bool:
    """Whether the measure is ``COUNTING``, by its rule's name: comparing measures would compare sizes, which in a trace
    are symbols.

    >>> counting(Grid("counting")), counting(Grid("trapezoid"))
    (True, False)
    """
    if not isinstance(measure, Grid) or not measure._every:
        return False
    axis = measure._axes[0]
    return isinstance(axis, RuleAxis) and axis.rule.name == "counting"


def positions(
    measure: Measure, placement: Placements, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Coordinates of a grid's samples, relative to the domain: (d, N), each in [0, 1], row-major.

    A measure made of axes knows its nodes; the counting measure and explicit weights do not, and take ``placement``'s.

    >>> positions(COUNTING, "cell", (2, 2), torch.device("cpu"), torch.float32)
    tensor([[0.2500, 0.2500, 0.7500, 0.7500],
            [0.2500, 0.7500, 0.2500, 0.7500]])
    """
    if torch.compiler.is_compiling():
        return _positions(measure, placement, shape).to(device=device, dtype=dtype)
    key = (measure, placement, shape, device, dtype)
    return CACHE.get(("positions", *key), lambda: _positions(measure, placement, shape).to(device=device, dtype=dtype))


def _positions(measure: Measure, placement: Placements, shape: tuple[int, ...]) -> Tensor:
    while isinstance(measure, (Blend, Masked)):
        measure = measure.quadrature if isinstance(measure, Blend) else measure.base
    if isinstance(measure, Separable) and not counting(measure):
        axes = zip(measure.axes(len(shape)), shape, strict=True)
        nodes = [(a.nodes(n) - a.lo) / (a.hi - a.lo) for a, n in axes]
    else:
        names = placements_per_axis(placement, len(shape))
        nodes = [PLACEMENTS[name].nodes(n) for name, n in zip(names, shape, strict=True)]
    return torch.stack([t.reshape(-1) for t in torch.meshgrid(*nodes, indexing="ij")])


def sample_weights(
    measure: Measure, given: Any, x: Tensor, spatial: tuple[int, ...], mask: Any = None
) -> Tensor | None:
    """Weights of the samples of x (B, C, N), summing to 1: (1 or B, N), float32 or better; None if all are equal.

    ``given`` weights take the place of the measure's (of a blend, of its quadrature), ``mask`` multiplies either.
    """
    dtype = sum_dtype(x)
    if given is None and mask is None:
        if _flat(measure, spatial):
            return None
        return measure.shared_weights(spatial, x.device, dtype).reshape(1, -1)
    share, rest = measure.counting_part()
    if given is None:
        w = rest.shared_weights(spatial, x.device, dtype).reshape(1, -1)
    else:
        w = given_weights(given, x, spatial)
    if mask is not None:
        w = w * given_mask(mask, x, spatial)
        check_weights(w, "the mask leaves")
    w = scaled(w, dtype)
    return blended(w, share) if share else w


def without_absent(f: Tensor, weights: Tensor) -> Tensor:
    """Field f (B, C, N) with 0 where weights (1 or B, N) are 0: padding may hold anything, and 0·NaN is NaN."""
    return torch.where((weights == 0).unsqueeze(1), torch.zeros((), dtype=f.dtype, device=f.device), f)


def _flat(measure: Measure, spatial: tuple[int, ...]) -> bool:
    if torch.compiler.is_compiling() and not isinstance(measure, Grid):
        return False  # asking an anchored measure would compile the training grid's size in
    return isinstance(measure, Separable) and measure.flat(spatial)


def present(weights: Tensor | None, n: int) -> Tensor | float:
    """How many samples are there: n, or the number of positive weights of each sample of a batch, (1 or B, 1, 1)."""
    # Not float(n): that would fix the size of a traced model.
    return n if weights is None else (weights > 0).sum(1).to(weights.dtype).view(-1, 1, 1)


def training_count(measure: Measure, ndim: int) -> int | None:
    """Samples of the grid that an anchored measure stands for."""
    if not isinstance(measure, Anchored):
        return None
    return prod(measure.anchor) if len(measure.anchor) == ndim else measure.anchor[0] ** ndim


def spatial_norm(spec: Any, channels: int, measure: Measure, placement: Placements) -> nn.Module:
    """A norm for fields (B, C, *spatial) inside an operator with ``measure``, whose samples lie at ``placement``.

    One rule: a quadrature norm whose spec names no measure takes the operator's, of whatever kind. Where that is
    counting, which is no quadrature, it takes the placement's rule. A name with a rule (``"quad:simpson"``), a partial
    with a measure and norms that count samples (``"layer"``) keep theirs.

    >>> spatial_norm("quad", 4, Grid("simpson"), "endpoint").measure
    Grid('simpson')
    >>> spatial_norm("quad", 4, COUNTING, "cell").measure, spatial_norm("quad:boole", 4, COUNTING, "cell").measure
    (Grid('midpoint'), Grid('boole'))
    """
    norm = make_norm(spec, channels)
    if names_measure(spec):
        return norm
    own = getattr(norm, "measure", None)
    quadrature = Grid(rules_of(placement)) if counting(measure) else measure
    if own == Grid("trapezoid"):
        norm.measure = quadrature  # type: ignore[assignment]
    elif isinstance(own, Blend) and own.quadrature == Grid("trapezoid"):
        inner = quadrature.quadrature if isinstance(quadrature, Blend) else quadrature
        norm.measure = Blend(own.alpha, inner)  # type: ignore[assignment]
    return norm


def names_measure(spec: Any) -> bool:
    """Whether the spec of a norm says what it averages against. What cannot be looked into counts as saying so.

    >>> names_measure("quad:instance"), names_measure("quad:instance:periodic")
    (False, True)
    """
    build = parse(spec) if isinstance(spec, str) else spec
    if isinstance(build, partial):
        return "measure" in build.keywords
    return build is not None and not isinstance(build, type)


def checked_placement(placement: str | Sequence[str], dim: int) -> Placements:
    """The placement of all axes, or of each, if grids of any resolution have it.

    >>> checked_placement(["endpoint", "periodic"], 2)
    ('endpoint', 'periodic')
    """
    names = [placement] if isinstance(placement, str) else placement
    if not isinstance(names, (list, tuple)) or any(not isinstance(n, str) or n not in PLACEMENTS for n in names):
        raise ValueError(f"placement says where samples lie, one of {', '.join(PLACEMENTS)}; got {placement!r}")
    return as_placements(placement, dim)


def grid_shape(x: Tensor, channels: int, dim: int) -> tuple[int, ...]:
    """The spatial shape of x (B, channels, *spatial), or an error that says what was expected."""
    if x.ndim != dim + 2 or x.shape[1] != channels:
        sizes = ", ".join(["n"] * dim)
        raise ValueError(
            f"got input of shape {tuple(x.shape)}, expected (batch, {channels}, {sizes}): {channels} channels on a "
            f"{dim}-dimensional grid (coordinates are added inside)"
        )
    if not x.is_floating_point():
        raise TypeError(f"got input of {x.dtype}; expected real floating point numbers")
    return tuple(x.shape[2:])
