"""Transolver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import full_precision, sum_dtype
from quadnorm._suggest import unknown
from quadnorm._tensors import is_plain
from quadnorm.measures import Measure, as_measure
from quadnorm.operators.domain import (
    Measured,
    checked_placement,
    counting,
    present,
    sample_weights,
    spatial_norm,
    training_count,
)
from quadnorm.operators.pointwise import Pointwise, PointwiseMLP, affine
from quadnorm.operators.samples import Samples, samples_of

PRESETS: dict[str, dict[str, int]] = {
    "standard": {"width": 64, "layers": 6},
    "large": {"width": 128, "layers": 8},
    "xl": {"width": 256, "layers": 12},
}


def slice_sums(x: Tensor, s: Tensor) -> Tensor:
    """Σ_j s_gj x_cj for x (B, C, N) and s (B, G, N), (B, G, C)."""
    if not is_plain(x, s):
        return torch.bmm(s, x.transpose(1, 2))
    sums: Tensor = _SliceSums.apply(x, s)
    return sums


class _SliceSums(torch.autograd.Function):
    """Both derivatives as fields of contiguous rows. A plain product would give one of them, (B, N, ·), transposed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, s: Tensor) -> Tensor:
        ctx.save_for_backward(x, s)
        return torch.bmm(s, x.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, s = ctx.saved_tensors
        with full_precision(x):  # a backward pass may run under autocast
            return g.transpose(1, 2) @ s, g @ x


class SliceAttention(Measured):
    r"""Attention among a few slices of the field, linear in the number of samples.

    .. math::
        s_j = \mathrm{softmax}\bigl((W_s x_j + b_s)/\tau\bigr) \in R^G, \qquad
        t_g = \frac{\sum_j w_j s_{jg} x_j}{\sum_j w_j s_{jg} + \varepsilon}, \qquad
        y_j = \sum_g s_{jg}\, \mathrm{MHA}(t)_g

    Space is summed in t only. The counting measure gives the published Σ s x/(Σ s + 10⁻⁵). With weights that sum to 1
    that ε is 10⁻⁵ divided by the number of samples: n under counting, n₀ under Anchored(n₀), and 1000 under any other
    measure, so that ε does not move with the grid.

    τ = 0.5; with ``learn_temperature`` it is a parameter.

    Shapes: x (B, C, N), weights (1 or B, N) → (B, C, N), plus ``onto`` if given. Without weights, those of ``measure``
    on a grid of the given ``shape``; without a shape, equal ones.
    """

    def __init__(self, width: int, heads: int, slices: int, learn_temperature: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.heads = heads
        self.slice = Pointwise(width, slices)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.temperature = nn.Parameter(torch.tensor(0.5)) if learn_temperature else 0.5
        self.measure = "counting"
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Truncated normal of width 0.02, orthogonal slices, no biases."""
        for m in (self.query, self.key, self.value, self.out):
            nn.init.trunc_normal_(m.weight, std=0.02)
            nn.init.zeros_(m.bias)
        nn.init.orthogonal_(self.slice.weight)
        assert self.slice.bias is not None
        nn.init.zeros_(self.slice.bias)

    def tokens(self, x: Tensor, s: Tensor, weights: Tensor | None, ndim: int) -> Tensor:
        """Averages t of the slices, (B, G, C), for slice weights s (B, G, N). Sums run in float32 or better."""
        exact = sum_dtype(x)
        s = s.to(exact)
        ws = s / s.shape[2] if weights is None else s * weights.to(exact).unsqueeze(1)
        count: Tensor | float
        if weights is None or counting(self._measure):
            count = present(weights, s.shape[2])
        else:
            count = float(training_count(self._measure, ndim) or 1000)
        with full_precision(x):
            total = slice_sums(x.to(exact), ws)
        return (total / (ws.sum(2, keepdim=True) + 1e-5 / count)).to(x.dtype)

    def attend(self, t: Tensor) -> Tensor:
        """Multi-head attention among the slices, (B, G, C) → (B, G, C)."""
        B, G, C = t.shape
        d = C // self.heads
        q, k, v = (f(t).view(B, G, self.heads, d).transpose(1, 2) for f in (self.query, self.key, self.value))
        # Written out: a handful of slices needs no fused kernel, and those have no second or forward derivative.
        among = torch.softmax(q @ k.transpose(2, 3) / sqrt(d), 3)  # (B, heads, G, G)
        y: Tensor = self.out((among @ v).transpose(1, 2).reshape(B, G, C))
        return y

    def forward(
        self,
        x: Tensor,
        weights: Tensor | None = None,
        onto: Tensor | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:
        """The attention's output, added to ``onto`` if given."""
        if weights is None and shape is not None:
            weights = sample_weights(self._measure, None, x, shape)
        # The temperature divides the small matrix, not the field.
        assert self.slice.bias is not None
        weight, bias = self.slice.weight / self.temperature, self.slice.bias / self.temperature
        s = torch.softmax(affine(x, weight, bias), 1)  # (B, G, N)
        t = self.attend(self.tokens(x, s, weights, 1 if shape is None else len(shape)))
        return affine(s, t.transpose(1, 2), None, onto)

    def extra_repr(self) -> str:
        """Heads and measure."""
        return f"heads={self.heads}, slices={self.slice.weight.shape[0]}, measure={self._measure!r}"


class Transolver(Measured):
    r"""Transolver, sized as in the paper.

    .. math:: x \leftarrow x + \mathrm{Slice}(N(x)), \qquad x \leftarrow x + \mathrm{MLP}(N(x))

    between a lift (input, coordinates) → width → width and a linear head; MLP: width → 4·width → width, GELU. Space
    is summed in two places: in the slices (:class:`SliceAttention`), against ``measure``, and in the norms, against
    theirs. Counting is the published form; its boundary mass on endpoint-inclusive grids moves with n.

    The stock Transolver does not have the paper's parameter counts. This form does — slices shared by the heads and
    made from x itself, full-width query, key, value and output maps among the slices, a constant temperature, a lift
    of two layers: 307,505 (width 64, 6 layers), 1,611,585 (128, 8) and 9,568,865 (256, 12) with affine norms; the
    paper says 307K, 1.6M, 9.6M.

    Args:
        in_channels, out_channels: C_in, C_out.
        width, heads, layers, slices: of the blocks.
        norm: see :func:`quadnorm.make_norm`; ``token`` is the stock token-wise LayerNorm. A quadrature norm that names
            no measure takes the operator's; where that is counting, the placement's rule.
        measure: a rule's name or a measure, for the slices.
        dim: spatial dimension. ``placement``: where grid samples lie. ``learn_temperature``: see
            :class:`SliceAttention`.

    Shapes: grids and scattered points as for :class:`quadnorm.operators.GalerkinTransformer`.

    >>> model = Transolver(width=16, layers=1, measure="trapezoid", norm="quad")
    >>> model(torch.randn(2, 1, 9, 8)).shape
    torch.Size([2, 1, 9, 8])
    >>> Transolver.preset("large", norm="token").blocks[0].attention.query.in_features
    128
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 64,
        heads: int = 4,
        layers: int = 6,
        slices: int = 8,
        norm: Any = "layer",
        measure: str | Sequence[str] | Measure = "counting",
        *,
        dim: int = 2,
        placement: str | Sequence[str] = "endpoint",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__()
        placement = checked_placement(placement, dim)
        self.in_channels, self.out_channels, self.dim, self.placement = in_channels, out_channels, dim, placement
        self.lift = PointwiseMLP(in_channels + dim, width, width)
        self.blocks = nn.ModuleList(
            TransolverBlock(
                width,
                heads,
                slices,
                partial(spatial_norm, norm, width, as_measure(measure), placement),
                learn_temperature,
            )
            for _ in range(layers)
        )
        self.head = Pointwise(width, out_channels)
        for m in self.modules():
            if isinstance(m, PointwiseMLP):
                for p in (m.first, m.second):
                    nn.init.trunc_normal_(p.weight, std=0.02)
                    nn.init.zeros_(p.bias)  # type: ignore[arg-type]
        nn.init.trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]
        self.measure = measure

    @classmethod
    def preset(cls, name: str, **options: Any) -> Transolver:
        """``standard`` (64/6), ``large`` (128/8), ``xl`` (256/12): the paper's sizes; ``options`` as for the class."""
        if name not in PRESETS:
            raise ValueError(unknown("preset", name, PRESETS))
        return cls(**{**PRESETS[name], **options})

    _samples = samples_of  # shards of a grid have their own

    def _sums(self) -> Iterable[Any]:
        return (block.attention for block in self.blocks)

    def forward(
        self, x: Tensor, coordinates: Any = None, weights: Any = None, *, mask: Any = None, norm_weights: Any = None
    ) -> Tensor:
        """See the class."""
        s = self._samples(x, coordinates, weights, mask, norm_weights)
        v = self.lift(torch.cat([s.values, s.places.expand(x.shape[0], -1, -1)], 1))
        for block in self.blocks:
            v = block(v, s)
        return s.restore(affine(v, self.head.weight, self.head.bias))


class TransolverBlock(nn.Module):
    """One layer of :class:`Transolver`."""

    def __init__(
        self, width: int, heads: int, slices: int, make_norm: Callable[[], nn.Module], learn_temperature: bool
    ) -> None:
        super().__init__()
        self.norm1 = make_norm()
        self.attention = SliceAttention(width, heads, slices, learn_temperature)
        self.norm2 = make_norm()
        self.mlp = PointwiseMLP(width, 4 * width, width)

    def forward(self, v: Tensor, s: Samples) -> Tensor:
        """(B, C, N) → (B, C, N)."""
        v = self.attention(s.normed(self.norm1, v), s.weights, onto=v, shape=s.shape)
        y: Tensor = self.mlp(s.normed(self.norm2, v), onto=v)
        return y
