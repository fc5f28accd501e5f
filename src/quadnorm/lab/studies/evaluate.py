"""Use a trained model at a test grid; :data:`ROUTES` has one row for each way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quadnorm._suggest import unknown
from quadnorm.adapt import Transferred, anchor, extend, transfer
from quadnorm.adapt.anchoring import NothingToAnchorError
from quadnorm.adapt.graphs.kinds import without_graphs
from quadnorm.carry.grids import carry
from quadnorm.carry.scattered import linear_map
from quadnorm.lab.studies.study import Way
from quadnorm.measures.placement import Placements, placements_per_axis
from quadnorm.norms.factory import is_norm
from quadnorm.problems import Problem
from quadnorm.problems.points import POINTS, PointFields
from quadnorm.training import TrainConfig
from quadnorm.training.data import Grid, problem_of, samples, viewed
from quadnorm.training.loop import errors
from quadnorm.training.losses import grid_weights

PARTS = ("norms", "kernels", "all")
TWO_VALUED = (
    "darcy",
    "darcy-official",
    "darcy-neuralop",
)  # problems whose input has only two values, which the nearest sample preserves
ESTIMATED = 8  # test inputs that a grid's estimates are made with
Predictor = Callable[[Tensor], Tensor]
Adapted = dict[tuple[str, str, str], Predictor]  # (route, option, restriction) → a model for every grid


@dataclass(frozen=True)
class Use:
    """A model, its training grid (the finest, if there are several), and the test grid."""

    model: nn.Module
    native: tuple[int, ...]
    shape: tuple[int, ...]
    placement: Placements
    restrict: str = "cubic"  # method that takes inputs to the training grid
    pairs: Callable[[], tuple[Tensor, Tensor]] | None = None  # validation data at the training grid


# Route of a way → function that makes the predictor at the test grid. Its last argument is the way's option.
ROUTES: dict[str, Callable[[Use, str], Predictor]] = {
    "direct": lambda use, _: use.model,
    "anchored": lambda use, part: anchored_in_part(use.model, use.native, use.placement, part),
    "extended": lambda use, _: extend(use.model, use.native, use.placement, restrict=use.restrict),
    "transferred": lambda use, _: transfer(use.model, use.native, use.placement, use.pairs() if use.pairs else None),
    "native": lambda use, ends: native_run(use, "periodic" if ends == "fourier" else use.placement),
    "interpolate": lambda use, mode: interpolated(use, mode),
    "crop-pad": lambda use, _: lambda x: band(use.model(band(x, use.native)), use.shape),
}
ON_EVERY_GRID = ("anchored", "extended", "transferred")
AT_NATIVE = ("native", "interpolate", "crop-pad")  # these roll out at the training grid and leave it once, at the end


@torch.no_grad()
def errors_of(
    model: nn.Module, config: TrainConfig, way: Way, grid: Grid, adapted: Adapted | None = None
) -> dict[str, Any]:
    """Every test sample's relative L² error at a grid, plain and weighted by the quadrature; and their spectrum.

    ``adapted`` keeps the adapted models of one call for the next: plans and graphs are made once for each grid.
    """
    trained = problem_of(config)
    p = viewed(trained, dict(way.view))
    p = p.after(way.steps) if way.steps > 1 else p  # type: ignore[attr-defined] # of problems in steps
    shape = p.shape(grid)
    x, y = samples(config, "test", [grid], p)[grid]
    native = native_grid(config)
    if p.placement == POINTS:
        predict = points_predictor(model, way, lambda: samples(config, "test", [native])[native][0])
    else:
        predict = predictor(model, config, way, p, shape, {} if adapted is None else adapted)
    weights = grid_weights(p.placement, shape, x.dtype)
    batch = max(1, config.batch * prod(trained.shape(native)) // prod(shape))
    outputs: list[Tensor] = []

    def kept(inputs: Tensor) -> Tensor:
        outputs.append(predict(inputs))
        return outputs[-1]

    step = predict.step if isinstance(predict, Rollout) else predict
    with without_graphs() if way.steps == 1 else nullcontext():  # the test samples are few
        if isinstance(step, Transferred):
            step.estimate(x[:ESTIMATED])  # a batch may hold a single sample
        plain, weighted = errors(kept, x, y, weights, batch)
    found: dict[str, Any] = {"plain": plain.tolist(), "weighted": weighted.tolist()}
    if p.placement != POINTS:
        found["octaves"] = octaves(torch.cat(outputs) - y, y, p.placement)
    return found


def octaves(error: Tensor, truth: Tensor, placement: Placements) -> dict[str, list[float]]:
    """Mean energy of error and truth (B, C, *spatial) by octave of the wavenumber, over the truth's whole energy.

    Octaves: below 1 period per length, 1 to 2, 2 to 4, …; a wave belongs to that of its largest wavenumber. Where an
    axis is not periodic the field is continued evenly, so that its waves are cosines. The errors add up to the mean
    square of the relative L² error, exactly so on periodic grids and cell centres.

    >>> wave = torch.sin(2 * torch.pi * torch.arange(8) / 8).expand(1, 1, 8)
    >>> {name: [round(v, 6) for v in energies] for name, energies in octaves(wave / 2, wave, "periodic").items()}
    {'error': [0.0, 0.25, 0.0], 'truth': [0.0, 1.0, 0.0]}
    """
    dim = truth.ndim - 2
    names = placements_per_axis(placement, dim)
    highest: Tensor = torch.zeros(1)
    for axis, name in enumerate(names):
        n = truth.shape[2 + axis]
        size = n if name == "periodic" else 2 * n - 2 * (name == "endpoint")
        k = torch.fft.fftfreq(size, 1 / size).abs() / (1 if name == "periodic" else 2)
        highest = torch.maximum(highest, k.reshape(-1, *[1] * (dim - 1 - axis)))
    number = torch.where(highest < 1, 0, highest.clamp(min=1).log2().floor() + 1).long().flatten()
    count = max(truth.shape[2:]).bit_length() - 1  # of octaves: up to half as many periods as samples
    number = number.clamp(max=count - 1)

    def energies(field: Tensor) -> Tensor:
        for axis, name in enumerate(names, start=2):
            if name != "periodic":
                rest = field.flip(axis)
                inner = rest.narrow(axis, 1, field.shape[axis] - 2) if name == "endpoint" else rest
                field = torch.cat([field, inner], axis)
        energy = torch.fft.fftn(field.double(), dim=tuple(range(2, field.ndim))).abs().square().sum(1).flatten(1)
        return torch.zeros(len(field), count, dtype=energy.dtype).index_add_(1, number, energy)

    whole = energies(truth)
    parts = {"error": energies(error) / whole.sum(1, keepdim=True), "truth": whole / whole.sum(1, keepdim=True)}
    return {name: [float(f"{v:.5g}") for v in part.mean(0).tolist()] for name, part in parts.items()}


def native_grid(config: TrainConfig) -> Grid:
    """The training grid; the finest, if there are several."""
    grids = config.resolutions.train
    return grids[0] if len(grids) == 1 else max(grids, key=lambda n: prod(problem_of(config).shape(n)))


def predictor(
    model: nn.Module, config: TrainConfig, way: Way, p: Problem, shape: tuple[int, ...], adapted: Adapted | None = None
) -> Predictor:
    """A function from inputs to outputs that uses the model on the problem's grid of ``shape`` in the given way."""
    if way.route not in ROUTES:
        raise ValueError(unknown("route", way.route, ROUTES))
    restrict = "nearest" if p.name in TWO_VALUED and not getattr(p, "band", 0) else "cubic"
    native = problem_of(config).shape(native_grid(config))
    inside = way.steps > 1 and way.route in AT_NATIVE
    used = Rollout(model, way.steps) if inside else model
    key = (way.route, way.option, restrict)
    if adapted is not None and key in adapted:
        predict = adapted[key]
    else:
        use = Use(used, native, shape, p.placement, restrict, lambda: held_out(config))
        predict = ROUTES[way.route](use, way.option)
        if adapted is not None and way.route in ON_EVERY_GRID:
            adapted[key] = predict
    return Rollout(predict, way.steps) if way.steps > 1 and not inside else predict


class Rollout(nn.Module):
    """A model that is run on its own output, so many ``steps``."""

    def __init__(self, step: Predictor, steps: int) -> None:
        super().__init__()
        self.step, self.steps = step, steps

    def forward(self, x: Tensor) -> Tensor:
        """The state after all steps; the same shape."""
        for _ in range(self.steps):
            x = self.step(x)
        return x


def held_out(config: TrainConfig) -> tuple[Tensor, Tensor]:
    """The validation pairs of a run at its training grid."""
    n = native_grid(config)
    x, y = samples(config, "val", [n])[n]
    return x, y


def native_run(use: Use, ends: Placements) -> Predictor:
    """Run at the training grid and interpolate the output to the test grid; ``ends``: placement of the output."""
    return lambda x: carry(use.model(carry(x, use.native, use.placement, use.restrict)), use.shape, ends)


def interpolated(use: Use, mode: str) -> Predictor:
    """What many write themselves: run at the training grid, then ``F.interpolate`` in a mode such as bicubic."""
    names = (use.placement,) if isinstance(use.placement, str) else use.placement
    corners = all(p == "endpoint" for p in names)

    def predict(x: Tensor) -> Tensor:
        y = use.model(carry(x, use.native, use.placement, use.restrict))
        return F.interpolate(y, use.shape, mode=mode, align_corners=corners)

    return predict


def anchored_in_part(model: nn.Module, native: tuple[int, ...], placement: Placements, part: str) -> nn.Module:
    """A copy of the model with its norms, its other spatial sums (``kernels``), or all sums anchored."""
    if part not in PARTS:
        raise ValueError(unknown("part of a model to anchor", part, PARTS))
    # force=True: a study measures what anchoring does, even where it makes errors larger.
    try:
        anchored = anchor(model, native, placement, force=True)
    except NothingToAnchorError:  # a network of convolutions alone: anchored it is what it was
        return model
    if part == "all":
        return anchored
    before = dict(model.named_modules())
    for name, module in anchored.named_modules():
        if hasattr(module, "measure") and is_norm(module) != (part == "norms"):
            module.measure = before[name].measure
    return anchored


def points_predictor(model: nn.Module, way: Way, meshes: Callable[[], Tensor]) -> Predictor:
    """A function that uses the model on points; batches must come in order, beginning with the first sample.

    ``native`` carries the fields to a mesh like those of training (``meshes`` holds one for each sample), runs there,
    and carries the output back, both linearly on triangles.
    """
    if way.route == "direct":
        return model
    if way.route != "native":
        raise ValueError(f"on points a model runs directly or on a training mesh; got {way!r}")
    places, done = meshes(), 0

    def predict(x: Tensor) -> Tensor:
        nonlocal done
        given = PointFields.unpacked(x, dim=2)
        mesh = PointFields.unpacked(places[done : done + len(x)], dim=2)
        done += len(x)
        pairs = zip(given.places.transpose(1, 2), mesh.places.transpose(1, 2), strict=True)
        maps = [(linear_map(a, b), linear_map(b, a)) for a, b in pairs]
        fields = torch.stack([_carried(f, *there) for f, (there, _) in zip(given.fields, maps, strict=True)])
        outputs = model(replace(mesh, fields=fields).packed())
        return torch.stack([_carried(y, *back) for y, (_, back) in zip(outputs, maps, strict=True)])

    return predict


def _carried(fields: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Fields (C, N) at other points, (C, M)."""
    return (fields[:, index] * weight.to(fields.dtype)).sum(-1)


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
