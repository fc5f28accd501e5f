"""Norms over samples, each counted as it was in training."""

from __future__ import annotations

from torch import Tensor

from quadnorm.adapt.anchoring.summing.reductions import mean_square, moments
from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.extending.families import norms


def _grouped(step: WeightedStep) -> Tensor:
    """Group and instance norm."""
    given = step.arguments
    x, groups = given["input"], norms.channel_groups(step)
    v, m = moments(step, x, list(range(2, x.ndim)), 0)
    if groups is not None and groups != x.shape[1]:  # the variance of a group: within its channels and between them
        m_g, square = (
            t.reshape(t.shape[0], groups, -1, *t.shape[2:]).mean(2, keepdim=True) for t in (m, v + m.square())
        )
        v_g = (square - m_g.square()).clamp_min(0)
        m, v = (t.expand(-1, -1, x.shape[1] // groups, *[1] * (x.ndim - 2)).flatten(1, 2) for t in (m_g, v_g))
    weight, bias = (norms.per_channel(given.get(name), x) for name in ("weight", "bias"))
    return norms.scaled(x, (m, v), given.get("eps", 1e-5), weight, bias)


def _trailing(step: WeightedStep) -> Tensor:
    """Layer norm and RMS norm."""
    x, dims = step.arguments["input"], norms.trailing_dims(step)
    if norms.is_centred(step):
        v, m = moments(step, x, dims, 0)
    else:
        m, v = x.new_zeros(()), mean_square(step, x, dims)
    return norms.scaled(x, (m, v), *norms.trailing_parameters(step))


register(
    ["group_norm", "instance_norm"],
    SumRow("counting → anchored", norms.over_space, _grouped),
)
register(
    ["layer_norm", "rms_norm"],
    SumRow("counting → anchored", norms.trailing_moves, _trailing),
)
