"""The measure of one line of coordinates: an axis of a grid, or the latitudes or longitudes of a sphere."""

from __future__ import annotations

import numpy as np

from quadnorm.measures.axes import GivenAxis, checked_nodes, faces_between
from quadnorm.measures.data.placements import (
    LATITUDE,
    LONGITUDE,
    Domain,
    gaussian,
    likely,
    on_earth,
    readings,
    spacing,
    spans,
    unwrapped,
    whole_circle,
)
from quadnorm.measures.gauss import gauss_legendre
from quadnorm.measures.placement import placement_of
from quadnorm.measures.rules import RULES

_SLACK = 0.02  # of one spacing, as for placements


def line_axis(
    x: np.ndarray,
    cells: np.ndarray | None,
    kind: str,
    label: str,
    placement: str | None = None,
    domain: Domain | None = None,
) -> GivenAxis:
    """The axis of 1-D coordinates, in degrees for the kinds latitude and longitude.

    What decides, in this order: the placement that the caller names; the cells (n, 2) that the data state; Gauss
    quadrature's latitudes; a circle of longitudes that closes, with or without the first repeated at the end; the only
    placement that fits evenly spaced nodes; else cells that end halfway between nodes and, outermost, at ``domain`` or
    at the outermost nodes.
    """
    x = _checked(x, kind, label)
    if placement is None and cells is not None:
        return _stated(x, cells, kind, label)
    if x.size == 1:
        if domain is None:
            raise ValueError(f"{label}: a single node has no length of its own; pass domain=(lo, hi)")
        return _between(x, domain, kind, "node")
    if x[0] > x[-1]:
        mirror = None if domain is None else (-domain[1], -domain[0])
        a = line_axis(-x, None, kind, label, placement, mirror)
        return GivenAxis(tuple(x.tolist()), a.shares, -a.hi, -a.lo, a.words, a.part)
    if kind == LATITUDE and placement in (None, "gauss-legendre") and domain is None and gaussian(x):
        return _axis(x, gauss_legendre(len(x)).numpy(), (-90.0, 90.0), kind, "Gaussian latitudes")
    if placement == "gauss-legendre":
        raise ValueError(f"{label}: {len(x)} coordinates from {x[0]:g} to {x[-1]:g} are no Gaussian latitudes")
    if placement is None and kind == LONGITUDE and domain is None:
        span, h = float(x[-1] - x[0]), float(np.diff(x).max())
        usual = float(np.median(np.diff(x)))
        if h > 180 and x.size > 2 and span < 360 - 0.5 * usual:
            return _across(x, label)
        if span > 360 + 0.1 * usual:
            raise ValueError(f"{label}: goes around more than once, {x[0]:g} to {x[-1]:g}; drop the repeated columns")
        if abs(span - 360) <= 0.1 * usual:
            return _between(x, (float(x[0]), float(x[-1])), kind, "longitudes, the first repeated at the end")
        if whole_circle(x) or 360 - span <= 1.5 * h:
            return _around(x)
    even = spacing(x) is not None
    if placement not in (None, "coordinates"):
        return _placed(x, str(placement), kind, label, domain, even)
    ends = domain or (float(x[0]), float(x[-1]))
    if placement is None and even:
        possible = on_earth(kind, x, readings(x, domain), None if domain else likely(x))
        if len(possible) == 1 and not {"endpoint", "cell"}.isdisjoint(possible):
            ((name, found),) = possible.items()
            return _placed(x, name, kind, label, found, even)
    return _between(x, ends, kind, "nodes")


def _checked(x: np.ndarray, kind: str, label: str) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    x = checked_nodes(unwrapped(x) if kind == LONGITUDE else x, label)
    if kind == LATITUDE and np.abs(x).max() > 90 + 1e-4:
        raise ValueError(f"{label}: latitudes are from −90 to 90 degrees, got {x.min():g} to {x.max():g}")
    return x


def _stated(x: np.ndarray, cells: np.ndarray, kind: str, label: str) -> GivenAxis:
    """The cells that the data state, (n, 2) in either order; longitudes may be off by whole circles."""
    low, high = np.sort(np.asarray(cells, dtype=np.float64), axis=1).T
    if kind == LONGITUDE:
        low, high = np.where(high - low > 180, high - 360, low), np.where(high - low > 180, low, high)
        turns = np.round((x - (low + high) / 2) / 360) * 360
        low, high = low + turns, high + turns
        if len(x) == 1 and not (high - low).any():
            high = low + 360
    if kind == LATITUDE:
        low, high = np.clip(low, -90, 90), np.clip(high, -90, 90)
    width = high - low
    slack = 1e-4 * np.abs(width).max() + 1e-9
    wrong = ~np.isfinite(width) | (width <= 0) | (x < low - slack) | (x > high + slack)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"{label}: its bounds are no cells around the nodes: node {k} is {x[k]:g}, its cell {cells[k].tolist()}"
        )
    if kind == LATITUDE:
        width = np.sin(np.radians(high)) - np.sin(np.radians(low))
    return _axis(x, width, (float(low.min()), float(high.max())), kind, "cells")


def _placed(x: np.ndarray, name: str, kind: str, label: str, domain: Domain | None, even: bool) -> GivenAxis:
    """Nodes of a placement that is named, or the only one that fits."""
    if not even:
        raise ValueError(f"{label}: placement={name!r}, but its {len(x)} nodes from {x[0]:g} to {x[-1]:g} are uneven")
    ends = spans(x)[name] if domain is None else domain
    if kind == LATITUDE:
        return _between(x, (max(ends[0], -90.0), min(ends[1], 90.0)), kind, "latitudes")
    w = RULES[placement_of(name).rule].weights(len(x)).numpy()
    return _axis(x, w, ends, kind, f"{name} nodes")


def _between(x: np.ndarray, ends: Domain, kind: str, words: str) -> GivenAxis:
    """Cells that end halfway between nodes."""
    slack = _SLACK * (ends[1] - ends[0]) / len(x)  # coordinates may be rounded
    if x.min() < ends[0] - slack or x.max() > ends[1] + slack:
        raise ValueError(f"nodes from {x.min():g} to {x.max():g} lie outside of domain={ends}")
    ends = min(ends[0], float(x.min())), max(ends[1], float(x.max()))
    faces = faces_between(x, ends)
    return _axis(x, np.diff(np.sin(np.radians(faces)) if kind == LATITUDE else faces), ends, kind, words)


def _around(x: np.ndarray) -> GivenAxis:
    """Longitudes around the whole circle, evenly spaced or not."""
    gaps = np.diff(np.append(x, x[0] + 360))
    even = np.ptp(gaps) <= 2 * _SLACK * gaps.mean()
    w = np.ones(len(x)) if even else (gaps + np.roll(gaps, 1)) / 2
    return _axis(x, w, (float(x[0]), float(x[0]) + 360), LONGITUDE, "longitudes around the circle")


def _across(x: np.ndarray, label: str) -> GivenAxis:
    """Longitudes of a strip across the meridian where they begin, as 0.5, 325.5, …, 355.5: without the gap."""
    last = int(np.diff(x).argmax())
    order = np.roll(np.arange(len(x)), -last - 1)
    a = line_axis(np.where(np.arange(len(x)) <= last, x + 360, x)[order], None, LONGITUDE, label)
    shares = np.empty(len(x))
    shares[order] = a.shares
    return GivenAxis(tuple(x.tolist()), tuple(shares.tolist()), a.lo, a.hi, a.words, a.part)


def _axis(x: np.ndarray, w: np.ndarray, ends: Domain, kind: str, words: str) -> GivenAxis:
    total = float(w.sum())
    part = (ends[1] - ends[0]) / 360
    if kind == LATITUDE:
        part = 1.0 if words.startswith("Gauss") else total / 2
    shares = np.full(len(w), 1 / len(w)) if np.ptp(w) == 0 else w / total
    return GivenAxis(tuple(x.tolist()), tuple(shares.tolist()), *ends, words, part)
