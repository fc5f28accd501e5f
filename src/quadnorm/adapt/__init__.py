"""Existing models: find what depends on the resolution, fix it without training, or train without it."""

from quadnorm.adapt.anchor import anchor
from quadnorm.adapt.carry import carry
from quadnorm.adapt.convert import Conversion, convert
from quadnorm.adapt.native import AtNative, Detailed, at_native
from quadnorm.adapt.registry import Place, register_anchor
from quadnorm.adapt.report import Entry, Report
from quadnorm.adapt.torch_modules import SpatialMean

__all__ = [
    "AtNative",
    "Conversion",
    "Detailed",
    "Entry",
    "Place",
    "Report",
    "SpatialMean",
    "anchor",
    "at_native",
    "carry",
    "convert",
    "register_anchor",
]
