"""Trained models on other grids: find what depends on the resolution, fix it without training, or train without it.

There are three ways to run a trained model elsewhere. :func:`anchor` keeps the measure of the training grid in every
sum, on the new grid's samples. :func:`extend` takes the sums on the training grid, and evaluates the network between
its nodes. :func:`at_native` runs on the training grid and interpolates the output. :func:`audit` tells which parts of a
model need that, and which way serves; :func:`convert` swaps norms, to train anew.

The rooms, in reading order:

- ``calls/``: sees the calls of a model's forward, and finds out which mix samples. All else is built on it.
- ``extending/``, then ``anchoring/``: each with a table of functions that mix samples, and what to do in their place.
- ``auditing/``: measures what each module and call does to a change of grid. ``converting/``: swaps norms.
- ``native.py``: the way at the training grid.
- ``models.py``, ``placing.py``, ``report.py``: what all rooms need: copies and grids of models, where the samples of
  data lie, and the tables that users read.
"""

from quadnorm.adapt.anchoring.anchor import anchor
from quadnorm.adapt.anchoring.rules.registry import Place, register_anchor
from quadnorm.adapt.anchoring.summing.model import AnchoredCalls
from quadnorm.adapt.anchoring.torch_modules import SpatialMean
from quadnorm.adapt.auditing.audit import audit
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.calls.errors import CannotFollowError
from quadnorm.adapt.converting.convert import Conversion, convert
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
