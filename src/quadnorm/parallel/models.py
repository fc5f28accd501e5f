"""Whole operators on shards: coordinates are the whole grid's, given weights are scaled over all ranks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm.measures import Blend
from quadnorm.operators.domain import counting
from quadnorm.operators.fno import FNO, FNOBlock
from quadnorm.operators.galerkin import GalerkinBlock, GalerkinTransformer
from quadnorm.operators.pointwise import affine
from quadnorm.operators.samples import Samples
from quadnorm.operators.transolver import Transolver, TransolverBlock
from quadnorm.parallel import given, measure
from quadnorm.parallel.collectives import spread, total
from quadnorm.parallel.split import Split
from quadnorm.parallel.statistics import accumulator


class FNOOnShards(FNO):
    """:class:`FNO`: the coordinates' share of the lift is that of this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def lifted(self, x: Tensor, shape: tuple[int, ...], **options: Any) -> Tensor:
        """P (a, r) at this rank's samples, (B, width, N)."""
        part = self._split.resolve(shape)
        r = measure.local_places(self._measure, self.placement, part, x.device, self.lift.weight.dtype)
        field, place = self.lift.weight[:, : self.in_channels], self.lift.weight[:, self.in_channels :]
        share = torch.addmm(self.lift.bias[:, None], place, r)  # type: ignore[index]
        return affine(x.flatten(2), field, None, onto=share.expand(x.shape[0], -1, -1))

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """See :class:`FNO`; under its measures only."""
        if weights is not None or mask is not None:
            raise NotImplementedError("a sharded FNO takes no weights and no mask; give it a measure instead")
        return super().forward(x)

    def forward_chunked(self, x: Tensor, rows: int = 32) -> Tensor:
        """Strips are for one process; shards take their place."""
        raise NotImplementedError("forward_chunked works on the whole field; a sharded model is already cut in parts")


class FNOBlockOnShards(FNOBlock):
    """:class:`FNOBlock`: the optional residual gain takes its averages over all ranks (one all-reduce of 2·B)."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def scale(
        self,
        v: Tensor,
        u: Tensor,
        shape: tuple[int, ...],
        weights: Tensor | None = None,
        eps: float = 1e-12,
        **options: Any,
    ) -> Tensor:
        """α₀ √(E‖v‖² / (E‖u‖² + ε)), (B, 1, 1)."""
        assert self.gain is not None
        part = self._split.resolve(shape)
        w = measure.local_weights(self.spectral.measure, part, v.device, accumulator(v)).reshape(1, -1)
        energies = torch.stack([(f.square().sum(1) * w).sum(1) for f in (v, u)])
        of_v, of_u = spread(total(energies, self._split.group), group=self._split.group)[0]
        return (F.softplus(self.gain) * torch.sqrt(of_v / (of_u + eps))).view(-1, 1, 1)


def samples_here(model: Any, x: Tensor, coordinates: Any, weights: Any, norm_weights: Any, mask: Any = None) -> Samples:
    """The :class:`Samples` of this rank: of a grid, or of its points."""
    if mask is not None:
        raise NotImplementedError("a sharded model takes no mask; pass weights=, 0 where a sample is absent")
    split: Split = model._split
    m, channels = model.measure, model.in_channels
    if coordinates is None and norm_weights is not None:
        raise ValueError("norm_weights are for scattered points; on a grid give the norm a measure of its own")
    scattered = coordinates is not None
    field = x.transpose(1, 2) if scattered else x.flatten(2)
    expected = (
        x.ndim == 3 and x.shape[2] == channels if scattered else x.ndim == model.dim + 2 and x.shape[1] == channels
    )
    if not expected:
        want = f"(batch, N, {channels})" if scattered else f"(batch, {channels}, {', '.join(['n'] * model.dim)})"
        raise ValueError(f"got input of shape {tuple(x.shape)}, expected {want}")
    local = (x.shape[1],) if scattered else tuple(x.shape[2:])
    part = split.resolve(local)
    if scattered:
        r = torch.as_tensor(coordinates).to(device=x.device, dtype=x.dtype)
        if tuple(r.shape) not in ((local[0], model.dim), (x.shape[0], local[0], model.dim)):
            raise ValueError(f"coordinates have shape {tuple(r.shape)}; expected {(local[0], model.dim)} on this rank")
        places = r.transpose(-1, -2).expand(x.shape[0] if r.ndim == 3 else 1, -1, -1)
        if weights is None:
            weights = _points_weights(m, part.shape, part.slices, x)
    else:
        places = measure.local_places(m, model.placement, part, x.device, x.dtype)[None]
        if weights is None:
            return Samples(field, places, local)
    share = m.alpha if isinstance(m, Blend) else 0.0
    found = given.normalised(given.flattened(weights, field, local, split), share, split, accumulator(x))
    w = found.weights
    return Samples(
        _present(field, w),
        _present(places, w) if scattered else places,
        local,
        w,
        {"weights": w if norm_weights is None else norm_weights},
        scattered,
    )


def _points_weights(m: Any, shape: tuple[int, ...], slices: tuple[slice, ...], x: Tensor) -> Tensor:
    if m.shape == shape:
        w: Tensor = m.shared_weights(shape)[slices].to(x.device)
        return w
    if counting(m):
        return torch.ones(x.shape[1], device=x.device)
    raise ValueError(
        f"{m!r} weighs the samples of a grid and cannot weigh {shape[0]} scattered points; pass weights= "
        f"(for example voronoi_weights(points)), or set measure='counting'"
    )


def _present(f: Tensor, w: Tensor) -> Tensor:
    return torch.where((w == 0).unsqueeze(1), torch.zeros((), dtype=f.dtype, device=f.device), f)


class GalerkinOnShards(GalerkinTransformer):
    """:class:`GalerkinTransformer` on this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def forward(
        self, x: Tensor, coordinates: Any = None, weights: Any = None, *, mask: Any = None, norm_weights: Any = None
    ) -> Tensor:
        """See :class:`GalerkinTransformer`."""
        s = samples_here(self, x, coordinates, weights, norm_weights, mask)
        v = affine(torch.cat([s.values, s.places.expand(x.shape[0], -1, -1)], 1), self.lift.weight, self.lift.bias)
        for block in self.blocks:
            v = block(v, s)
        return s.restore(self.head(v))


class TransolverOnShards(Transolver):
    """:class:`Transolver` on this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def forward(
        self, x: Tensor, coordinates: Any = None, weights: Any = None, *, mask: Any = None, norm_weights: Any = None
    ) -> Tensor:
        """See :class:`Transolver`."""
        s = samples_here(self, x, coordinates, weights, norm_weights, mask)
        v = self.lift(torch.cat([s.values, s.places.expand(x.shape[0], -1, -1)], 1))
        for block in self.blocks:
            v = block(v, s)
        return s.restore(affine(v, self.head.weight, self.head.bias))


class PointwiseConvOnShards(nn.Module):
    """A convolution with kernels of one sample: any shard will do, but torch refuses an empty one."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()
    out_channels: int

    def forward(self, x: Tensor) -> Tensor:
        """W x + b at this rank's samples."""
        if x.numel():
            y: Tensor = super().forward(x)
            return y
        nothing = sum(p.sum() * 0 for p in self.parameters())
        return (x.sum() + nothing).expand(x.shape[0], self.out_channels, *x.shape[2:])


class GalerkinBlockOnShards(GalerkinBlock):
    """Nothing of its own: a unit that FSDP may wrap."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()


class TransolverBlockOnShards(TransolverBlock):
    """Nothing of its own: a unit that FSDP may wrap."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()
