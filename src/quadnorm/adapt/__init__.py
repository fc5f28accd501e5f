"""Trained models on other grids: find what depends on the resolution, fix it without training, or train without it.

:func:`transfer` is the way to run a trained model on another grid. It is made of three others: :func:`anchor` keeps
the measure of the training grid in every sum, on the new grid's samples; :func:`extend` takes the sums on the training
grid and evaluates the network between its nodes; :func:`at_native` runs on the training grid and interpolates the
output. :func:`audit` tells which parts of a model depend on the grid; :func:`convert` swaps norms, to train anew.

In reading order:

1. ``watch.py`` (with ``patches.py``, ``trees.py``, ``functions.py``): one run of a model, seen call by call.
2. ``layouts.py``, ``probes.py``, ``forms.py``, ``nodes.py``: a model's inputs, how sizes move with the grid, and values
   taken from one grid to another.
3. ``plan.py`` (with ``calls.py``, ``counts.py``): what is known of each call on any grid, from several watched runs.
4. ``operations/``: the table of operations that mix samples, and what anchoring and extension make of each.
5. ``follow.py``, ``steer.py``: runs on other grids in step with a plan.
6. ``extending.py`` (``extended.py``, ``points.py``, ``shards.py``), ``anchoring.py`` (``anchored.py``, ``modules.py``,
   ``drift.py``), ``native.py``: the ways. ``transfer.py`` (``transferred.py``, ``sources.py``,
   ``estimates.py``, ``levels.py``, ``shares.py``): how much of each.
7. ``clouds/``: the ways for models on points. ``shifting.py``, ``shifted.py``, ``shifts.py``: models with stencils
   and patches on shifted grids.
8. ``auditing/``: measures what each module and call does to a change of grid. ``converting/``: swaps norms.
"""

from quadnorm.adapt.anchored import AnchoredCalls
from quadnorm.adapt.anchoring import anchor
from quadnorm.adapt.auditing.audit import audit
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.clouds.anchored import AnchoredPoints
from quadnorm.adapt.clouds.extended import ExtendedPoints
from quadnorm.adapt.clouds.native import AtNativePoints
from quadnorm.adapt.converting.convert import Conversion, convert
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.extending import extend
from quadnorm.adapt.modules import Place, SpatialMean, register_anchor
from quadnorm.adapt.native import AtNative, at_native
from quadnorm.adapt.report import AnchorReport, Entry
from quadnorm.adapt.saved import load_adapted
from quadnorm.adapt.shares import TransferReport
from quadnorm.adapt.shifted import ShiftedRuns
from quadnorm.adapt.shifting import shifted_runs
from quadnorm.adapt.transfer import transfer
from quadnorm.adapt.transferred import Transferred
from quadnorm.adapt.watch import CannotFollowError
from quadnorm.carry.gridcheck import GridCheck, check_grid
from quadnorm.carry.grids import carry

__all__ = [
    "AnchorReport",
    "AnchoredCalls",
    "AnchoredPoints",
    "AtNative",
    "AtNativePoints",
    "Audit",
    "CannotFollowError",
    "Conversion",
    "Entry",
    "Extended",
    "ExtendedPoints",
    "GridCheck",
    "Place",
    "ShiftedRuns",
    "SpatialMean",
    "TransferReport",
    "Transferred",
    "anchor",
    "at_native",
    "audit",
    "carry",
    "check_grid",
    "convert",
    "extend",
    "load_adapted",
    "register_anchor",
    "shifted_runs",
    "transfer",
]
