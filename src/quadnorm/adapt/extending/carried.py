"""What has no formula between the training nodes: kernels, pools, shifts. The native result is interpolated."""

from __future__ import annotations

from typing import Any

from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.planning.mixing import KINDS
from quadnorm.adapt.calls.trees import mapped, tensors
from quadnorm.adapt.extending.steps import ROWS


def carried(step: Step) -> Any:
    """The native result, interpolated to the new grid's nodes.

    A result on a grid of its own, such as every second sample, is what the call itself gives. Its values do not matter:
    only a call that mixes samples leads back to the model's grid, and for that one the native result is taken.
    """
    forms = step.call.returned
    if not all(f.on_grid for fs in forms for f in fs if f.moves):
        return step.run()
    order = iter(forms)
    return mapped(lambda t: step.nodes.carried(t, next(order)), step.kept)


def _keep(step: Step) -> Any:
    return mapped(lambda t: t.clone(), step.result)


def _reduced(step: Step) -> Any:
    """A reduction over some of the grid's axes: over the training nodes along these, at the new nodes of the others."""
    lost = step.call.lost
    replaced = {}
    for t in tensors((step.args, step.kwargs)):
        forms = step.forms(t)
        dims = [d for d, f in enumerate(forms) if f.on_grid and set(f.axes) <= lost]
        if step.is_live(t) and dims:
            replaced[id(t)] = step.restricted(t, dims)
    return step.run_with(replaced)


def _reduces(step: Step) -> bool:
    return bool(step.call.lost)


def _kernel(step: Step) -> bool:
    return KINDS[step.call.name].mixes(step.call)


def picks_waves(step: Step) -> bool:
    """Whether a slice takes a fixed number of waves from a spectrum, which is complex; the other axes stay as they
    are."""
    x = next(iter(tensors((step.args, step.kwargs))))
    kind = KINDS.get(step.call.name)
    if kind is None or kind.family != "slice" or not x.is_complex() or not step.call.returned:
        return False
    before, after = ({f for f in forms[0] if f.moves} for forms in (step.call.given, step.call.returned))
    return bool(step.call.lost) and after <= before


def _fill() -> None:
    for name, kind in KINDS.items():
        if name in ROWS:
            continue
        if kind.family == "reduction":
            ROWS[name] = StepRow(
                "replayed", "reduces over the training grid's nodes", _reduces, lambda s: None, _reduced
            )
        elif kind.family == "slice":
            why = f"{kind.why}: its native result is interpolated"
            ROWS[name] = StepRow("carried", why, lambda s: _kernel(s) and not picks_waves(s), _keep, carried)
        elif kind.family in ("kernel", "order"):
            ROWS[name] = StepRow("carried", f"{kind.why}: its native result is interpolated", _kernel, _keep, carried)


_fill()
