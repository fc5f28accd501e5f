"""What is special about latitudes and longitudes: a circle closes, nothing lies beyond a pole, and some latitudes are
those of Gauss quadrature.
"""

from collections.abc import Mapping

import numpy as np

from quadnorm.problems.files.nodes.placements import Domain, spacing, spans

LATITUDE, LONGITUDE = "latitude", "longitude"
_CIRCLES = (360.0, 2 * np.pi)
_POLE = 90.0
_SLACK = 0.02  # of one spacing
_FIRST_ZERO = 2.404825557695773  # of the Bessel function J₀


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
    return h is not None and any(abs(h * len(x) - circle) <= _SLACK * h for circle in _CIRCLES)


def gaussian(x: np.ndarray) -> bool:
    """Whether latitudes are those of Gauss quadrature, which are equispaced up to a few hundredths of a spacing.

    Of n of them the first is j₀/(n + ½) away from the pole, where j₀ is the first zero of J₀; cell centres are
    π/(2n) away.

    >>> gaussian(np.degrees(np.arcsin(np.polynomial.legendre.leggauss(64)[0]))), gaussian(np.arange(-88.75, 90, 2.5))
    (True, False)
    """
    if len(x) < 4 or abs(x[0] + x[-1]) > 1e-3 * abs(x[0]):
        return False
    degrees = np.abs(x[[0, -1]]) if np.abs(x).max() > np.pi / 2 else np.degrees(np.abs(x[[0, -1]]))
    away = np.radians(_POLE - degrees) * (len(x) + 0.5)
    return bool((np.abs(away - _FIRST_ZERO) < 0.02 * _FIRST_ZERO).all())


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
    if word not in (LATITUDE, LONGITUDE):
        return possible if likelier is None else likelier
    kept = _without(word, x, possible)
    return kept if len(kept) == 1 or likelier is None else _without(word, x, likelier)


def _without(word: str, x: np.ndarray, possible: Mapping[str, Domain]) -> dict[str, Domain]:
    """The placements without periodic ones and those that go beyond a pole."""
    h = spacing(x) or 0.0
    kept = {name: ends for name, ends in possible.items() if name != "periodic"}
    if word == LATITUDE:
        most = _POLE + _SLACK * h
        kept = {name: (lo, hi) for name, (lo, hi) in kept.items() if lo >= -most and hi <= most}
    return kept
