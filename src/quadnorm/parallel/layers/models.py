"""Whole operators on shards: coordinates are the whole grid's, given weights are scaled over all ranks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm._precision import sum_dtype
from quadnorm.operators.domain import counting, grid_shape, without_absent
from quadnorm.operators.fno import FNO, FNOBlock
from quadnorm.operators.galerkin import GalerkinBlock, GalerkinTransformer
from quadnorm.operators.pointwise import affine
from quadnorm.operators.samples import Samples
from quadnorm.operators.transolver import Transolver, TransolverBlock
from quadnorm.parallel import given, measure
from quadnorm.parallel.collectives import spread, total
from quadnorm.parallel.split import Split


class FNOOnShards(FNO):
    """:class:`FNO`: the coordinates' share of the lift is that of this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """See :class:`FNO`; ``weights`` and ``mask`` are this rank's."""
        if weights is None and mask is None:
            return super().forward(x)
        shape, m = grid_shape(x, self.in_channels, self.dim), self._measure
        share, _ = m.counting_part()
        here, options = given_here(self, x.flatten(2), shape, weights, mask, share)
        v = self.lifted(without_absent(x.flatten(2), here.weights).view(x.shape), shape)
        for block in self.blocks:
            v = block(v, shape, here.weights, options)
        y: Tensor = self.head(v)
        return y.view(x.shape[0], self.out_channels, *shape)

    def lifted(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """P (a, r) at this rank's samples, (B, width, N)."""
        part = self._split.resolve(shape)
        r = measure.local_places(self._measure, self.placement, part, x.device, self.lift.weight.dtype)
        field, place = self.lift.weight[:, : self.in_channels], self.lift.weight[:, self.in_channels :]
        share = torch.addmm(self.lift.bias[:, None], place, r)  # type: ignore[index]
        return affine(x.flatten(2), field, None, onto=share.expand(x.shape[0], -1, -1))

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
    ) -> Tensor:
        """α₀ √(E‖v‖² / (E‖u‖² + ε)), (B, 1, 1)."""
        assert self.gain is not None
        part = self._split.resolve(shape)
        w = weights
        if w is None:
            w = measure.local_weights(self.spectral.measure, part, v.device, sum_dtype(v)).reshape(1, -1)
        energies = torch.stack([(f.square().sum(1) * w).sum(1) for f in (v, u)])
        of_v, of_u = spread(total(energies, self._split.group), group=self._split.group)[0]
        return (F.softplus(self.gain) * torch.sqrt(of_v / (of_u + eps))).to(v.dtype).view(-1, 1, 1)


def given_here(
    model: Any, x: Tensor, local: tuple[int, ...], weights: Any, mask: Any, share: float = 0.0
) -> tuple[given.Given, dict[str, Tensor]]:
    """Weights and mask of a call, scaled over all ranks, and what the norms inside are called with."""
    split, m, options = model._split, model.measure, {}
    _, base = m.counting_part()
    if weights is None:
        raw = measure.local_weights(base, split.resolve(local), x.device, sum_dtype(x)).reshape(1, -1)
    else:
        raw = options["weights"] = given.flattened(weights, x, local, split)
    if mask is not None:
        options["mask"] = given.flattened(mask, x, local, split, "the mask")
        raw = given.masked(raw, options["mask"], split)
    return given.normalised(raw, share, split, sum_dtype(x)), options


def samples_here(model: Any, x: Tensor, coordinates: Any, weights: Any, mask: Any, norm_weights: Any = None) -> Samples:
    """``samples_of`` for this rank's samples of a grid, or for its points."""
    split: Split = model._split
    m, channels, dim = model.measure, model.in_channels, model.dim
    if coordinates is None and norm_weights is not None:
        raise ValueError("norm_weights are for scattered points; on a grid give the norm a measure of its own")
    scattered = coordinates is not None
    right = x.ndim == 3 and x.shape[2] == channels if scattered else x.ndim == dim + 2 and x.shape[1] == channels
    if not right:
        want = f"(batch, N, {channels})" if scattered else f"(batch, {channels}, {', '.join(['n'] * dim)})"
        raise ValueError(f"got input of shape {tuple(x.shape)}, expected {want}")
    values = x.transpose(1, 2) if scattered else x.flatten(2)
    local = (x.shape[1],) if scattered else tuple(x.shape[2:])
    part = split.resolve(local)
    share, _ = m.counting_part()
    if not scattered:
        places = measure.local_places(m, model.placement, part, x.device, x.dtype)[None]
        if weights is None and mask is None:
            return Samples(values, places, local)
        here, options = given_here(model, values, local, weights, mask, share)
        return Samples(without_absent(values, here.weights), places, local, here.weights, options)
    r = coordinates if isinstance(coordinates, Tensor) else torch.as_tensor(coordinates, device="cpu")
    r = r.to(device=x.device, dtype=x.dtype)
    if tuple(r.shape) not in ((local[0], dim), (x.shape[0], local[0], dim)):
        raise ValueError(f"coordinates have shape {tuple(r.shape)}; expected {(local[0], dim)} on this rank")
    if weights is None:
        weights = _points_weights(m, part.shape, part.slices, x)
    here, options = given_here(model, values, local, weights, mask, share)
    w = here.weights
    places = r.transpose(-1, -2).expand(x.shape[0] if r.ndim == 3 or w.shape[0] > 1 else 1, -1, -1)
    if norm_weights is None:
        options = {"weights": w}
    else:
        options["weights"] = given.flattened(norm_weights, values, local, split)
    return Samples(without_absent(values, w), without_absent(places, w), local, w, options, scattered=True)


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


class GalerkinOnShards(GalerkinTransformer):
    """:class:`GalerkinTransformer` on this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()
    _samples = samples_here


class TransolverOnShards(Transolver):
    """:class:`Transolver` on this rank's samples."""

    _split: Split
    complete: ClassVar[tuple[str, ...]] = ()
    _samples = samples_here


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
