"""Trained models on other grids: find what depends on the resolution, fix it without training, or train without it.

:func:`transfer` is the way to run a trained model on another grid. It is made of three others: :func:`anchor` keeps
the measure of the training grid in every sum, on the new grid's samples; :func:`extend` takes the sums on the training
grid and evaluates the network between its nodes; :func:`at_native` runs on the training grid and interpolates the
output. :func:`audit` tells which parts of a model depend on the grid; :func:`convert` swaps norms, to train anew.

In reading order:

1. ``watching/``: one run of a model, seen call by call; its inputs, how sizes move with the grid, and values taken from
   one grid to another.
2. ``operations/``: the table of operations that mix samples, and what anchoring and extension make of each.
3. ``planning/``: what is known of each call on any grid, from several watched runs; runs in step with this plan.
4. ``graphs/``: such a run as a plain graph, and the graphs of a model. ``adapted.py`` is the module that calls them,
   makes the module of one grid, and saves how the model was adapted; ``saved.py`` reads that.
5. The ways: ``anchoring.py`` (``anchored.py``, ``modules.py``, ``drift.py``), ``extending.py`` (``extended.py``,
   ``shards.py``; for models with stencils and patches ``shifting.py``, ``shifted.py``, ``shifts.py``), ``native.py``.
6. ``transfer.py`` (``transferred.py``, ``sources.py``, ``estimates.py``, ``levels.py``, ``shares.py``): how much of
   each.
7. ``clouds/``: the ways for models on points. ``auditing/``: measures what each module and call does to a change of
   grid. ``converting.py``: swaps norms, to train anew.
"""

from quadnorm.adapt.anchored import AnchoredCalls
from quadnorm.adapt.anchoring import anchor
from quadnorm.adapt.auditing.audit import audit
from quadnorm.adapt.auditing.report import Audit
from quadnorm.adapt.clouds.anchored import AnchoredPoints
from quadnorm.adapt.clouds.extended import ExtendedPoints
from quadnorm.adapt.clouds.native import AtNativePoints
from quadnorm.adapt.converting import Conversion, convert
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
from quadnorm.adapt.watching.watch import CannotFollowError
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
