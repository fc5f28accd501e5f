"""Normalization and every other spatial sum of a neural operator, taken against a measure instead of a point count.

Names are loaded when they are first used, so that the command line answers before torch is in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadnorm.measures import (
        Anchored,
        Blend,
        Grid,
        LatLon,
        Measure,
        Weights,
    )

__version__ = "0.1.0"

_ROOMS = {
    "measures": ("Anchored", "Blend", "Grid", "LatLon", "Measure", "Weights"),
}
_HOME = {name: f"quadnorm.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Anchored",
    "Blend",
    "Grid",
    "LatLon",
    "Measure",
    "Weights",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'quadnorm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
