"""The sphere in latitude and longitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.measures.axes import Axis, Bound, GivenAxis, RuleAxis, faces_between
from quadnorm.measures.gauss import clenshaw_curtis, gauss_legendre
from quadnorm.measures.geometry.coordinates import to_numpy
from quadnorm.measures.grid import Separable
from quadnorm.measures.placement import PLACEMENTS
from quadnorm.measures.rules import RULES

LATITUDES = ("equiangular", "equiangular-cell", "gauss-legendre", "clenshaw-curtis")
# The placements of the flat grids mean the same here: with poles, or centres of bands.
_ALIASES = {
    "endpoint": "equiangular",
    "trapezoid": "equiangular",
    "cell": "equiangular-cell",
    "midpoint": "equiangular-cell",
}


class LatLon(Separable):
    r"""Area on the unit sphere for samples of shape (latitude, longitude).

    .. math:: \frac{1}{4\pi}\int f \, dA \approx \sum_{ij} \frac{w_i}{m} f(\varphi_i, \lambda_j)

    Longitudes are periodic, j·360°/m, weight 1/m each. Latitudes, symmetric about the equator (north to south or south
    to north):

    ====================  ===============================  ============================================
    rule                  n latitudes                      weights
    ====================  ===============================  ============================================
    ``equiangular``       180°·j/(n−1) − 90°, with poles   areas of the bands around them, polar caps
    ``equiangular-cell``  180°·(j+½)/n − 90°, no poles     areas of the n bands
    ``gauss-legendre``    arcsin of Gauss–Legendre nodes   exact to degree 2n−1 in sin φ
    ``clenshaw-curtis``   as equiangular                   exact to degree n−1 in sin φ
    ====================  ===============================  ============================================

    The band rules have order 2, the last two converge faster than any power on smooth fields. :meth:`crop` cuts a
    region out of a global grid; :meth:`from_coordinates` takes latitudes and longitudes as they are.

    >>> LatLon("equiangular").weights((3, 2)).sum(dim=1)  # caps of 45° and the band between them
    tensor([0.1464, 0.7071, 0.1464], dtype=torch.float64)
    """

    def __init__(self, rule: str = "equiangular") -> None:
        rule = _ALIASES.get(rule, rule)
        if rule not in LATITUDES:
            raise ValueError(unknown("latitude rule", rule, LATITUDES))
        self._set(_axes=(LatitudeAxis(rule), RuleAxis(RULES["periodic"], 0.0, 360.0)), _every=False)

    @classmethod
    def from_coordinates(cls, latitude: Any, longitude: Any, bounds: Sequence[Bound] | None = None) -> LatLon:
        """A grid with given latitudes and longitudes in degrees, global or regional.

        Bands end halfway between latitudes, and at the outermost latitudes or, if given, at ``bounds`` = ((south,
        north), (west, east)). Longitudes wrap around if they are evenly spaced and close the circle; otherwise they are
        cells like the latitudes.

        >>> round(LatLon.from_coordinates([0.0, 30.0, 60.0], [0.0, 10.0]).total, 9)  # sin 60° · 10° in radians
        0.151149947
        """
        south_north, west_east = (None, None) if bounds is None else (bounds[0], bounds[1])
        lat = GivenAxis.of(latitude, south_north, False, "latitude")
        if lat.lo < -90 or lat.hi > 90:
            raise ValueError(f"latitude: expected degrees from −90 to 90, got [{lat.lo:g}, {lat.hi:g}]")
        lon = np.asarray(to_numpy(longitude), dtype=np.float64)
        _check_no_wrap(lon)
        steps = np.abs(np.diff(lon)) if lon.ndim == 1 else np.empty(0)
        closes = west_east is None and lon.size > 1 and lon.ndim == 1 and _closes(steps, lon.size)
        if closes:
            west_east = (float(lon.min()), float(lon.min()) + 360)
        along = GivenAxis.of(longitude, west_east, closes, "longitude")
        return cls.of_axes(_bands(lat), replace(along, part=(along.hi - along.lo) / 360))

    @classmethod
    def of_axes(cls, *axes: Axis) -> LatLon:
        """The sphere with an axis of latitudes and one of longitudes, in either order."""
        measure = cls.__new__(cls)
        measure._set(_axes=axes, _every=False)
        return measure

    def crop(self, rows: slice, columns: slice, shape: tuple[int, int]) -> LatLon:
        """The region ``[rows, columns]`` of a grid of ``shape`` (latitudes, longitudes), renormalised to it.

        Weights derive from the global grid, so that no band at the region's edge is cut in half; ``total`` is the
        region's area.

        >>> north = LatLon("equiangular-cell").crop(slice(0, 2), slice(None), (4, 8))
        >>> round(north.total / (2 * pi), 12), north.shape
        (1.0, (2, 8))
        """
        full = self._checked(shape)
        axes = map(_cropped, self._axes, full, (rows, columns), ("rows", "columns"))
        return type(self).of_axes(*axes)

    @property
    def total(self) -> float:
        """Area on the unit sphere; 4π for the whole."""
        return 4 * pi * prod(a.part for a in self._axes if isinstance(a, GivenAxis))

    def describe(self) -> str:
        return f"sphere: {self._axes[0]} × {self._axes[1]}, area {self.total:.6g}"

    def __repr__(self) -> str:
        return (
            f"LatLon({str(self._axes[0])!r})" if self.shape is None else f"LatLon(<{self._axes[0]} × {self._axes[1]}>)"
        )


def _closes(steps: np.ndarray, n: int) -> bool:
    """Whether n even longitudes leave a gap of one step: 0, ⅓, …, 360 is 1081 of them and leaves none."""
    h = float(steps.mean())
    return bool(np.abs(steps - h).max() <= 0.02 * h and abs(h * n - 360) <= 0.02 * h)


def _check_no_wrap(lon: np.ndarray) -> None:
    """Refuse longitudes that jump by a full circle once (…, 350, 0, 10, …), and say how to mend that."""
    steps = np.diff(lon) if lon.ndim == 1 else np.empty(0)
    jumps = np.flatnonzero(np.abs(steps) > 180)
    if jumps.size == 1 and steps.size > 1:
        k = int(jumps[0])
        turn = 360 if steps[k] < 0 else -360
        raise ValueError(
            f"longitude: wraps around between node {k} ({lon[k]:g}°) and node {k + 1} ({lon[k + 1]:g}°); expected "
            f"degrees that only increase or only decrease: add {turn} to the nodes from {k + 1} on, or roll the grid "
            f"(and the samples with it)"
        )


def _bands(latitudes: GivenAxis) -> GivenAxis:
    """Latitudes in degrees, each with the area of the band around it."""
    faces = faces_between(np.sort(latitudes.x), (latitudes.lo, latitudes.hi))
    areas = np.diff(np.sin(np.radians(faces)))
    areas = areas if latitudes.x[0] <= latitudes.x[-1] else areas[::-1]
    part = float(areas.sum())
    return replace(latitudes, shares=tuple((areas / part).tolist()), words="latitudes", part=part / 2)


def _cropped(axis: Axis, n: int, kept: slice, name: str) -> GivenAxis:
    """A slice of an axis with n samples, also backwards, with the slice's own ends."""
    index = list(range(*kept.indices(n)))
    if not index:
        raise ValueError(f"the crop keeps no {name}: {kept} of {n}")
    x, w = axis.nodes(n)[index], axis.weights(n)[index]
    share = float(w.sum())
    part = (axis.part if isinstance(axis, GivenAxis) else 1.0) * share
    words = f"of {n} ({axis})"
    return GivenAxis(tuple(x.tolist()), tuple((w / share).tolist()), float(x.min()), float(x.max()), words, part)


@dataclass(frozen=True)
class LatitudeAxis:
    """Latitudes of a global grid, in degrees from −90."""

    rule: str
    lo = -90.0
    hi = 90.0
    size = None

    def nodes(self, n: int) -> Tensor:
        if self.rule == "gauss-legendre":
            return torch.rad2deg(torch.asin(2 * RULES["gauss-legendre"].nodes(n) - 1))
        return 180 * PLACEMENTS["cell" if self.rule == "equiangular-cell" else "endpoint"].nodes(n) - 90

    def weights(self, n: int) -> Tensor:
        if self.rule == "gauss-legendre":
            return gauss_legendre(n)
        if self.rule == "clenshaw-curtis":
            return clenshaw_curtis(n)
        if n == 1:
            return torch.ones(1, dtype=torch.float64, device="cpu")
        inner = (torch.arange(n - 1, dtype=torch.float64, device="cpu") + 0.5) / (n - 1)
        if self.rule == "equiangular-cell":
            inner = torch.arange(1, n, dtype=torch.float64, device="cpu") / n
        faces = torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])
        return torch.diff(-torch.cos(pi * faces)) / 2

    def flat(self, n: int) -> bool:
        return n == 1

    def __str__(self) -> str:
        return self.rule
