"""neuraloperator's norms under the measure of the training grid."""

from __future__ import annotations

from typing import Any

import torch
from neuralop.layers import normalization_layers
from torch import Tensor

from quadnorm.adapt.anchoring.rules.registry import RULES, STILL, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.anchoring.torch_modules import change_class, counts, weights_of
from quadnorm.measures import Anchored
from quadnorm.norms.kernels.core import normalize


class AnchoredInstanceNorm(normalization_layers.InstanceNorm):
    """neuraloperator's ``InstanceNorm`` under ``measure``."""

    measure: Anchored

    def forward(self, x: Tensor) -> Tensor:
        spatial = tuple(x.shape[2:])
        if counts(self.measure, spatial):
            y: Tensor = super().forward(x)
            return y
        options = self.kwargs
        w = weights_of(self.measure, spatial, x)
        return normalize(x, w, options.get("weight"), options.get("bias"), x.shape[1], options.get("eps", 1e-5))


class AnchoredAdaIN(normalization_layers.AdaIN):
    """neuraloperator's ``AdaIN`` under ``measure``."""

    measure: Anchored

    def forward(self, x: Tensor) -> Tensor:
        spatial = tuple(x.shape[2:])
        if counts(self.measure, spatial) or self.embedding is None:
            y: Tensor = super().forward(x)
            return y
        weight, bias = torch.split(self.mlp(self.embedding), self.in_channels, dim=0)
        return normalize(x, weights_of(self.measure, spatial, x), weight, bias, self.in_channels, self.eps)


def norm_rule(module: Any, place: Place) -> Outcome:
    """Anchor ``InstanceNorm`` and ``AdaIN``."""
    if not place.moves:
        return unchanged(STILL)
    if isinstance(module, normalization_layers.InstanceNorm):
        if module.kwargs.get("running_mean") is not None or not module.kwargs.get("use_input_stats", True):
            return left("uses given statistics, no spatial sum")
        change_class(module, AnchoredInstanceNorm)
    else:
        change_class(module, AnchoredAdaIN)
    module.measure = place.measure
    return anchored(module, "counting → anchored")


RULES[normalization_layers.InstanceNorm] = norm_rule
RULES[normalization_layers.AdaIN] = norm_rule
