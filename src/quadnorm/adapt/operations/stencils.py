"""What has no formula between the training nodes (kernels, pools, shifts): its native result is interpolated."""

from __future__ import annotations

from typing import Any

import torch

from quadnorm.adapt.calls import Step
from quadnorm.adapt.operations.base import KINDS, StepRow, register
from quadnorm.adapt.trees import mapped, tensors


def _keep(step: Step) -> Any:
    return mapped(torch.clone, step.result)


def _carried(step: Step) -> Any:
    """The native result, interpolated to the new grid's nodes.

    A result on a grid of its own, such as every second sample, is what the call itself gives. Its values do not matter:
    only a call that mixes samples leads back to the model's grid, and for that one the native result is taken.
    """
    if not step.call.returns_to_grid:
        return step.run()
    forms = iter(step.call.result_forms)
    return mapped(lambda t: step.nodes.carried(t, next(forms)), step.kept)


def _reduced(step: Step) -> Any:
    """A reduction over some of the grid's axes: over the training nodes along these, at the new nodes of the others."""
    lost = step.call.lost_axes
    substitutes = {}
    for t in tensors((step.args, step.kwargs)):
        dims = [dim for dim, form in enumerate(step.forms(t)) if form.on_grid and set(form.axes) <= lost]
        if step.is_live(t) and dims:
            substitutes[id(t)] = step.restricted(t, dims)
    return step.run_with(substitutes)


def _mixes(step: Step) -> bool:
    return KINDS[step.call.name].mixes(step.call)


def picks_waves(step: Step) -> bool:
    """Whether a slice takes a fixed number of waves from a spectrum, which is complex, and leaves the other axes."""
    x = next(iter(tensors((step.args, step.kwargs))))
    kind = KINDS.get(step.call.name)
    if kind is None or kind.family != "slice" or not x.is_complex() or not step.call.result_forms:
        return False
    before, after = (
        {form for form in forms[0] if form.moves} for forms in (step.call.argument_forms, step.call.result_forms)
    )
    return bool(step.call.lost_axes) and after <= before


def _register_families() -> None:
    """A row for every function of these families in the table of those that mix samples."""
    for name, kind in KINDS.items():
        why = f"{kind.why}: its native result is interpolated"
        if kind.family == "reduction":
            why = "reduces over the training grid's nodes"
            row = StepRow("replayed", why, lambda step: bool(step.call.lost_axes), lambda step: None, _reduced)
        elif kind.family == "slice":
            row = StepRow("carried", why, lambda step: _mixes(step) and not picks_waves(step), _keep, _carried)
        elif kind.family in ("kernel", "order"):
            row = StepRow("carried", why, _mixes, _keep, _carried)
        else:
            continue  # norms, products, transforms: the other modules of this room
        register([name], row)


_register_families()
