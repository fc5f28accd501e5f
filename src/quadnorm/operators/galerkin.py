"""The Galerkin Transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm._precision import full_precision, sum_dtype
from quadnorm.measures import Measure, as_measure
from quadnorm.norms import NoNorm
from quadnorm.operators.domain import Measured, checked_placement, sample_weights, spatial_norm
from quadnorm.operators.pointwise import Pointwise, PointwiseMLP, affine
from quadnorm.operators.samples import Samples, samples_of


class GalerkinAttention(Measured):
    r"""Attention without softmax, linear in the number of samples.

    .. math:: G = \sum_j w_j\, \tilde k_j \tilde v_j^\top, \qquad y_j = W_o\,(G^\top \tilde q_j)_{heads} + b_o

    per head, where q, k, v are linear in x, k and v pass a LayerNorm over the head's d channels (token-wise, hence
    neutral to resolution; shared by the heads), and a tilde puts the sample's coordinates in front. Space is summed
    in G only. The counting measure gives the published KᵀV/n.

    y_j is linear in x_j once G is known, so that the query, G and the output map are multiplied together first —
    small matrices — and applied to x in one product.

    Shapes: x (B, C, N), places (1 or B, d, N), weights (1 or B, N) → (B, C, N). Without weights, those of ``measure``
    on a grid of the given ``shape``; without a shape, equal ones. Initially q, k, v are 0.01·(Xavier + I), no bias.
    """

    def __init__(self, width: int, heads: int, dim: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.heads, self.dim = heads, dim
        self.query, self.key, self.value = (Pointwise(width, width) for _ in range(3))
        self.norm_key, self.norm_value = (nn.LayerNorm(width // heads) for _ in range(2))
        self.out = Pointwise(width + heads * dim, width)
        self.measure = "counting"
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As published."""
        for p in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(p.weight, gain=0.01)
            with torch.no_grad():
                p.weight += 0.01 * torch.eye(p.weight.shape[0], device=p.weight.device, dtype=p.weight.dtype)
            assert p.bias is not None
            nn.init.zeros_(p.bias)
        self.out.reset_parameters()
        self.norm_key.reset_parameters()
        self.norm_value.reset_parameters()

    def moments(self, x: Tensor, places: Tensor, weights: Tensor | None) -> Tensor:
        """The matrices G, (B, heads, dim + d, dim + d). Sums over space run in float32 or better."""
        B, C, N = x.shape
        h, d = self.heads, C // self.heads
        weight = torch.cat([self.key.weight, self.value.weight])  # (2C, C)
        bias = torch.cat([self.key.bias, self.value.bias])  # type: ignore[list-item]
        # Samples first here: the LayerNorm runs over neighbouring numbers.
        kv = F.linear(x.transpose(1, 2), weight, bias).view(B, N, 2, h, d)
        exact = sum_dtype(x)
        k = self.norm_key(kv[:, :, 0]).flatten(2).to(exact)  # (B, N, C)
        v = self.norm_value(kv[:, :, 1]).flatten(2).to(exact)
        r = places.expand(B, -1, -1).to(exact)  # (B, dim, N)
        with full_precision(x):
            if weights is None:
                rw, scale = r, 1 / N
            else:
                w = weights.to(exact)
                v, rw, scale = v * w.unsqueeze(-1), r * w.unsqueeze(1), 1.0
            kv = torch.bmm(k.transpose(1, 2), v)  # (B, C, C); only the blocks of equal heads are needed
            kv = torch.stack([kv[:, i * d : i * d + d, i * d : i * d + d] for i in range(h)], 1)  # (B, h, d, d)
            rv = torch.bmm(r, v).view(B, self.dim, h, d).transpose(1, 2)  # (B, h, dim, d)
            kr = torch.bmm(rw, k).view(B, self.dim, h, d).permute(0, 2, 3, 1)  # (B, h, d, dim)
            rr = torch.bmm(rw, r.transpose(1, 2)).unsqueeze(1).expand(-1, h, -1, -1)
            return scale * torch.cat([torch.cat([rr, rv], 3), torch.cat([kr, kv], 3)], 2)

    def forward(
        self,
        x: Tensor,
        places: Tensor,
        weights: Tensor | None = None,
        residual: bool = False,
        shape: tuple[int, ...] | None = None,
    ) -> Tensor:
        """Attention, added to x if ``residual``."""
        B, C, _ = x.shape
        if weights is None and shape is not None:
            weights = sample_weights(self._measure, None, x, shape)
        G = self.moments(x, places, weights).to(x.dtype)
        out = self.out.weight.view(C, self.heads, -1).transpose(0, 1)  # (h, C, dim + d)
        M = out @ G.transpose(2, 3)  # (B, h, C, dim + d), acts on (places, q)
        on_places = M[..., : self.dim].sum(1)  # (B, C, dim)
        on_q = M[..., self.dim :].transpose(1, 2).flatten(2)  # (B, C, h·d)
        on_x = on_q @ self.query.weight
        if residual:
            on_x = on_x + torch.eye(C, device=x.device, dtype=on_x.dtype)
        constant = on_q @ self.query.bias[:, None] + self.out.bias[:, None]  # type: ignore[index]
        y = torch.baddbmm(constant, on_places, places.expand(B, -1, -1))
        return affine(x, on_x, None, onto=y)

    def extra_repr(self) -> str:
        """Heads and measure."""
        return f"heads={self.heads}, measure={self._measure!r}"


class GalerkinTransformer(Measured):
    r"""Galerkin Transformer.

    .. math:: x \leftarrow N(x + \mathrm{Attn}(x, r)), \qquad x \leftarrow N(x + \mathrm{FFN}(x))

    between a linear lift of the input and the coordinates r and a pointwise head width → 128 → C_out; FFN: width →
    2·width → width with GELU. Space is summed in two places: in the attention (:class:`GalerkinAttention`), against
    ``measure``, and in the norms, against theirs. Counting is the published form; its boundary mass on
    endpoint-inclusive grids moves with n. No convolutional down-scaler and no spectral decoder.

    Args:
        in_channels, out_channels: C_in, C_out.
        width, heads, layers: of the blocks.
        norm: see :func:`quadnorm.make_norm`; ``token`` is the stock token-wise LayerNorm. A quadrature norm that names
            no measure takes the operator's; where that is counting, the placement's rule.
        measure: a rule's name or a measure, for the attention.
        norms_per_block: 2, as written above; with 1 the attention's sum has none, x ← x + Attn(x, r): the other reading
            of the paper's "normalization after each block".
        dim: spatial dimension. ``projection``: width of the head. ``placement``: where grid samples lie.

    Shapes: a grid (B, C_in, *spatial) → (B, C_out, *spatial), any resolution. Scattered points: ``model(x,
    coordinates=r, weights=w)`` with x (B, N, C_in), r (N, d) or (B, N, d), w (N,) or (B, N) of any scale, 0 = padding
    → (B, N, C_out). On grids too, ``weights`` take the place of the measure's, and ``mask`` (boolean, (*spatial) or
    (B, *spatial), True where a sample is there) multiplies them; both go to the norms as well, unless ``norm_weights``
    gives those weights of their own (points only). What comes out at absent samples means nothing.

    143,873 parameters (width 64, 4 heads, 4 layers, no affine norms; the paper states none).

    >>> model = GalerkinTransformer(width=16, layers=1, measure="trapezoid", norm="quad")
    >>> model(torch.randn(2, 1, 9, 8)).shape
    torch.Size([2, 1, 9, 8])
    >>> model(torch.randn(2, 30, 1), coordinates=torch.rand(30, 2), weights=torch.rand(30)).shape
    torch.Size([2, 30, 1])
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 64,
        heads: int = 4,
        layers: int = 4,
        norm: Any = "layer",
        measure: str | Sequence[str] | Measure = "counting",
        *,
        norms_per_block: int = 2,
        dim: int = 2,
        projection: int = 128,
        placement: str | Sequence[str] = "endpoint",
    ) -> None:
        super().__init__()
        if norms_per_block not in (1, 2):
            raise ValueError(f"norms_per_block must be 1 or 2, got {norms_per_block!r}")
        placement = checked_placement(placement, dim)
        self.in_channels, self.out_channels, self.dim, self.placement = in_channels, out_channels, dim, placement
        self.lift = Pointwise(in_channels + dim, width)
        self.blocks = nn.ModuleList(
            GalerkinBlock(
                width, heads, dim, partial(spatial_norm, norm, width, as_measure(measure), placement), norms_per_block
            )
            for _ in range(layers)
        )
        self.head = PointwiseMLP(width, projection, out_channels)
        self.measure = measure

    _samples = samples_of  # shards of a grid have their own

    def _sums(self) -> Iterable[Any]:
        return (block.attention for block in self.blocks)

    def forward(
        self, x: Tensor, coordinates: Any = None, weights: Any = None, *, mask: Any = None, norm_weights: Any = None
    ) -> Tensor:
        """See the class."""
        s = self._samples(x, coordinates, weights, mask, norm_weights)
        v = affine(torch.cat([s.values, s.places.expand(x.shape[0], -1, -1)], 1), self.lift.weight, self.lift.bias)
        for block in self.blocks:
            v = block(v, s)
        return s.restore(self.head(v))


class GalerkinBlock(nn.Module):
    """One layer of :class:`GalerkinTransformer`."""

    def __init__(
        self, width: int, heads: int, dim: int, make_norm: Callable[[], nn.Module], norms_per_block: int = 2
    ) -> None:
        super().__init__()
        self.attention = GalerkinAttention(width, heads, dim)
        self.norm1 = make_norm() if norms_per_block == 2 else NoNorm(width)
        self.mlp = PointwiseMLP(width, 2 * width, width)
        self.norm2 = make_norm()

    def forward(self, v: Tensor, s: Samples) -> Tensor:
        """(B, C, N) → (B, C, N)."""
        v = s.normed(self.norm1, self.attention(v, s.places, s.weights, residual=True, shape=s.shape))
        return s.normed(self.norm2, self.mlp(v, onto=v))
