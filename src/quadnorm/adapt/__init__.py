"""Existing models: find what depends on the resolution, fix it without training, or train without it."""

from quadnorm.adapt.anchor import anchor
from quadnorm.adapt.audit import audit
from quadnorm.adapt.auditreport import Audit
from quadnorm.adapt.carry import carry
from quadnorm.adapt.convert import Conversion, convert
from quadnorm.adapt.gridcheck import GridCheck, check_grid
from quadnorm.adapt.native import AtNative, Detailed, at_native
from quadnorm.adapt.registry import Place, register_anchor
from quadnorm.adapt.report import Entry, Report
from quadnorm.adapt.scattered import AtNativePoints
from quadnorm.adapt.torch_modules import SpatialMean

__all__ = [
    "AtNative",
    "AtNativePoints",
    "Audit",
    "Conversion",
    "Detailed",
    "Entry",
    "GridCheck",
    "Place",
    "Report",
    "SpatialMean",
    "anchor",
    "at_native",
    "audit",
    "carry",
    "check_grid",
    "convert",
    "register_anchor",
]
