"""Modules that own a measure: norms, spectral convolutions, attention and operators of this package, and users' own."""

from __future__ import annotations

from typing import Any

from quadnorm.adapt.anchoring.rules.registry import STILL, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.report import size_text
from quadnorm.measures import Anchored, Blend, Grid, Measure
from quadnorm.measures.axes import RuleAxis
from quadnorm.operators import SpectralConv

COUNTING = Grid("counting")


def anchored_measure(measure: Measure, place: Place) -> Measure | Outcome:
    """What a module's measure becomes, with the same weights at the training resolution; or why it is left."""
    if measure == COUNTING:
        return place.measure
    if isinstance(measure, Anchored):
        if measure == place.measure:
            return measure
        return left(f"is anchored already, at {size_text(measure.anchor)}")
    if isinstance(measure, Blend):
        if measure.counting is not None:
            return left("is anchored already")
        return _misplaced(measure.quadrature, place) or Blend(measure.alpha, measure.quadrature, place.measure)
    if isinstance(measure, Grid):
        return _misplaced(measure, place) or measure
    return left(f"{measure!r} belongs to one discretization; set the module's measure for each new one")


def _misplaced(measure: Measure, place: Place) -> Outcome | None:
    """The outcome for a rule whose nodes are not where the samples are; None if they are."""
    if not isinstance(measure, Grid):
        return None
    for k, (axis, at) in enumerate(zip(measure.axes(len(place.placements)), place.placements, strict=True)):
        if isinstance(axis, RuleAxis) and axis.rule.placement not in (at, {"left": "periodic"}.get(at)):
            return left(
                f"{axis.rule.name} weights belong to {axis.rule.placement} samples, but axis {k} has {at} samples; "
                f"the rule is wrong there and was left as trained"
            )
    return None


def own_measure(module: Any, place: Place) -> Outcome:
    """Norms, spectral convolutions, attention, operators: whatever has a ``measure`` that can be set."""
    before: Measure = module.measure
    after = anchored_measure(before, place)
    if isinstance(after, Outcome):
        return after
    if not place.moves and before == COUNTING:
        return unchanged(STILL)
    if after == before:
        what = "already anchored there" if isinstance(before, Anchored) else "a quadrature already"
        return unchanged(f"{before!r} is {what}; it does not move with the resolution beyond O(h²)")
    if isinstance(module, SpectralConv) and module.kernel == "quadrature" and module.period is None:
        module.period = (1.0,) * len(module.modes.kept)  # an anchored measure would bring the FFT's period along
    module.measure = after
    return anchored(module, f"{before!r} → {after!r}")
