"""Find the placement of the nodes of a stored axis from its coordinates.

The same coordinates can fit several placements: 0.05, 0.15, …, 0.95 are the cell centres of [0, 1], or endpoint nodes
of [0.05, 0.95]. So coordinates determine a placement only together with a domain: the caller's, or the only one whose
ends are multiples of ½ or of π/2; where these do not decide (kilometres in metres, micrometres, degrees), the only one
whose ends are multiples of ½·10^k, 10^k the leading digit's place of its length, or of 90. In all other cases the user
is asked; nothing is guessed.
"""

from collections.abc import Callable, Sequence

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.placement import PLACEMENTS as UNIFORM
from quadnorm.measures.placement import placement_of

PLACEMENTS = {
    **{name: str(p) for name, p in UNIFORM.items()},
    "coordinates": "nonuniform nodes, given by their coordinates (Grid.from_coordinates)",
}
Domain = tuple[float, float]

_SLACK = 0.02  # of one spacing: float32 rounding of 8192 nodes is 0.001 of it, placements differ by 0.5


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
    return h if h > 0 and bool(np.abs(x - line).max() <= _SLACK * h) else None


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
