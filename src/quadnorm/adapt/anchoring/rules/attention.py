"""Softmax attention over the samples of a grid, under an anchored measure."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.anchoring.rules.registry import INTEGRAL, RULES, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.anchoring.running_grid import RunningGrid, grid_of_row
from quadnorm.adapt.anchoring.torch_modules import change_class
from quadnorm.measures import Anchored


class AnchoredMultiheadAttention(nn.MultiheadAttention):
    r"""``nn.MultiheadAttention`` whose sums over keys run against ``measure``.

    .. math:: y_i = \sum_j p_{ij} v_j, \qquad p_{ij} = \frac{w_j e^{q_i \cdot k_j}}{\sum_l w_l e^{q_i \cdot k_l}}

    which is the published layer with log(n₀ w_j) added to the logits of key j; on the n₀ training samples that is 0.
    Keys that the layer adds by itself (``add_bias_kv``, ``add_zero_attn``) keep the share of one training sample.
    """

    measure: Anchored
    running_grid: RunningGrid | None = None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        tokens = key.shape[1] if self.batch_first and key.ndim == 3 else key.shape[0]
        grid = grid_of_row(self.measure, (tokens,), self.running_grid)
        if torch.compiler.is_compiling() or not self.measure.flat(grid):
            w = self.measure.shared_weights(grid, key.device, torch.float64).flatten()
            bias = torch.log(w * prod(self.measure.anchor)).to(query.dtype)
            batch = () if key.ndim == 2 else (key.shape[0 if self.batch_first else 1],)
            mask = _added(key_padding_mask, query.dtype)
            key_padding_mask = bias.expand(*batch, -1) if mask is None else mask + bias
            attn_mask = _added(attn_mask, query.dtype)  # both masks must be of one kind
        return super().forward(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )


def _added(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The mask as numbers to add to the logits: −∞ where a boolean mask is True, that is, where no key is."""
    if mask is None or mask.is_floating_point():
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))


def _make_visible(module: nn.Module, args: Any) -> None:
    """A hook that does nothing: PyTorch's encoder layers skip their attention's forward if nobody watches it."""


def attention_rule(module: Any, place: Place) -> Outcome:
    """``nn.MultiheadAttention`` if its keys are the samples of the grid."""
    if not place.inputs:
        return left(
            "softmax attention counts tokens; whether they are the grid's samples shows in a run: pass example="
        )
    axis = 1 if module.batch_first else 0
    counted = {shapes[1][axis if len(shapes[1]) == 3 else 0] for shapes in place.inputs if len(shapes) > 1}
    samples = prod(place.resolution)
    if counted != {samples}:
        numbers = " and ".join(map(str, sorted(counted))) or "unknown"
        return left(
            f"softmax attention counts tokens, {numbers} of them in training, which are not the {samples} samples of "
            "the grid; which measure they carry is not clear"
        )
    if not place.moves:
        return unchanged(INTEGRAL)
    change_class(module, AnchoredMultiheadAttention)
    module.measure = Anchored(place.resolution, place.placements)
    module.register_forward_pre_hook(_make_visible)
    return anchored(module, "counting → anchored: log(n₀ w) is added to the logits of each key")


RULES[nn.MultiheadAttention] = attention_rule
