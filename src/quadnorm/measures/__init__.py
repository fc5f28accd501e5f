"""Measures: what a spatial average is taken against, and the weights that a grid, mesh or point cloud gives it."""

from quadnorm.measures.anchored import Anchored
from quadnorm.measures.base import Measure
from quadnorm.measures.composed import Blend, Masked, Weights
from quadnorm.measures.data.measure import measure_of
from quadnorm.measures.geometry.meshes import cell_weights, lumped_weights
from quadnorm.measures.geometry.points import delaunay_weights, voronoi_weights
from quadnorm.measures.grid import Grid, Separable, trapezoidal_weights_nd
from quadnorm.measures.placement import PLACEMENTS, Placement, placement_of
from quadnorm.measures.rules import RULES, Rule, rule
from quadnorm.measures.sphere import LatLon

__all__ = [
    "PLACEMENTS",
    "RULES",
    "Anchored",
    "Blend",
    "Grid",
    "LatLon",
    "Masked",
    "Measure",
    "Placement",
    "Rule",
    "Separable",
    "Weights",
    "as_measure",
    "cell_weights",
    "delaunay_weights",
    "lumped_weights",
    "measure_of",
    "placement_of",
    "rule",
    "trapezoidal_weights_nd",
    "voronoi_weights",
]


def as_measure(spec: object) -> Measure:
    """A measure from a rule's name, a sequence of names (one per axis), or a measure.

    >>> as_measure("trapezoid")
    Grid('trapezoid')
    """
    if isinstance(spec, Measure):
        return spec
    if isinstance(spec, (str, tuple, list)):
        return Grid(spec)
    raise TypeError(f"expected a rule's name, one name per axis, or a measure such as Grid('trapezoid'), got {spec!r}")
