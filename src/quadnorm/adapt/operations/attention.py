"""Softmax attention over samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.calls import Step, WeightedStep
from quadnorm.adapt.operations.base import StepRow, SumRow, register, register_sum

ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward")


def keys_and_values(step: Step) -> tuple[list[Tensor], int, Tensor | None]:
    """Key and value, the dimension of their samples, and a mask."""
    if step.call.name == "scaled_dot_product_attention":
        given = step.arguments
        return [given["key"], given["value"]], given["key"].ndim - 2, given.get("attn_mask")
    key, value = step.args[1:3] if len(step.args) > 2 else (step.kwargs["key"], step.kwargs["value"])
    return [key, value], 0, None


def _attention_mixes(step: Step) -> bool:
    (key, _), dim, _ = keys_and_values(step)
    return step.forms(key)[dim].moves


def _keep_attention(step: Step) -> Any:
    pair, dim, _ = keys_and_values(step)
    return [t.clone() if step.moving(t) == [dim] else None for t in pair]


def _replay_attention(step: Step) -> Any:
    pair, dim, mask = keys_and_values(step)
    native = [k if k is not None else step.restricted(t, [dim]) for k, t in zip(step.kept, pair, strict=True)]
    if step.call.name == "scaled_dot_product_attention":
        given = {**step.arguments, "key": native[0], "value": native[1]}
        if isinstance(mask, Tensor) and mask.shape[-1] != 1:
            given["attn_mask"] = step.restricted(mask, [mask.ndim - 1])
        return step.func(**given)
    if len(step.args) > 2:
        args = (step.args[0], *native, *step.args[3:])
        return step.func(*args, **step.kwargs)
    return step.func(*step.args, **{**step.kwargs, "key": native[0], "value": native[1]})


register(
    ATTENTION,
    StepRow(
        "replayed", "attends to the native run's keys and values", _attention_mixes, _keep_attention, _replay_attention
    ),
)


def _attends_to_samples(step: WeightedStep) -> bool:
    """Whether keys are samples of the grid: patches and latent tokens have no measure that could be set."""
    (key, _), dim, _ = keys_and_values(step)
    return step.forms(key)[dim].on_grid


def _anchor_attention(step: WeightedStep) -> Any:
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


register_sum(ATTENTION, SumRow("log(count) is added to the logits of each key", _attends_to_samples, _anchor_attention))
