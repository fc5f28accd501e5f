"""Trained models put to use at a test grid: as they are, anchored, or by one of the ways around the new grid."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt import anchor
from quadnorm.carry.grids import carry
from quadnorm.carry.scattered import linear_map
from quadnorm.lab.studies.study import Evaluation
from quadnorm.norms.factory import is_norm
from quadnorm.training import TrainConfig
from quadnorm.training.data import problem_of, samples, viewed
from quadnorm.training.losses import POINTS, grid_weights, relative_l2, weights_of

PARTS = ("norms", "kernels", "all")
Predictor = Callable[[Tensor], Tensor]


@torch.no_grad()
def errors_of(model: nn.Module, config: TrainConfig, evaluation: Evaluation, grid: int) -> dict[str, Any]:
    """Every test sample's relative L² error at a grid, plain and weighted, and the spectrum of what is left over.

    The spectrum is the energy of the residual by radial wave number (cycles per domain), averaged over samples, in
    units of the truth's energy: it tells an error of the model from content that a coarse grid cannot carry.
    """
    trained = problem_of(config)
    p = viewed(trained, dict(evaluation.view))
    shape = p.shape(grid)
    native = trained.shape(config.resolutions.train[0])
    x, y = samples(config, "test", [grid], p)[grid]
    on_points = p.placement == POINTS
    if on_points:
        predict = points_predictor(model, evaluation, lambda: _training_meshes(config))
    else:
        predict = predictor(model, evaluation, native, shape, p.placement)
    weights = grid_weights(p.placement, shape, x.dtype)
    batch = max(1, config.batch * prod(native) // prod(shape))
    plain, weighted, spectra = [], [], []
    for start in range(0, len(x), batch):
        inputs, truth = x[start : start + batch], y[start : start + batch]
        guess = predict(inputs)
        plain += relative_l2(guess, truth).tolist()
        weighted += relative_l2(guess, truth, weights_of(inputs, weights)).tolist()
        if not on_points:  # a mesh has no wave numbers
            spectra.append(radial_energy(guess - truth) / truth.square().flatten(1).sum(1, keepdim=True))
    found: dict[str, Any] = {"plain": plain, "weighted": weighted}
    return found if on_points else {**found, "spectrum": torch.cat(spectra).double().mean(0).tolist()}


def _training_meshes(config: TrainConfig) -> Tensor:
    """Volumes, coordinates and fields of the test instances on meshes like those of training."""
    n = config.resolutions.train[0]
    return samples(config, "test", [n])[n][0]


def points_predictor(model: nn.Module, evaluation: Evaluation, meshes: Callable[[], Tensor]) -> Predictor:
    """The model used on points in the way of ``evaluation``; batches must come in order from the first sample on.

    ``upsample`` carries the fields to a mesh like those of training (``meshes`` holds one for each sample), runs there,
    and carries the output back, both linearly on triangles.
    """
    if evaluation.route == "direct" and not evaluation.anchor:
        return model
    if evaluation.route != "upsample":
        raise ValueError(f"on points a model runs directly or on a training mesh; got {evaluation!r}")
    places, done = meshes(), 0

    def predict(x: Tensor) -> Tensor:
        nonlocal done
        here = places[done : done + len(x)].clone()
        done += len(x)
        maps = [(linear_map(a, b), linear_map(b, a)) for a, b in zip(_places(x), _places(here), strict=True)]
        for own, target, (there, _) in zip(x, here, maps, strict=True):
            target[3:] = _carried(own[3:], *there)
        return torch.stack([_carried(y, *back) for y, (_, back) in zip(model(here), maps, strict=True)])

    return predict


def _places(x: Tensor) -> Tensor:
    return x[:, 1:3].transpose(1, 2)  # (B, N, 2)


def _carried(fields: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Fields (C, N) at other points, (C, M)."""
    return (fields[:, index] * weight.to(fields.dtype)).sum(-1)


def predictor(
    model: nn.Module, evaluation: Evaluation, native: tuple[int, ...], shape: tuple[int, ...], placement: str
) -> Predictor:
    """The model used at ``shape`` in the way of ``evaluation``; ``native`` is its training grid."""
    if evaluation.route == "direct":
        return anchored_in_part(model, native, placement, evaluation.anchor) if evaluation.anchor else model
    if evaluation.route == "upsample":
        # Inputs may jump (a permeability takes two values): the nearest sample is one of the field's own.
        ends = "periodic" if evaluation.interpolation == "fourier" else placement
        return lambda x: carry(model(carry(x, native, placement, "nearest")), shape, ends)
    if evaluation.route == "crop-pad":
        return lambda x: band(model(band(x, native)), shape)
    raise ValueError(unknown("route", evaluation.route, ("direct", "upsample", "crop-pad")))


def anchored_in_part(model: nn.Module, native: tuple[int, ...], placement: str, part: str) -> nn.Module:
    """A copy of the model with its norms, its other spatial sums (``kernels``), or all sums anchored."""
    if part not in PARTS:
        raise ValueError(unknown("part of a model to anchor", part, PARTS))
    made = anchor(model, native, placement)
    if part == "all":
        return made
    before = dict(model.named_modules())
    for name, module in made.named_modules():
        if hasattr(module, "measure") and is_norm(module) != (part == "norms"):
            module.measure = before[name].measure
    return made


def band(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A field (..., *spatial) with its discrete spectrum cropped or padded by zero to another grid.

    >>> wave = torch.sin(2 * torch.pi * torch.arange(8) / 8)
    >>> torch.allclose(band(wave, (16,))[::2], wave, atol=1e-6)
    True
    """
    axes = tuple(range(-len(shape), 0))
    old = tuple(x.shape[a] for a in axes)
    spectrum = torch.fft.fftshift(torch.fft.fftn(x, dim=axes, norm="forward"), dim=axes)
    for axis, m, n in zip(axes, old, shape, strict=True):
        keep = (min(m, n) - 1) // 2  # frequencies up to the smaller grid's last whole pair
        kept = spectrum.narrow(axis, m // 2 - keep, 2 * keep + 1)
        size = list(kept.shape)
        size[axis] = n
        spectrum = torch.zeros(size, dtype=kept.dtype, device=kept.device)
        spectrum.narrow(axis, n // 2 - keep, 2 * keep + 1).copy_(kept)
    field: Tensor = torch.fft.ifftn(torch.fft.ifftshift(spectrum, dim=axes), dim=axes, norm="forward").real
    return field


def radial_energy(residual: Tensor) -> Tensor:
    """Energy of fields (B, C, *spatial) by whole radial wave number: (B, K), each row sums to its sample's energy."""
    shape = residual.shape[2:]
    axes = tuple(range(2, residual.ndim))
    energy = torch.fft.fftn(residual, dim=axes, norm="ortho").abs().square().sum(1)  # (B, *spatial)
    waves = torch.meshgrid(*(torch.fft.fftfreq(n, 1 / n) for n in shape), indexing="ij")
    radius = torch.stack(waves).square().sum(0).sqrt().round().long().flatten()
    out = torch.zeros(len(residual), int(radius.max()) + 1, dtype=energy.dtype)
    return out.index_add_(1, radius, energy.flatten(1))
