"""Normalization and every other spatial sum of a neural operator, taken against a measure instead of a point count.

Names are loaded when they are first used, so that the command line answers before torch is in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadnorm._memory import keep_memory
    from quadnorm.adapt import at_native, check_grid, load_adapted, register_anchor
    from quadnorm.adapt.anchoring import anchor
    from quadnorm.adapt.auditing.audit import audit
    from quadnorm.adapt.converting import convert
    from quadnorm.adapt.extending import extend
    from quadnorm.adapt.transfer import transfer
    from quadnorm.measures import (
        Anchored,
        Blend,
        Grid,
        LatLon,
        Measure,
        Weights,
        cell_weights,
        delaunay_weights,
        lumped_weights,
        measure_of,
        trapezoidal_weights_nd,
        voronoi_weights,
    )
    from quadnorm.norms import (
        AnchoredNorm,
        BlendQuadNorm,
        QuadNorm,
        QuadRMSNorm,
        make_norm,
        quad_norm,
        quad_norm_ragged,
    )

__version__ = "0.1.0"

__all__ = [
    "Anchored",
    "AnchoredNorm",
    "Blend",
    "BlendQuadNorm",
    "Grid",
    "LatLon",
    "Measure",
    "QuadNorm",
    "QuadRMSNorm",
    "Weights",
    "anchor",
    "at_native",
    "audit",
    "cell_weights",
    "check_grid",
    "convert",
    "delaunay_weights",
    "extend",
    "keep_memory",
    "load_adapted",
    "lumped_weights",
    "make_norm",
    "measure_of",
    "quad_norm",
    "quad_norm_ragged",
    "register_anchor",
    "transfer",
    "trapezoidal_weights_nd",
    "voronoi_weights",
]

_HOMES = ("_memory", "measures", "norms", "adapt")  # where public names are looked for
_ROOMS = ("adapt", "carry", "lab", "measures", "norms", "operators", "parallel", "problems", "training")


def __getattr__(name: str) -> object:
    if name in _ROOMS:  # quadnorm.operators without a second import
        return import_module(f"quadnorm.{name}")
    if name in __all__:
        for room in _HOMES:
            module = import_module(f"quadnorm.{room}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)  # looked up once, an ordinary attribute from then on
                return globals()[name]
    raise AttributeError(f"module 'quadnorm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "operators", "problems"})
