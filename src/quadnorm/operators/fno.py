"""The Fourier neural operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import expm1, log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm._precision import sum_dtype
from quadnorm.measures import Measure, as_measure
from quadnorm.operators.chunked import forward_chunked
from quadnorm.operators.domain import (
    Measured,
    checked_placement,
    grid_shape,
    positions,
    sample_weights,
    spatial_norm,
    without_absent,
)
from quadnorm.operators.pointwise import Pointwise, PointwiseMLP, affine
from quadnorm.operators.samples import norm_options
from quadnorm.operators.spectral.convolution import SpectralConv


class FNO(Measured):
    r"""Fourier neural operator.

    .. math::
        v_0 = P\,(a, r), \qquad v_{l+1} = v_l + \sigma\bigl(N(K_l v_l + W_l v_l + b_l)\bigr), \qquad u = Q\,v_L

    with a linear lift P on the input and the coordinates, spectral convolutions K (:class:`SpectralConv`), pointwise
    maps W, a norm N, σ = GELU (none in the last layer by default) and the pointwise head Q: width → 128 → C_out. Space
    is summed in two places: in K, against ``measure``, and in N, against the norm's own measure. Everything else acts
    on single samples.

    Published form: ``kernel="fft"``, ``measure="counting"``. On endpoint-inclusive samples both sums then carry a
    boundary mass 1/n and K a period n/(n−1), so the operator moves with the grid at O(h). Quadrature measures and
    ``Anchored(n0)`` make it move at O(h²); the latter without changing it at n0.

    Args:
        in_channels, out_channels: C_in, C_out.
        width, modes, layers: of the blocks; ``modes`` for every axis or one each.
        dim: spatial dimension, 1 to 3.
        norm: see :func:`quadnorm.make_norm`. A quadrature norm that names no measure (``"quad"``, ``"blend:0.3"``,
            the class QuadNorm) takes the operator's, of whatever kind; where that is counting, the placement's rule.
            Setting ``model.measure`` later moves K alone.
        kernel, measure, period, padding: see :class:`SpectralConv`. ``padding`` is a fraction of the domain: a fixed
            number of cells would depend on the resolution.
        residual: where a block adds its input: ``True`` to its output, as written above; ``"inside"`` under norm and σ,
            v ← σ(N(v + Kv + Wv + b)), the block of the paper's transfer theorem; ``False`` nowhere.
        gain: scale the added term by α₀ √(E‖v‖² / (E‖F(v)‖² + ε)), E the average under ``measure``, with a learned α₀
            ≥ 0 per block, softplus of ``gain``, initially 0.5 (the paper's optional residual gain).
        last_activation: whether the last block has its σ too; the paper says that its blocks have one.
        projection: width of the head.
        placement: where samples lie, ``endpoint``, ``cell``, ``periodic``, ``left`` or ``interior``, for all axes or
            one each; for the coordinates, unless the measure has nodes.

    Shapes: (B, C_in, *spatial) → (B, C_out, *spatial) at any resolution. ``model(x, weights=w)`` with w (*spatial) or
    (B, *spatial), of any scale, takes w for K and for the norms instead of their measures; ``model(x, mask=m)`` with a
    boolean m, True where a sample is there, keeps the measures and leaves the other samples out (what they hold is
    never read, and what comes out there means nothing). Without affine norms width 32, 12 modes, 4
    layers have 1,188,353 parameters, complex ones counted once; width 48 and 8 layers 5,333,825.

    >>> model = FNO(modes=4, width=8, layers=2)
    >>> model(torch.randn(2, 1, 16, 16)).shape, model(torch.randn(2, 1, 33, 20)).shape
    (torch.Size([2, 1, 16, 16]), torch.Size([2, 1, 33, 20]))
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 32,
        modes: int | Sequence[int] = 12,
        layers: int = 4,
        dim: int = 2,
        norm: Any = "layer",
        kernel: str = "fft",
        measure: str | Sequence[str] | Measure = "counting",
        *,
        residual: bool | str = True,
        gain: bool = False,
        last_activation: bool = False,
        padding: float | Sequence[float] = 0.0,
        period: float | Sequence[float] | None = None,
        projection: int = 128,
        placement: str | Sequence[str] = "endpoint",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if isinstance(modes, Sequence) and len(modes) != dim:
            raise ValueError(f"modes={tuple(modes)} has {len(modes)} entries for dim={dim}; give one number per axis")
        if residual not in (True, False, "inside"):
            raise ValueError(f"residual must be True, False or 'inside', got {residual!r}")
        if gain and residual is not True:
            raise ValueError("gain=True scales the residual branch; it needs residual=True")
        if layers < 1:
            raise ValueError(f"layers must be 1 or more, got {layers}")
        placement = checked_placement(placement, dim)
        self.in_channels, self.out_channels, self.dim, self.placement = in_channels, out_channels, dim, placement
        self._measure = as_measure(measure)
        self.lift = Pointwise(in_channels + dim, width)
        self.blocks = nn.ModuleList(
            FNOBlock(
                SpectralConv(
                    width,
                    width,
                    modes,
                    dim,
                    kernel=kernel,
                    measure=self._measure,
                    period=period,
                    padding=padding,
                    placement=placement,
                    backend=backend,
                ),
                spatial_norm(norm, width, self._measure, placement),
                activation=last_activation or layer < layers - 1,
                residual=residual,
                gain=gain,
            )
            for layer in range(layers)
        )
        self.head = PointwiseMLP(width, projection, out_channels)

    def _sums(self) -> Iterable[Any]:
        return (block.spectral for block in self.blocks)

    def lifted(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The lifted input P (a, r), (B, width, N)."""
        r = positions(self._measure, self.placement, shape, x.device, self.lift.weight.dtype)  # (d, N)
        field, place = self.lift.weight[:, : self.in_channels], self.lift.weight[:, self.in_channels :]
        # The coordinates' share is the same for all samples of a batch.
        share = torch.addmm(self.lift.bias[:, None], place, r)  # type: ignore[index]
        return affine(x.flatten(2), field, None, onto=share.expand(x.shape[0], -1, -1))

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """(B, C_in, *spatial) → (B, C_out, *spatial); ``weights`` and ``mask`` as the class says."""
        shape = grid_shape(x, self.in_channels, self.dim)
        w, options = None, {}
        if weights is not None or mask is not None:
            w = sample_weights(self._measure, weights, x.flatten(2), shape, mask)
            assert w is not None
            options = norm_options(x, shape, weights, mask)
            x = without_absent(x.flatten(2), w).view(x.shape)
        v = self.lifted(x, shape)
        for block in self.blocks:
            v = block(v, shape, w, options)
        y: Tensor = self.head(v)
        return y.view(x.shape[0], self.out_channels, *shape)

    def forward_chunked(self, x: Tensor, rows: int = 32) -> Tensor:
        """The same result with little memory and without gradients: sample by sample, in strips of ``rows`` rows.

        About one field (1, width, *spatial) is held at a time, instead of several for every sample of the batch. Blocks
        compute their linear part twice.

        >>> model, x = FNO(modes=4, width=8, layers=2), torch.randn(2, 1, 16, 16)
        >>> torch.allclose(model.forward_chunked(x, rows=5), model(x), atol=1e-5)
        True
        """
        return forward_chunked(self, x, rows)


class FNOBlock(nn.Module):
    """One layer v + σ(N(K v + W v + b)) of :class:`FNO`, on flat fields (B, C, N) of a given grid shape."""

    def __init__(
        self, spectral: SpectralConv, norm: nn.Module, activation: bool, residual: bool | str, gain: bool
    ) -> None:
        super().__init__()
        self.spectral, self.norm = spectral, norm
        self.pointwise = Pointwise(spectral.in_channels, spectral.out_channels)
        self.activation, self.residual = activation, residual
        self.gain = nn.Parameter(torch.tensor(log(expm1(0.5)))) if gain else None

    def forward(
        self, v: Tensor, shape: tuple[int, ...], weights: Tensor | None = None, options: Mapping[str, Any] | None = None
    ) -> Tensor:
        """(B, C, N) → (B, C, N); ``weights`` (1 or B, N) for the sums of K, ``options`` for the norm's call."""
        B, C, _ = v.shape
        linear = self.spectral(v.view(B, C, *shape), self.pointwise.bias, weights, self.pointwise_weight())
        u: Tensor = self.norm(linear, **(options or {})).flatten(2)
        if self.activation:
            u = F.gelu(u)
        if self.residual is not True:
            return u
        if self.gain is not None:
            return torch.addcmul(v, self.scale(v, u, shape, weights), u)
        return u.add_(v) if self.activation else v + u  # nobody else has the activated field

    def pointwise_weight(self) -> Tensor:
        """The matrix that acts on single samples under the norm: W, or 1 + W where the input is added there."""
        W = self.pointwise.weight
        return W + torch.eye(W.shape[0], device=W.device, dtype=W.dtype) if self.residual == "inside" else W

    def scale(
        self, v: Tensor, u: Tensor, shape: tuple[int, ...], weights: Tensor | None = None, eps: float = 1e-12
    ) -> Tensor:
        """The gain α₀ √(E‖v‖² / (E‖u‖² + ε)), (B, 1, 1)."""
        assert self.gain is not None
        w = sample_weights(self.spectral.measure, None, v, shape) if weights is None else weights

        def energy(f: Tensor) -> Tensor:
            per_sample = f.to(sum_dtype(f)).square().sum(1)  # (B, N)
            return per_sample.mean(1) if w is None else (per_sample * w).sum(1)

        return (F.softplus(self.gain) * torch.sqrt(energy(v) / (energy(u) + eps))).to(v.dtype).view(-1, 1, 1)
