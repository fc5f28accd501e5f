"""neuraloperator's padding by a share of the samples, kept at its length in space."""

from __future__ import annotations

from typing import Any

from neuralop.layers import padding
from neuralop.utils import validate_scaling_factor
from torch import Tensor
from torch.nn import functional as F

from quadnorm.adapt.anchoring.rules.registry import RULES, Outcome, Place, anchored
from quadnorm.adapt.anchoring.torch_modules import change_class
from quadnorm.measures.base import Shape
from quadnorm.measures.padded import PaddedAxis


class AnchoredDomainPadding(padding.DomainPadding):
    """neuraloperator's ``DomainPadding``, which pads round(p·n) samples on both sides of every axis.

    On another grid it pads the length in space that the training grid had, to the nearest sample, so that the padded
    domain is that of training (:class:`quadnorm.measures.padded.PaddedAxis`).
    """

    native: Shape
    placements: tuple[str, ...]

    def pad(self, x: Tensor, verbose: bool = False) -> Tensor:
        sizes = tuple(x.shape[2:])
        if sizes == self.native:
            y: Tensor = super().pad(x, verbose)
            return y
        shares = self.domain_padding
        shares = [float(shares)] * len(sizes) if isinstance(shares, (int, float)) else list(shares)
        factors = self.resolution_scaling_factor
        if not isinstance(factors, list):
            factors = validate_scaling_factor(factors, len(sizes), n_layers=None)
        pads: list[int] = []
        cut = []
        for k, (n, n0, placement, share) in enumerate(zip(sizes, self.native, self.placements, shares, strict=True)):
            first, last = PaddedAxis(placement, n0, round(share * n0), round(share * n0)).padding(n)
            pads = [first, last, *pads]
            start = round(factors[k] * first)
            cut.append(slice(start, start + round(factors[k] * n)))
        y = F.pad(x, pads)
        shape = [round(f * m) for f, m in zip(factors, y.shape[2:], strict=True)]
        self._unpad_indices[f"{shape}"] = (Ellipsis, *cut)
        return y


def padding_rule(module: Any, place: Place) -> Outcome:
    """Anchor ``DomainPadding``."""
    share = module.domain_padding
    change_class(module, AnchoredDomainPadding)
    module.native, module.placements = place.resolution, place.placements
    return anchored(module, f"padding by round({share}·n) samples → by the training grid's length in space")


RULES[padding.DomainPadding] = padding_rule
