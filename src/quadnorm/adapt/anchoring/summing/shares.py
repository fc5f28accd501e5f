"""Softmax and ``F.normalize`` over samples, each counted as it was in training."""

from __future__ import annotations

from typing import Any

import torch

from quadnorm._precision import sum_dtype
from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.extending.families import shares


def _share(step: WeightedStep) -> Any:
    """X divided by its sum over samples, each counted as in training.

    The values alone: whoever sums them next counts the samples again.
    """
    x, dim, name = step.arguments["input"], shares.shared_dim(step), step.call.name
    counts = step.counts(x, [dim])
    if name == "normalize":
        p = step.arguments.get("p", 2.0)
        total = ((x.abs() ** p) * counts).sum(dim, keepdim=True).pow(1 / p)
        return x / total.clamp_min(step.arguments.get("eps", 1e-12)).to(x.dtype)
    y = (-x if name == "softmin" else x).to(sum_dtype(x))  # rounded once, at the end, as by torch
    y = y - torch.logsumexp(y + counts.log(), dim, keepdim=True).to(y.dtype)
    return (y if name == "log_softmax" else y.exp()).to(step.arguments.get("dtype") or x.dtype)


register(
    ["softmax", "log_softmax", "softmin", "normalize"],
    SumRow("its total counts samples as in training", shares.along_space, _share),
)
