"""The measure of one line of coordinates: an axis of a grid, or the latitudes or longitudes of a sphere."""

from __future__ import annotations

from collections.abc import Mapping

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
    rounding,
    spacing,
    spans,
    unwrapped,
    whole_circle,
)
from quadnorm.measures.gauss import gauss_legendre
from quadnorm.measures.placement import PLACEMENTS as UNIFORM
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
    if placement is None and len(possible := fitting(x, kind, domain)) == 1:
        ((name, ends),) = possible.items()
        if name in ("endpoint", "cell") or kind not in (LATITUDE, LONGITUDE) or ends == (-90.0, 90.0):
            placement, domain = name, ends  # a part of the earth is not known to end where its nodes do not
    if placement not in (None, "coordinates"):
        return _placed(x, str(placement), kind, label, domain)
    return _between(x, domain or (float(x[0]), float(x[-1])), kind, "nodes")


def fitting(
    x: np.ndarray, kind: str, domain: Domain | None = None, cells: np.ndarray | None = None
) -> dict[str, Domain]:
    """The placements that increasing coordinates may have, each with its domain: what the cells (n, 2) around them say,
    else what a circle, a pole, the domain or round ends leave. None for uneven nodes and Gaussian latitudes.

    >>> fitting(np.array([0.125, 0.375, 0.625, 0.875]), "x"), fitting(np.array([0.0, 1.0, 2.0]), "x", (0.0, 2.0))
    ({'cell': (0.0, 1.0)}, {'endpoint': (0.0, 2.0)})
    """
    h = spacing(x)
    if h is None or (kind == LATITUDE and gaussian(x)):
        return {}
    if cells is not None and domain is None and not (kind == LONGITUDE and whole_circle(x)):
        low, high = np.sort(np.asarray(cells, dtype=np.float64), axis=1).T
        for name in ("cell", "endpoint"):
            ends = spans(x)[name]
            faces = faces_between(x, ends)
            if max(np.abs(low - faces[:-1]).max(), np.abs(high - faces[1:]).max()) <= rounding(x, h):
                return {name: (float(low[0]), float(high[-1]))}
    return dict(on_earth(kind, x, readings(x, domain), None if domain else likely(x)))


def settled(
    x: np.ndarray,
    kind: str,
    label: str,
    placement: str | None = None,
    domain: Domain | None = None,
    cells: np.ndarray | None = None,
    source: str = "you said",
    file: str = "",
) -> tuple[str, Domain]:
    """Placement and domain of nodes that increase or decrease; ``coordinates`` for uneven ones.

    A ValueError where the nodes leave more than one placement open, as 0, 1, 2, 3 do, or contradict the ``placement``
    that ``source`` names; ``file`` begins it.
    """
    if x.size > 1 and x[0] > x[-1]:
        mirror = None if domain is None else (-domain[1], -domain[0])
        turned = None if cells is None else -cells
        placement, (lo, hi) = settled(-x, kind, label, placement, mirror, turned, source, file)
        return placement, (-hi, -lo)
    even = spacing(x) is not None and not (kind == LATITUDE and gaussian(x))
    if placement == "coordinates" or (placement is None and not even):
        return "coordinates", domain or (float(x[0]), float(x[-1]))
    if placement is None:
        possible = fitting(x, kind, domain, cells)
        if len(possible) == 1:
            return next(iter(possible.items()))
        raise _open_question(x, f"{file}coordinates of {label}", domain, possible)
    possible = readings(x, domain) if even else {}
    if placement in possible:
        return placement, possible[placement]
    if placement == "periodic" and "cell" in possible:  # on a circle no node is the first
        return placement, possible["cell"]
    if placement == "periodic" and kind == LONGITUDE and whole_circle(x):
        return placement, spans(x)["periodic"]
    if possible or domain is not None or not even:
        seen = (" or ".join(possible) or "no such nodes") if even else "not equispaced"
        raise ValueError(
            f"{file}{source} that {label} is {placement!r}, but its {len(x)} coordinates {x[0]:.6g} … {x[-1]:.6g} are "
            f"{seen}{'' if domain is None else f' of {domain}'}; if the coordinates are wrong, pass placement= and "
            "ignore_coordinates=True, if the domain is another one, pass domain=(lo, hi)"
        )
    return placement, spans(x)[placement]  # no domain with round ends fits, so nothing contradicts the placement


def _open_question(x: np.ndarray, label: str, domain: Domain | None, possible: Mapping[str, Domain]) -> ValueError:
    listed = " or ".join(f"placement={p!r}" for p in possible) or f"placement= {tuple(UNIFORM)}"
    problem = "do not say where the axis ends" if domain is None else f"are nodes of no placement on {domain}"
    return ValueError(
        f"{label}, {len(x)} from {x[0]:.6g} to {x[-1]:.6g}, "
        f"{'can be read in more than one way' if possible else problem}; pass {listed}, or domain=(lo, hi), the ends "
        "of the axis"
    )


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


def _placed(x: np.ndarray, name: str, kind: str, label: str, domain: Domain | None) -> GivenAxis:
    """Nodes of a placement that is named, or the only one that fits."""
    if spacing(x) is None:
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
