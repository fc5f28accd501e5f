"""Matrix products and attention over samples, each sample counted as it was in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.anchoring.summing.weights import Weighted, nothing, register
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.functions.products import PRODUCTS
from quadnorm.adapt.extending import products


def _sums(step: Step) -> bool:
    p = products._product(step)
    return p is not None and products._sums(step, p) and all(step.moving(t) for t in p.operands)


def _product(step: Step) -> Any:
    assert isinstance(step, Weighted)
    p = products._product(step)
    assert p is not None
    t, dims = p.operands[1], [d for d in p.summed[1] if step.forms(p.operands[1])[d].moves]
    counts = step.counts(t, dims)
    return step.run_with({id(t): (t * counts).to(t.dtype)}) if p.operands[0] is not t else _square(step, t, counts)


def _square(step: Step, t: Tensor, counts: Tensor) -> Any:
    """x.T @ x of one tensor: weigh the second place only."""
    args = list(step.args)
    places = [k for k, a in enumerate(args) if a is t]
    args[places[-1]] = (t * counts).to(t.dtype)
    return step.func(*args, **step.kwargs)


register(
    PRODUCTS, StepRow("anchored", "samples are counted as in training in the sum over them", _sums, nothing, _product)
)


def _attends_to_samples(step: Step) -> bool:
    """Whether keys are samples of the grid: patches and latent tokens have no measure that could be set."""
    (key, _), dim, _ = products._attended(step)
    return step.forms(key)[dim].on_grid


def _attention(step: Step) -> Any:
    """log(count) is added to the logits of each key."""
    assert isinstance(step, Weighted)
    (key, _), dim, _ = products._attended(step)
    bias = step.counts(key, [dim]).log().to(key.dtype).flatten()  # (N,)
    if step.call.name == "scaled_dot_product_attention":
        g = dict(step.given)
        mask = g.get("attn_mask")
        if isinstance(mask, Tensor) and mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=key.dtype, device=key.device).masked_fill(~mask, float("-inf"))
        g["attn_mask"] = bias.expand(1, -1) if mask is None else mask + bias
        return step.func(**g)
    kwargs = dict(step.kwargs)
    batch = () if key.ndim == 2 else (key.shape[1],)
    for name in ("key_padding_mask", "attn_mask"):
        m = kwargs.get(name)
        if isinstance(m, Tensor) and m.dtype == torch.bool:
            kwargs[name] = torch.zeros(m.shape, dtype=key.dtype, device=key.device).masked_fill(m, float("-inf"))
    mask = kwargs.get("key_padding_mask")
    kwargs["key_padding_mask"] = bias.expand(*batch, -1) if mask is None else mask + bias
    return step.func(*step.args, **kwargs)


register(
    "scaled_dot_product_attention multi_head_attention_forward",
    StepRow("anchored", "log(count) is added to the logits of each key", _attends_to_samples, nothing, _attention),
)
