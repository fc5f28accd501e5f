"""Find the placement of the nodes of a stored axis from its coordinates.

The same coordinates can fit several placements: 0.05, 0.15, …, 0.95 are the cell centres of [0, 1], or endpoint nodes
of [0.05, 0.95]. So coordinates determine a placement only together with a domain: the caller's, or the only one whose
ends are multiples of ½ or of π/2; where these do not decide (kilometres in metres, micrometres, degrees), the only one
whose ends are multiples of ½·10^k, 10^k the leading digit's place of its length, or of 90. In all other cases the user
is asked; nothing is guessed.

Latitudes and longitudes are special: a circle closes, nothing lies beyond a pole, and some latitudes are those of Gauss
quadrature.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.gauss import gauss_legendre_nodes
from quadnorm.measures.placement import PLACEMENTS as UNIFORM
from quadnorm.measures.placement import placement_of

PLACEMENTS = {
    **{name: str(p) for name, p in UNIFORM.items()},
    "coordinates": "nonuniform nodes, given by their coordinates (Grid.from_coordinates)",
}
Domain = tuple[float, float]

_SLACK = 0.02  # of one spacing: float32 rounding of 8192 nodes is 0.001 of it, placements differ by 0.5
LATITUDE, LONGITUDE = "latitude", "longitude"
_CIRCLES = (360.0, 2 * np.pi)
_POLE = 90.0
_ROUNDED = 0.1  # of one spacing: longitudes are often rounded to two decimals, and circles differ by a spacing


def checked(placement: str) -> str:
    """The placement itself if it is known, else a ValueError.

    >>> checked("cell")
    'cell'
    """
    if placement not in PLACEMENTS:
        raise ValueError(unknown("placement", placement, PLACEMENTS))
    return placement


def nodes(placement: str, n: int, domain: Domain = (0.0, 1.0)) -> np.ndarray:
    """The n nodes of a placement, on a domain.

    >>> nodes("cell", 4, (0.0, 2.0))
    array([0.25, 0.75, 1.25, 1.75])
    """
    return domain[0] + (domain[1] - domain[0]) * placement_of(placement).nodes(n).numpy()


def spacing(x: np.ndarray) -> float | None:
    """The spacing of uniform, increasing coordinates; None where they are not uniform.

    >>> spacing(np.array([0.0, 0.5, 1.0])), spacing(np.array([0.0, 0.1, 1.0]))
    (0.5, None)
    """
    x = np.asarray(x, dtype=np.float64)
    if x.size < 2:
        return None
    h = float(x[-1] - x[0]) / (x.size - 1)
    line = x[0] + h * np.arange(x.size)
    return h if h > 0 and bool(np.abs(x - line).max() <= rounding(x, h)) else None


def rounding(x: np.ndarray, h: float) -> float:
    """How far coordinates with the spacing h may be from where they belong: many are stored in float32, which is coarse
    where the spacing is a small part of the values.

    >>> spacing(np.float32(359.58 + 0.0009 * np.arange(100))) is not None
    True
    """
    return max(_SLACK * h, min(2e-7 * float(np.abs(x).max()), 0.1 * h))


def spans(x: np.ndarray) -> dict[str, Domain]:
    """The domain that uniform coordinates would fill, for each placement.

    >>> spans(np.array([1.0, 2.0]))["cell"]
    (0.5, 2.5)
    """
    return {name: p.span(float(x[0]), float(x[-1]), len(x)) for name, p in UNIFORM.items()}


def readings(x: np.ndarray, domain: Domain | None = None) -> dict[str, Domain]:
    """The placements that fit the coordinates, each with its domain.

    With a domain: the placements whose nodes on it are x. Without: those whose domain ends at multiples of ½ or of π/2.
    ``periodic`` and ``left`` have the same nodes, so they always occur together.

    >>> readings(np.array([0.125, 0.375, 0.625, 0.875]))
    {'cell': (0.0, 1.0)}
    >>> sorted(readings(np.array([0.0, 0.25, 0.5, 0.75]), (0.0, 1.0)))
    ['left', 'periodic']
    """
    return _fitting(x, lambda ends: domain if domain is not None else _round_ends(ends, (0.5, np.pi / 2)))


def likely(x: np.ndarray) -> dict[str, Domain]:
    """Like :func:`readings` without a domain; if that leaves none or several, those with ends that are round for their
    length, in decimals or in degrees.

    >>> likely(1e5 * np.array([0.125, 0.375, 0.625, 0.875]))
    {'cell': (0.0, 100000.0)}
    >>> likely(np.array([-67.5, -22.5, 22.5, 67.5]))
    {'cell': (-90.0, 90.0)}
    """
    plain = readings(x)
    if len(plain) == 1 or set(plain) == {"periodic", "left"}:
        return plain
    h = spacing(x) or 0.0
    # The ends of two placements differ by half a spacing or more: multiples of a finer unit distinguish nothing.
    return _fitting(x, lambda e: _round_ends(e, [u for u in (_decimal(e), 90.0) if u >= h])) or plain


def _decimal(ends: Domain) -> float:
    """Half the place of the leading digit of a domain's length: 50 for 100, 0.5 for 1."""
    return float(0.5 * 10.0 ** np.floor(np.log10((ends[1] - ends[0]) * (1 + 1e-6))))


def _fitting(x: np.ndarray, target_of: Callable[[Domain], Domain | None]) -> dict[str, Domain]:
    """The placements whose domain is, up to rounding, the one that ``target_of`` makes of it."""
    x = np.asarray(x, dtype=np.float64)
    h = spacing(x)
    if h is None:
        return {}
    result: dict[str, Domain] = {}
    for placement, ends in spans(x).items():
        target = target_of(ends)
        if target is not None and max(abs(ends[0] - target[0]), abs(ends[1] - target[1])) <= _SLACK * h:
            result[placement] = target
    return result


def _round_ends(ends: Domain, units: Sequence[float]) -> Domain | None:
    """The nearest pair of multiples of one of the units."""
    candidates: list[Domain] = []
    for unit in units:
        lo, hi = (round(end / unit) * unit for end in ends)
        if hi > lo:
            candidates.append((float(lo), float(hi)))
    if not candidates:
        return None
    return min(candidates, key=lambda c: abs(c[0] - ends[0]) + abs(c[1] - ends[1]))


def unwrapped(x: np.ndarray) -> np.ndarray:
    """Longitudes without the jump by a full circle, as in 350, 355, 0, 5 or 0, 90, 180, −90.

    >>> unwrapped(np.array([350.0, 355.0, 0.0, 5.0]))
    array([350., 355., 360., 365.])
    """
    steps = np.diff(x)
    if not np.isfinite(x).all() or (steps > 0).all() or (steps < 0).all():
        return x
    return np.unwrap(x, period=360.0 if np.abs(x).max() > 2 * np.pi + 0.1 else 2 * np.pi)


def whole_circle(x: np.ndarray) -> bool:
    """Whether increasing longitudes go once around the circle, in degrees or in radians, wherever they begin.

    >>> whole_circle(np.arange(0.5, 360)), whole_circle(np.arange(0.0, 361.0)), whole_circle(np.arange(0.0, 90.0))
    (True, False, False)
    """
    h = spacing(x)
    return h is not None and any(abs(h * len(x) - circle) <= _ROUNDED * h for circle in _CIRCLES)


def closed_circle(x: np.ndarray) -> bool:
    """Whether increasing longitudes repeat the first at the end, as 20, 20⅓, …, 380.

    >>> closed_circle(np.arange(0.5, 361)), closed_circle(np.arange(0.0, 360.0))
    (True, False)
    """
    h = spacing(x)
    return h is not None and any(abs(h * (len(x) - 1) - circle) <= _ROUNDED * h for circle in _CIRCLES)


def gaussian(x: np.ndarray) -> bool:
    """Whether latitudes, in degrees or radians, are all those of Gauss quadrature, to a hundredth of their spacing.

    >>> gaussian(np.degrees(np.arcsin(np.polynomial.legendre.leggauss(64)[0]))), gaussian(np.arange(-88.75, 90, 2.5))
    (True, False)
    """
    n = len(x)
    if n < 4 or abs(x[0] + x[-1]) > 1e-3 * abs(x[0]):
        return False
    radians = np.abs(np.radians(x) if np.abs(x).max() > np.pi / 2 else x)
    if abs((np.pi / 2 - radians.max()) * (n + 0.5) - 2.405) > 0.1:  # the first zero of J₀; saves most the solve below
        return False
    nodes = np.arcsin(2 * gauss_legendre_nodes(n).numpy() - 1)
    return bool(np.abs(np.sort(radians) - np.sort(np.abs(nodes))).max() < 0.01 * np.pi / n)


def on_earth(
    word: str, x: np.ndarray, possible: Mapping[str, Domain], likelier: Mapping[str, Domain] | None
) -> Mapping[str, Domain]:
    """The placements that an axis can have, of those that fit its coordinates.

    ``possible`` are all with round ends, or on the caller's domain; ``likelier`` those with rounder ends, None if there
    is a domain. A whole circle of longitudes is periodic. Latitudes and parts of a circle are not, and nothing lies
    beyond a pole.
    """
    if word == LONGITUDE and whole_circle(x):
        fitting = [each[name] for each in (likelier or {}, possible) for name in ("periodic", "cell") if name in each]
        return {"periodic": fitting[0] if fitting else spans(x)["periodic"]}
    if word == LONGITUDE and closed_circle(x) and (likelier is not None or "endpoint" in possible):
        return {"endpoint": spans(x)["endpoint"]}
    if word not in (LATITUDE, LONGITUDE):
        return possible if likelier is None else likelier
    kept = _without(word, x, possible)
    return kept if len(kept) == 1 or likelier is None else _without(word, x, likelier)


def _without(word: str, x: np.ndarray, possible: Mapping[str, Domain]) -> dict[str, Domain]:
    """The placements without periodic ones and those that go beyond a pole.

    A grid without one of its ends, or both, ends at a pole or at a quarter of the circle; round numbers elsewhere are
    chance.
    """
    h = spacing(x) or 0.0
    quarters = {name for name, ends in possible.items() if max(abs(e / _POLE - round(e / _POLE)) for e in ends) < 1e-6}
    kept = {name: ends for name, ends in possible.items() if name in ("endpoint", "cell", *(quarters - {"periodic"}))}
    if word == LATITUDE:
        most = _POLE + _SLACK * h
        kept = {name: (lo, hi) for name, (lo, hi) in kept.items() if lo >= -most and hi <= most}
    return kept
