"""Marks for the points of a curve as SVG paths, one shape per method, so that curves differ not by colour alone."""

from __future__ import annotations

from math import cos, pi, sin

_SIDES = {"^": (3, 0.0), "v": (3, 0.5), "<": (3, 0.75), ">": (3, 0.25), "D": (4, 0.0), "p": (5, 0.0)}
_SIDES |= {"h": (6, 0.0), "H": (6, 1 / 12), "8": (8, 1 / 16)}


def marker_path(marker: str, x: float, y: float, size: float = 4.0) -> str:
    """The path of a matplotlib marker around (x, y), as the ``d`` of an SVG path.

    >>> marker_path("s", 10, 20, 4)
    'M6.5 16.5h7.1v7.1h-7.1z'
    """
    if marker == "s":
        half = 0.886 * size  # a square as large as the circle
        return f"M{x - half:.1f} {y - half:.1f}h{2 * half:.1f}v{2 * half:.1f}h{-2 * half:.1f}z"
    if marker in ("P", "X"):
        return _cross(x, y, 1.25 * size, 0.0 if marker == "P" else 1 / 8)
    if marker == "*":
        return _polygon(x, y, [(1.45 if k % 2 == 0 else 0.6) * size for k in range(10)], 0.0)
    if marker == "d":  # a thin diamond
        return _polygon(x, y, [1.5 * size, 0.7 * size] * 2, 0.0)
    if marker in _SIDES:
        sides, turn = _SIDES[marker]
        radius = size * (1.45 if sides == 3 else 1.3 if sides == 4 else 1.1)
        return _polygon(x, y, [radius] * sides, turn)
    return f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z"


def _polygon(x: float, y: float, radii: list[float], turn: float) -> str:
    """Corners at these distances, the first one on top, turned by a share of a full turn."""
    n = len(radii)
    corners = [
        (x + r * sin(2 * pi * (k / n + turn)), y - r * cos(2 * pi * (k / n + turn))) for k, r in enumerate(radii)
    ]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"


def _cross(x: float, y: float, size: float, turn: float) -> str:
    """A plus with arms of a third of its size."""
    arm = size / 3
    outline = [
        (-arm, -size), (arm, -size), (arm, -arm), (size, -arm), (size, arm), (arm, arm),
        (arm, size), (-arm, size), (-arm, arm), (-size, arm), (-size, -arm), (-arm, -arm),
    ]  # fmt: skip
    c, s = cos(2 * pi * turn), sin(2 * pi * turn)
    corners = [(x + c * a - s * b, y + s * a + c * b) for a, b in outline]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"
