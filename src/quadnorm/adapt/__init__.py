"""Existing models: find what depends on the resolution, fix it without training, or train without it."""

from quadnorm.adapt.anchoring.anchor import anchor
from quadnorm.adapt.anchoring.registry import Place, register_anchor
from quadnorm.adapt.anchoring.summing.model import AnchoredCalls
from quadnorm.adapt.anchoring.torch_modules import SpatialMean
from quadnorm.adapt.auditing.audit import audit
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.convert import Conversion, convert
from quadnorm.adapt.extending.extend import extend
from quadnorm.adapt.extending.extended import Extended
from quadnorm.adapt.native import AtNative, at_native
from quadnorm.adapt.report import AnchorReport, Entry
from quadnorm.carry.gridcheck import GridCheck, check_grid
from quadnorm.carry.grids import carry
from quadnorm.carry.scattered import AtNativePoints

__all__ = [
    "AnchorReport",
    "AnchoredCalls",
    "AtNative",
    "AtNativePoints",
    "Audit",
    "CannotFollowError",
    "Conversion",
    "Entry",
    "Extended",
    "GridCheck",
    "Place",
    "SpatialMean",
    "anchor",
    "at_native",
    "audit",
    "carry",
    "check_grid",
    "convert",
    "extend",
    "register_anchor",
]
