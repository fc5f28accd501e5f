"""Softmax attention over samples, each counted as it was in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.extending.families.attention import ATTENTION, keys_and_values


def _attends_to_samples(step: WeightedStep) -> bool:
    """Whether keys are samples of the grid: patches and latent tokens have no measure that could be set."""
    (key, _), dim, _ = keys_and_values(step)
    return step.forms(key)[dim].on_grid


def _attention(step: WeightedStep) -> Any:
    """log(count) is added to the logits of each key, through a mask."""
    (key, _), dim, _ = keys_and_values(step)
    bias = step.counts(key, [dim]).log().to(key.dtype).flatten()  # (N,)
    if step.call.name == "scaled_dot_product_attention":
        given = dict(step.arguments)
        mask = _to_add(given.get("attn_mask"), key, excluded=False)
        given["attn_mask"] = bias.expand(1, -1) if mask is None else mask + bias
        return step.func(**given)
    kwargs = dict(step.kwargs)
    for name in ("key_padding_mask", "attn_mask"):
        if name in kwargs:
            kwargs[name] = _to_add(kwargs[name], key, excluded=True)
    batch = () if key.ndim == 2 else (key.shape[1],)
    mask = kwargs.get("key_padding_mask")
    kwargs["key_padding_mask"] = bias.expand(*batch, -1) if mask is None else mask + bias
    return step.func(*step.args, **kwargs)


def _to_add(mask: Any, key: Tensor, excluded: bool) -> Any:
    """A boolean mask as numbers to add to the logits: −∞ where its value is ``excluded``; others as they are."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return mask
    out = mask if excluded else ~mask
    return torch.zeros(mask.shape, dtype=key.dtype, device=key.device).masked_fill(out, float("-inf"))


register(ATTENTION, SumRow("log(count) is added to the logits of each key", _attends_to_samples, _attention))
