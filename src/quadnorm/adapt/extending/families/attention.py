"""Softmax attention over samples: the native run's keys and values."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.extending.families.table import StepRow, register

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
