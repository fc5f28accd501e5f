"""Which models run on shifted training grids, and how: checks, and :func:`shifted_runs`."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.models import check_module
from quadnorm.adapt.operations import TABLE
from quadnorm.adapt.placement import placed_grid
from quadnorm.adapt.report import Reason
from quadnorm.adapt.shifted import SAMPLES, ShiftedRuns
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.functions import MEETS
from quadnorm.adapt.watching.layouts import Dims, map_fields
from quadnorm.adapt.watching.nodes import relative_gap
from quadnorm.adapt.watching.probes import Probe, make_probe
from quadnorm.adapt.watching.watch import (
    CannotFollowError,
    Live,
    evaluating,
    first_line,
    leaving_no_trace,
    module_stack,
    trial_output,
    without_fast_paths,
)
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative; half precision has 3e-2


def shifted_runs(
    model: nn.Module,
    resolution: int | tuple[int, ...],
    placement: str | tuple[str, ...] | None = None,
    *,
    example: Any = None,
    layout: str | None = None,
    restrict: str = "cubic",
    samples: int = SAMPLES,
) -> ShiftedRuns:
    r"""A trained model on any grid, by runs on its training grid shifted by parts of a spacing.

    With :math:`G_s` the model on the training grid shifted by s of its spacing, at a node that lies θ of the way from
    the training node i to the next one,

    .. math:: y(i + θ) = (1 - θ)\, G_θ(x)_i + θ\, G_{θ-1}(x)_{i+1}

    Both terms are the model's own output at this node; the blend makes y continuous across the training nodes, at which
    y is the native run's output. On d axes d + 1 runs are blended: axes go from θ to θ − 1 one after the other, the one
    with the largest θ first, and the shares are the differences of these θ. On periodic axes where the model commutes
    with rolls by one sample θ and θ − 1 are equal, and one is run. The one node outside of the domain that a shifted
    grid may have continues the input by odd reflection. Ratios of grids need not be whole: inputs between samples are
    interpolated.

    Args:
        model: takes fields on its training grid only; not copied.
        resolution, placement, example, layout, restrict: as for :func:`quadnorm.extend`.
        samples: bound on the samples of training grids that run as one batch, which bounds the memory.

    Raises:
        CannotFollowError: if the model gives its samples values of its own making, such as coordinates, which shifted
            runs would get wrong, or mixes the samples of a batch.

    >>> model = nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular")
    >>> everywhere = shifted_runs(model, (8,), "periodic")
    >>> x = torch.randn(2, 1, 16)
    >>> torch.equal(everywhere(x)[..., 1::2], model(x[..., 1::2]))
    True
    """
    check_module(model, "shift")
    sizes, names, example, _ = placed_grid(model, resolution, placement, example)
    probe = make_probe(model, sizes, names, example, layout, partial(trial_output, model))
    with evaluating(model):
        own = own_fields(model, probe)
        if own:
            raise CannotFollowError(own)
        shifted = ShiftedRuns(model, sizes, names, probe.layout, restrict, samples=samples)
        settle(shifted, probe)
    return shifted


def commutes_with_rolls(model: nn.Module, probe: Probe, axis: int) -> bool:
    """Whether rolling the input by one sample along a periodic axis of the grid rolls the output and no more."""
    if not PLACEMENTS[probe.placements[axis]].wraps:
        return False
    random = torch.Generator("cpu").manual_seed(1)

    def rough(x: Tensor, dims: Dims) -> Tensor:
        if not x.is_floating_point():
            return x
        return x + x.std().nan_to_num(1.0) * torch.randn(x.shape, generator=random, device="cpu").to(x)

    def rolled(value: Any, outputs: bool = False) -> Any:
        return map_fields(value, probe.resolution, probe.layout, lambda x, dims: x.roll(1, dims[axis]), outputs)

    given = map_fields(probe.arguments, probe.resolution, probe.layout, rough)
    expected = rolled(trial_output(model, given), outputs=True)
    return relative_gap(trial_output(model, rolled(given)), expected) <= _tolerance(expected)


def _tolerance(y: Any) -> float:
    return TOLERANCE.get(next((t.dtype for t in tensors(y) if t.is_floating_point()), torch.float32), 3e-2)


def settle(shifted: Any, probe: Probe) -> float:
    """Find out how a model that runs on shifted grids (``shifted.model``) takes them, and how far it is then from the
    native run at its nodes, on a grid that contains them; raise if it is.

    Sets ``floor``, the axes on which one run per shift is enough, and ``samples`` to 1 if it takes no larger batches.
    """
    model, native = shifted.model, trial_output(shifted.model, probe.arguments)
    shifted.floor = tuple(commutes_with_rolls(model, probe, k) for k in range(len(probe.resolution)))
    args, kwargs = probe.at(probe.finer)
    fault = ""
    for samples in (shifted.samples, 1):
        shifted.samples = samples
        try:
            fine = trial_output(shifted, (args, {**kwargs, **probe.grid_option(probe.finer)}))
        except CannotFollowError:
            raise
        except Exception as error:  # whatever the model makes of a larger batch
            fault = f"the model does not run on shifted training grids ({first_line(error)})"
            continue
        gap = relative_gap(_at_native_nodes(fine, probe), native)
        if gap <= _tolerance(native):
            return gap
        fault = f"shifted runs differ from the run at the training grid at its nodes, on {probe.source}"
    raise CannotFollowError(f"{fault}; quadnorm.at_native serves any model")


def _at_native_nodes(fine: Any, probe: Probe) -> Any:
    last = tuple(range(-len(probe.resolution), 0))

    def at_nodes(x: Tensor, dims: Dims) -> Tensor:
        return carry(x.movedim(dims, last), probe.resolution, probe.placements).movedim(last, dims)

    return map_fields(fine, probe.finer, probe.layout, at_nodes, outputs=True)


class _OwnFields(Live):
    """Finds fields of a model's own making, such as coordinates, that meet fields derived from its input.

    Parameters and buffers, and what is made of them, are tables of the training grid: blending shifted runs
    interpolates between their entries. What is made in the forward from sizes would have other values elsewhere.
    """

    def __init__(self, model: nn.Module, native: Shape, modules: list[str]) -> None:
        super().__init__()
        self.stored = {id(t): t for t in (*model.parameters(), *model.buffers())}
        self.modules, self.found = modules, ""
        self.lengths = {-(-n // q) for n in native for q in range(1, 9)} | {prod(native)}
        self.lengths |= {m for n in native for m in range(n, 2 * n)}
        self.lengths -= {1}

    def on_constants(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if any(id(t) in self.stored for t in tensors((args, kwargs))):
            self.stored |= {id(t): t for t in tensors(result)}  # kept alive, so that no other tensor takes its id
        return result

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        given = tensors((args, kwargs))
        if name in MEETS and not self.found:
            live = [t for t in given if self.is_live(t)]
            made = (t for t in given if not self.is_live(t) and id(t) not in self.stored)
            if any(self._is_field(t, x) for t in made for x in live):
                self.found = f"{name} in {self.modules[-1] if self.modules and self.modules[-1] else 'the model'}"
        return func(*args, **kwargs)

    def _is_field(self, t: Tensor, x: Tensor) -> bool:
        """Whether t has one value for each sample of x along some axis, and not the same everywhere."""
        if x.is_complex() or not t.is_floating_point():
            return False
        for dim in range(-min(t.ndim, x.ndim), 0):
            length = t.shape[dim]
            if length == x.shape[dim] and length in self.lengths and length > 1:
                differs = t.narrow(dim, 1, length - 1) != t.narrow(dim, 0, 1)
                if bool(differs.any()):
                    return True
        return False


def own_fields(model: nn.Module, probe: Probe) -> str:
    """Why shifted runs would be wrong for a model that gives its samples values of its own making; else nothing."""
    with torch.no_grad(), without_fast_paths(), module_stack(model) as stack:
        mode = _OwnFields(model, probe.resolution, stack)
        args, kwargs = mode.mark(mapped(lambda t: t.detach().clone(), probe.arguments))
        with mode:
            model(*args, **kwargs)
    if not mode.found:
        return ""
    return (
        f"the model gives its samples values of its own making, such as coordinates ({mode.found}), which runs on "
        "shifted grids would take for those of the unshifted one; quadnorm.extend follows such fields"
    )


class _Stencils(Live):
    """Finds kernels of several samples, strides, pools, patches and resampling among a model's calls."""

    found = False

    def on_call(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        operation = TABLE.get(name)
        if operation is not None and operation.reason in (Reason.POOLS, Reason.RESAMPLED, Reason.PATCHES):
            self.found = True
        if operation is not None and operation.reason is Reason.KERNELS:
            given = operation.arguments(args, kwargs)
            stride = given.get("stride", 1)
            strides = stride if isinstance(stride, (tuple, list)) else (stride,)
            self.found = self.found or any(n != 1 for n in (*given["weight"].shape[2:], *strides))
        return func(*args, **kwargs)


def has_stencils(model: nn.Module, probe: Probe) -> bool:
    """Whether a model has stencils or patches, seen in a run on its training grid."""
    mode = _Stencils()
    with leaving_no_trace(model), without_fast_paths():
        args, kwargs = mode.mark(mapped(lambda t: t.detach().clone(), probe.arguments))
        with mode:
            model(*args, **kwargs)
    return mode.found
