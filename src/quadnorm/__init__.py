"""Normalization and every other spatial sum of a neural operator, taken against a measure instead of a point count."""

from quadnorm.measures import Anchored, Blend, Grid, LatLon, Measure, Weights

__version__ = "0.1.0"

__all__ = ["Anchored", "Blend", "Grid", "LatLon", "Measure", "Weights"]
