"""Softmax attention over samples: the native run's keys and values, or each key counted as in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.operations.base import Operation, register
from quadnorm.adapt.report import Reason
from quadnorm.adapt.watching.calls import Step, WeightedStep


class Attention(Operation):
    """``F.scaled_dot_product_attention``."""

    parameters: tuple[str, ...] = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
    reason = Reason.ATTENDED
    extended = Reason.KEEPS_KEYS
    anchored = Reason.LOGITS

    def samples(self, key: Tensor) -> int:
        """The dimension of a key's samples."""
        return key.ndim - 2

    def mixes(self, step: Step) -> bool:
        key = step.arguments["key"]
        return step.forms(key)[self.samples(key)].moves

    def keep(self, step: Step) -> list[Tensor | None]:
        given = step.arguments
        dim = self.samples(given["key"])
        return [t.clone() if step.moving(t) == [dim] else None for t in (given["key"], given["value"])]

    def native(self, step: Step) -> dict[str, Any]:
        """The arguments with the native run's keys and values."""
        given = dict(step.arguments)
        dim = self.samples(given["key"])
        for kept, name in zip(step.kept, ("key", "value"), strict=True):
            given[name] = kept if kept is not None else step.restricted(given[name], [dim])
        return given

    def replay(self, step: Step) -> Any:
        given, mask = self.native(step), step.arguments.get("attn_mask")
        if isinstance(mask, Tensor) and mask.shape[-1] != 1:
            given["attn_mask"] = step.restricted(mask, [mask.ndim - 1])
        return step.func(**given)

    def sums(self, step: WeightedStep) -> bool:
        """Whether keys are samples of the grid: patches and latent tokens have no measure that could be set."""
        key = step.arguments["key"]
        return step.forms(key)[self.samples(key)].on_grid

    def harmless(self, step: Step) -> Reason | None:
        return None if self.mixes(step) else Reason.SAME_TOKENS

    def logits(self, step: WeightedStep) -> Tensor:
        """log(count) of each key, (N,), to be added to its logits."""
        key = step.arguments["key"]
        return step.counts(key, [self.samples(key)]).log().to(key.dtype).flatten()

    def anchor(self, step: WeightedStep) -> Any:
        given, bias = dict(step.arguments), self.logits(step)
        mask = _to_add(given.get("attn_mask"), given["key"], excluded=False)
        given["attn_mask"] = bias.expand(1, -1) if mask is None else mask + bias
        return step.func(**given)


class MultiHeadAttention(Attention):
    """``F.multi_head_attention_forward``, as modules call it: samples come first, masks by keyword."""

    parameters: tuple[str, ...] = ("query", "key", "value")

    def samples(self, key: Tensor) -> int:
        return 0

    def replay(self, step: Step) -> Any:
        return self._called(step, self.native(step))

    def anchor(self, step: WeightedStep) -> Any:
        given, bias = dict(step.arguments), self.logits(step)
        key = given["key"]
        for name in ("key_padding_mask", "attn_mask"):
            if name in given:
                given[name] = _to_add(given[name], key, excluded=True)
        batch = () if key.ndim == 2 else (key.shape[1],)
        mask = given.get("key_padding_mask")
        given["key_padding_mask"] = bias.expand(*batch, -1) if mask is None else mask + bias
        return self._called(step, given)

    def _called(self, step: Step, given: dict[str, Any]) -> Any:
        first = [given.pop(name) for name in self.parameters]
        return step.func(*first, *step.args[3:], **given)


def _to_add(mask: Any, key: Tensor, excluded: bool) -> Any:
    """A boolean mask as numbers to add to the logits: −∞ where its value is ``excluded``; others as they are."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return mask
    out = mask if excluded else ~mask
    return torch.zeros(mask.shape, dtype=key.dtype, device=key.device).masked_fill(out, float("-inf"))


register("scaled_dot_product_attention", Attention())
register("multi_head_attention_forward", MultiHeadAttention())
