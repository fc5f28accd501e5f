"""Differences and accumulations over neighbouring samples, which stay in units of the new grid's spacing."""

from __future__ import annotations

from typing import Any

from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.calls.functions.names import ARITHMETIC
from quadnorm.adapt.calls.planning.mixing import KINDS
from quadnorm.adapt.calls.trees import tensors
from quadnorm.adapt.extending.families.interpolated import picks_waves

_TAG = "_quadnorm_spaced"
# What leaves a difference one: (x[2:] - x[:-2]) / (2 * dx), padded or written into place.
_KEEPS = ARITHMETIC | {"setitem", "pad", "cat", "stack", "neg", "getitem", "square", "unsqueeze", "squeeze"}


class SpacedTensors:
    """The tensors of a run that hold differences or running sums of samples.

    A model divides these by its spacing, dx = 1/(n − 1), or by n. Where a sum is anchored, n is the training grid's;
    here it must be the new grid's, because the samples are.
    """

    def __init__(self) -> None:
        self.token = object()

    def among(self, *values: Any) -> bool:
        """Whether one of them is among the tensors in nested arguments."""
        return any(getattr(t, _TAG, None) is self.token for t in tensors(values))

    def note(self, step: WeightedStep, result: Any, summed: bool) -> None:
        """Mark what a call returned, or wrote into, if it is one; ``summed``: the call was an anchored sum."""
        if not self._gives_spaced(step, summed):
            return
        written = step.args[:1] if step.call.inplace else ()
        for t in tensors((result, written)):
            setattr(t, _TAG, self.token)

    def _gives_spaced(self, step: WeightedStep, summed: bool) -> bool:
        name = step.call.name
        if name in _KEEPS and self.among(step.args, step.kwargs):
            return True
        kind = KINDS.get(name)
        by_neighbours = kind is not None and kind.family in ("order", "slice") and kind.mixes(step.call)
        return by_neighbours and not summed and not picks_waves(step) and not _is_complex(step)


def _is_complex(step: WeightedStep) -> bool:
    return any(t.is_complex() for t in tensors((step.args, step.kwargs)))
