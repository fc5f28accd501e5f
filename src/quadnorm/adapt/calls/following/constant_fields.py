"""Constant fields that meet the samples: coordinates, learned tables, masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.functions.names import MEETS
from quadnorm.adapt.calls.grids.forms import moving
from quadnorm.adapt.calls.trees import tensors


def with_native_fields(step: Step, constants: Mapping[int, Tensor]) -> Step:
    """The call with the native run's values of constants that differ from grid to grid: coordinates j/n, or 1/n."""
    given = tensors((step.args, step.kwargs))
    replaced = {
        id(given[slot]): step.nodes.carried(native, step.call.given[slot], wrap=False)
        for slot, native in constants.items()
        if _carries(step, slot)
    }
    return step.exchanged(replaced)


def _carries(step: Step, slot: int) -> bool:
    return all(f.on_grid for f in step.call.given[slot] if f.moves)


def _learned(step: Step, t: Tensor) -> Tensor:
    """A field with one value for each training sample, at the new nodes, where it meets samples of the new grid."""
    if step.call.name not in MEETS or t.ndim == 0:
        return t
    given = tensors((step.args, step.kwargs))
    for x, forms, live in zip(given, step.call.given, step.call.live, strict=True):
        if not live or x.ndim < t.ndim:
            continue
        for back in range(-t.ndim, 0):
            f = forms[back]
            if f.on_grid and t.shape[back] == f.size(step.nodes.native) != x.shape[back] and t.shape[back] != 1:
                t = step.nodes.carry(t, back, f)
    return t


def run_fitted(step: Step) -> Any:
    """The call itself, with constants brought to the training nodes where a live argument already is (scores against
    native keys meet a mask of the whole grid)."""
    given = tensors((step.args, step.kwargs))
    live = [t for t, a in zip(given, step.call.live, strict=True) if a]
    replaced = {}
    for slot, t in enumerate(given):
        forms = step.call.given[slot]
        if step.call.live[slot]:
            continue
        if not moving(forms):
            y = _learned(step, t)
            if y is not t:
                replaced[id(t)] = y
            continue
        y = t
        for dim, f in enumerate(forms):
            if not f.on_grid or step.nodes.size(f) == f.size(step.nodes.native):
                continue
            back = dim - t.ndim
            partners = [x.shape[back] for x in live if x.ndim >= -back]
            if partners and f.size(step.nodes.native) in partners and t.shape[dim] == step.nodes.size(f):
                y = step.nodes.restrict(y, dim, f, wrap=False)
        if y is not t:
            replaced[id(t)] = y
    return step.run_with(replaced) if replaced else step.run()
