"""Constant fields that meet the samples of another grid: coordinates, learned tables, masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.following.steps import AnyStep, Step
from quadnorm.adapt.calls.functions.names import MEETS
from quadnorm.adapt.calls.grids.forms import Forms, moving
from quadnorm.adapt.calls.trees import tensors


def with_native_fields(step: AnyStep, constants: Mapping[int, Tensor]) -> AnyStep:
    """The call with the native run's values of constants that differ from grid to grid: coordinates j/n, or 1/n."""
    given = tensors((step.args, step.kwargs))
    substitutes = {
        id(given[slot]): step.nodes.carried(native, step.call.argument_forms[slot], wrap=False)
        for slot, native in constants.items()
        if all(form.on_grid for form in step.call.argument_forms[slot] if form.moves)
    }
    return step.exchanged(substitutes)


def run_fitted(step: Step) -> Any:
    """The call itself, its constants brought to the nodes of the live arguments that they meet."""
    substitutes = {}
    for slot, t in enumerate(tensors((step.args, step.kwargs))):
        if step.call.live[slot]:
            continue
        forms = step.call.argument_forms[slot]
        fitted = _at_training_nodes(step, t, forms) if moving(forms) else _at_new_nodes(step, t)
        if fitted is not t:
            substitutes[id(t)] = fitted
    return step.run_with(substitutes) if substitutes else step.run()


def _at_new_nodes(step: Step, t: Tensor) -> Tensor:
    """A field with one value for each training sample, at the new nodes, where it meets samples of the new grid."""
    if step.call.name not in MEETS or t.ndim == 0:
        return t
    given = tensors((step.args, step.kwargs))
    for x, forms, live in zip(given, step.call.argument_forms, step.call.live, strict=True):
        if not live or x.ndim < t.ndim:
            continue
        for dim in range(-t.ndim, 0):
            form = forms[dim]
            native = form.size(step.nodes.native)
            if form.on_grid and t.shape[dim] == native != x.shape[dim] and t.shape[dim] != 1:
                t = step.nodes.carry(t, dim, form)
    return t


def _at_training_nodes(step: Step, t: Tensor, forms: Forms) -> Tensor:
    """A field of the new grid at the training nodes, where a live argument already is there.

    Such as a mask of the whole grid that meets scores against the native run's keys.
    """
    live = [x for x, is_live in zip(tensors((step.args, step.kwargs)), step.call.live, strict=True) if is_live]
    fitted = t
    for dim, form in enumerate(forms):
        native = form.size(step.nodes.native)
        if not form.on_grid or step.nodes.size(form) == native:
            continue
        partners = [x.shape[dim - t.ndim] for x in live if x.ndim >= t.ndim - dim]
        if native in partners and t.shape[dim] == step.nodes.size(form):
            fitted = step.nodes.restrict(fitted, dim, form, wrap=False)
    return fitted
