"""Shifted native runs: a model with stencils or patches on any grid, without a look inside.

A kernel of 3×3 samples, a stride or a patch is an operator at the training grid's *spacing*. On a grid r times finer
there are r^d copies of the training grid, each shifted by a part of its spacing. The model runs on all of them as it
was trained, and the outputs are interlaced. It is right for every operation that does not know where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from quadnorm._precision import full_precision
from quadnorm._suggest import unknown
from quadnorm._tensors import constant, is_recording
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.calls import Call, CallPlan
from quadnorm.adapt.follow import Steered, run_under
from quadnorm.adapt.forms import Forms
from quadnorm.adapt.functions import MEETS
from quadnorm.adapt.layouts import Dims, map_fields
from quadnorm.adapt.models import check_module
from quadnorm.adapt.nodes import interpolation
from quadnorm.adapt.operations import TABLE
from quadnorm.adapt.placement import placed_grid
from quadnorm.adapt.probes import Probe, make_probe
from quadnorm.adapt.report import Reason, size_text
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watch import (
    CannotFollowError,
    Live,
    first_line,
    leaving_no_trace,
    module_stack,
    trial_output,
    without_fast_paths,
)
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS, matrix_at
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS, among

RECORDED = 8  # the batch that a graph of shifted runs is made for; it serves all
SAMPLES = 2**17  # of the training grid, over all shifts that run together
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative; half precision has 3e-2


@dataclass(frozen=True)
class Shift:
    """One shift of the training grid along an axis: where its inputs come from, and where its outputs go.

    ``value`` is in spacings of the training grid. Input: ``matrix`` (n0, n), or where all its nodes are samples
    ``index``; ``beyond`` marks nodes outside of the samples, which continue the field by odd reflection about the
    outermost sample, ``edge``. Output: the sample ``target`` takes ``share`` of the output at ``node``.
    """

    value: float
    index: Tensor  # (n0,): the sample at each node, or the nearest one; beyond the samples their mirror image
    beyond: Tensor | None
    edge: Tensor
    matrix: Tensor | None
    target: Tensor
    node: Tensor
    share: Tensor

    @constant
    def takes_all(self) -> bool:
        """Whether every target takes all of an output."""
        return bool((self.share == 1).all())

    def taken(self, x: Tensor, dim: int) -> Tensor:
        """A field's values at the shifted nodes."""
        device = x.device
        if not (x.is_floating_point() or x.is_complex()):  # labels: the nearest sample's
            inside = self.index if self.beyond is None else torch.where(self.beyond, self.edge, self.index)
            return x.index_select(dim, inside.to(device))
        if self.matrix is not None:
            dtype = x.dtype if x.dtype in (torch.float64, torch.complex64, torch.complex128) else torch.float32
            with full_precision(x):
                y = torch.matmul(x.to(dtype).movedim(dim, -1), self.matrix.to(device, dtype).T)
            return y.movedim(-1, dim).to(x.dtype)
        y = x.index_select(dim, self.index.to(device))
        if self.beyond is None:
            return y
        edge = x.index_select(dim, self.edge.to(device))
        along = [-1 if k == dim else 1 for k in range(x.ndim)]
        return torch.where(self.beyond.to(device).view(along), 2 * edge - y, y)


@constant
@lru_cache(maxsize=256)
def axis_shifts(placement: str, n0: int, n: int, floor: bool, method: str) -> tuple[int, tuple[Shift, ...]]:
    """The shifts of an axis of n0 training samples that together give n samples, and how many they give.

    That is n, unless the two grids have so little in common that every new sample would need a run of its own: then it
    is the next whole multiple of the training grid, from which outputs are to be carried on.

    A new sample at θ of the way from one training node to the next takes (1 − θ) of the run that is shifted by θ, and θ
    of the run that is shifted by θ − 1; where one of the two nodes does not exist, all of the other. With ``floor`` all
    of the first, which is the same where the model commutes with rolls by one sample.
    """
    more, wraps = PLACEMENTS[placement].more, PLACEMENTS[placement].wraps
    size, ratio = n, -(-(n + more) // max(n0 + more, 1))
    a, b = among(placement, n0, placement, size)
    if len(set((a % b).tolist())) > 2 * ratio + 1:
        size = ratio * (n0 + more) - more
        a, b = among(placement, n0, placement, size)
    uses: dict[int, list[tuple[int, int, float]]] = {}  # shift · b → (target, node, share)
    for j, at in enumerate(a.tolist()):
        i, s = divmod(at, b)
        pair = [(s, i, 1.0)] if floor or not s else [(s, i, 1 - s / b), (s - b, i + 1, s / b)]
        exist = [(t, k % n0 if wraps else k, share) for t, k, share in pair if wraps or 0 <= k < n0]
        total = sum(share for _, _, share in exist)
        for t, k, share in exist:
            uses.setdefault(t, []).append((j, k, share / total))
    shifts = []
    for numerator in sorted(uses, key=abs):
        target, node, share = (torch.from_numpy(np.array(column)) for column in zip(*uses[numerator], strict=True))
        source = _source(placement, n0, n, (numerator, b), method)
        shifts.append(Shift(numerator / b, *source, target, node, share))
    return size, tuple(shifts)


def _source(
    placement: str, n0: int, n: int, shift: tuple[int, int], method: str
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """``index``, ``beyond``, ``edge`` and ``matrix`` for the training grid, shifted by a fraction of its spacing."""
    more, wraps = PLACEMENTS[placement].more, PLACEMENTS[placement].wraps
    at, e = among(placement, n, placement, n0)  # unshifted nodes among the samples: at / e
    if n + more:  # (n + more) / (n0 + more) samples make one training spacing
        at = at * shift[1] * (n0 + more) + e * shift[0] * (n + more)
        e = e * shift[1] * (n0 + more)
    first, last = np.zeros_like(at), np.full_like(at, e * (n - 1))
    outside = np.zeros_like(at, dtype=bool) if wraps else (at < first) | (at > last)
    edge = np.where(at < 0, 0, n - 1)
    if not wraps:
        at = np.where(at < first, -at, np.where(at > last, 2 * last - at, at)).clip(first, last)
    low, rest = at // e, at % e
    index = low + (2 * rest > e)
    index = index % n if wraps else index
    if method == "nearest":  # values stay those of the field
        index = np.where(outside, edge, index)
        return torch.from_numpy(index), None, torch.from_numpy(edge), None
    matrix = None
    if rest.any():
        matrix = matrix_at(torch.from_numpy(low), torch.from_numpy(rest / e), n, method, wraps)
        at_edge = torch.eye(n, dtype=torch.float64, device="cpu")[torch.from_numpy(edge)]
        matrix = torch.where(torch.from_numpy(outside)[:, None], 2 * at_edge - matrix, matrix)
    beyond = torch.from_numpy(outside) if outside.any() else None
    return torch.from_numpy(index), beyond, torch.from_numpy(edge), matrix


def whole_multiple(native: Shape, shape: Shape, placements: Sequence[str]) -> Shape:
    """The grid a whole number of times finer than the training grid that is the next to ``shape``, on every axis.

    >>> whole_multiple((33, 32), (100, 16), ("endpoint", "periodic"))
    (129, 32)
    """
    sizes = []
    for n0, n, placement in zip(native, shape, placements, strict=True):
        more = PLACEMENTS[placement].more
        sizes.append(max(-(-(n + more) // max(n0 + more, 1)), 1) * (n0 + more) - more)
    return tuple(sizes)


class ShiftedRuns(Adapted):
    """A model on any grid by runs on shifted training grids; :func:`shifted_runs` makes it and checks the model.

    ``floor`` says for each axis whether one run per shift is enough, else two neighbouring ones are blended.
    ``samples`` bounds how many samples of training grids run as one batch, whatever the new grid. With a ``plan`` the
    fields that the model makes itself, such as coordinates, are shifted with the grid. Gradients pass through all runs.
    """

    way = "shifted_runs"
    not_on_shards = "it takes shifted copies of the whole field; shard the model itself, or one that is anchored"

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        layout: str = "first",
        restrict: str = "cubic",
        floor: tuple[bool, ...] | None = None,
        samples: int = SAMPLES,
        plan: CallPlan | None = None,
    ) -> None:
        super().__init__(model, resolution, placements, layout)
        if restrict not in METHODS:
            raise ValueError(unknown("way to interpolate", restrict, METHODS))
        if samples < 1:
            raise ValueError(f"samples must be positive, got {samples}")
        self.restrict, self.samples = restrict, samples
        self.floor = floor or (False,) * len(resolution)
        self.fields = plan

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> None:
        """Nothing is known of the model."""

    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution:
            return self.model(*args, **kwargs)
        return self.steered(self.model, None, args, kwargs, shape)

    def steered(self, model: nn.Module, plan: None, args: Any, kwargs: Any, shape: Shape) -> Any:
        axes = [
            axis_shifts(*axis, self.restrict)
            for axis in zip(self.placements, self.resolution, shape, self.floor, strict=True)
        ]
        sizes = tuple(size for size, _ in axes)
        total = _Interlaced(self.resolution, sizes, self.layout)
        for batch in self._batches((args, kwargs), shape, [shifts for _, shifts in axes]):
            total.add(self._run(model, batch), [shifts for shifts, _ in batch])
        return total.result(shape, self.placements)

    def runs(self, shape: Shape) -> int:
        """How many training grids are run for one input on the grid ``shape``."""
        axes = zip(self.placements, self.resolution, shape, self.floor, strict=True)
        return prod(len(axis_shifts(*axis, self.restrict)[1]) for axis in axes)

    def _batches(
        self, value: Any, shape: Shape, axes: list[tuple[Shift, ...]]
    ) -> Iterator[list[tuple[tuple[Shift, ...], Any]]]:
        """The arguments on the shifted grids, as many together as may run in one batch."""
        at_once = self._at_once(value, shape)
        batch = []
        for shifted in self._shifted(value, shape, axes):
            batch.append(shifted)
            if len(batch) == at_once:
                yield batch
                batch = []
        if batch:
            yield batch

    def _shifted(
        self, value: Any, shape: Shape, axes: list[tuple[Shift, ...]], done: tuple[Shift, ...] = ()
    ) -> Iterator[tuple[tuple[Shift, ...], Any]]:
        """Every combination of shifts, and the arguments there; fields are taken axis by axis."""
        k = len(done)
        if k == len(axes):
            yield done, value
            return
        smaller = (*shape[:k], self.resolution[k], *shape[k + 1 :])
        for shift in axes[k]:
            moved = map_fields(value, shape, self.layout, lambda x, dims, s=shift: s.taken(x, dims[k]))
            yield from self._shifted(moved, smaller, axes, (*done, shift))

    def _at_once(self, value: Any, shape: Shape) -> int:
        """How many shifts run in one batch; one where fields do not share an axis for it."""
        size = None if self.fields is not None else self._batch_size(value, shape)
        size = size and (RECORDED if is_recording() else size)  # a graph is for all batches
        return max(1, self.samples // (size * prod(self.resolution))) if size else 1

    def _batch_size(self, value: Any, shape: Shape) -> int | None:
        """The length of the first axis that all fields have before those of the grid, if they do."""
        sizes: list[int] = []

        def look(x: Tensor, dims: Dims) -> Tensor:
            sizes.append(x.shape[0] if dims[0] else 0)
            return x

        map_fields(value, shape, self.layout, look)
        return sizes[0] or None if all(n == sizes[0] for n in sizes) else None

    def _run(self, model: nn.Module, batch: list[tuple[tuple[Shift, ...], Any]]) -> list[Any]:
        """The model on several shifted grids, as one batch."""
        values = [value for _, value in batch]
        if len(values) == 1:
            args, kwargs = values[0]
            if self.fields is None:
                return [model(*args, **kwargs)]
            return [run_under(model, ShiftedFields(self.fields, [s.value for s in batch[0][0]]), args, kwargs)]
        lists = [tensors(v) for v in values]
        size = self._batch_size(values[0], self.resolution) or 1
        order = iter(zip(*lists, strict=True))

        def together(t: Tensor) -> Tensor:
            copies = next(order)
            return torch.cat(copies) if t.ndim and t.shape[0] == size else t

        args, kwargs = mapped(together, values[0])
        y = model(*args, **kwargs)
        return [mapped(partial(_part, k, len(values), size), y) for k in range(len(values))]

    def extra_repr(self) -> str:
        """The grid and the ways."""
        return f"resolution={self.resolution}, placement={self.placements}, floor={self.floor}"


def _part(k: int, count: int, size: int, t: Tensor) -> Tensor:
    """The k-th of ``count`` parts of an output of one batch, each ``size`` long."""
    if t.ndim == 0 or t.shape[0] != count * size:
        return t
    return t.narrow(0, k * size, size)


class _Interlaced:
    """Outputs on the grid ``shape``, summed up from those of shifted runs."""

    def __init__(self, native: Shape, shape: Shape, layout: str) -> None:
        self.native, self.shape, self.layout = native, shape, layout
        self.first: Any = None  # of the least shifted run; what is no field stays its
        self.fields: list[Tensor] = []

    def add(self, outputs: list[Any], shifts: list[tuple[Shift, ...]]) -> None:
        for y, shift in zip(outputs, shifts, strict=True):
            parts = self._fields(y)
            if self.first is None:
                if not parts:
                    shapes = ", ".join(str(tuple(t.shape)) for t in tensors(y)) or type(y).__name__
                    raise CannotFollowError(
                        f"shifted runs interlace outputs on the training grid {size_text(self.native)}, and the model "
                        f"returned {shapes}; quadnorm.at_native serves outputs on other grids"
                    )
                self.first = y
                self.fields = [p.new_zeros(*p.shape[: -len(self.shape)], *self.shape) for p in parts]
            for total, p in zip(self.fields, parts, strict=True):
                self._add(total, p, shift)

    def _fields(self, y: Any) -> list[Tensor]:
        """Every field of an output, its axes on the grid last."""
        fields: list[Tensor] = []
        last = tuple(range(-len(self.native), 0))

        def collect(x: Tensor, dims: Dims) -> Tensor:
            fields.append(x.movedim(dims, last))
            return x

        map_fields(y, self.native, self.layout, collect, outputs=True)
        return fields

    @staticmethod
    def _add(total: Tensor, part: Tensor, shifts: tuple[Shift, ...]) -> None:
        d = len(shifts)
        places = []
        for k, s in enumerate(shifts):
            along = [-1 if i == k else 1 for i in range(d)]
            part = part.index_select(k - d, s.node.to(part.device))
            if not s.takes_all():
                part = part * s.share.to(part.device, part.dtype).view(along)
            places.append(s.target.to(part.device).view(along))
        at: Any = (..., *places)
        total[at] = total[at] + part

    def result(self, shape: Shape, placements: tuple[str, ...]) -> Any:
        """The output on the grid ``shape``; carried there if it was summed up on another one."""
        order, last = iter(self.fields), tuple(range(-len(shape), 0))

        def put(x: Tensor, dims: Dims) -> Tensor:
            y = next(order)
            y = y if self.shape == shape else carry(y, shape, placements)
            return y.movedim(last, dims)

        return map_fields(self.first, self.native, self.layout, put, outputs=True)


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

    With h₀ the training spacing and :math:`G_s` the model on the training grid shifted by s, at a node that lies θ of
    the way from the training node i to the next one, on every axis

    .. math:: y(i + θ) = (1 - θ)\, G_θ(x)_i + θ\, G_{θ-1}(x)_{i+1}

    Both terms are the model's own output at this node; the blend makes y continuous across the training nodes, at which
    y is the native run's output. On periodic axes where the model commutes with rolls by one sample the two are equal,
    and one is run. The one node outside of the domain that a shifted grid may have continues the input by odd
    reflection. Ratios of grids need not be whole: inputs between samples are interpolated.

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
    modes = [(m, m.training) for m in model.modules()]  # parts may be in another mode than the whole
    model.eval()
    try:
        own = own_fields(model, probe)
        if own:
            raise CannotFollowError(own)
        floor = tuple(commutes_with_rolls(model, probe, k) for k in range(len(sizes)))
        shifted = ShiftedRuns(model, sizes, names, probe.layout, restrict, floor, samples)
        if gap_of_shifted(shifted, probe)[0]:
            shifted.samples = 1  # the model may not take shifted grids as one batch
            fault, _ = gap_of_shifted(shifted, probe)
            if fault:
                raise CannotFollowError(f"{fault}; quadnorm.at_native serves any model")
    finally:
        for m, training in modes:
            m.training = training
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
    return relative_gap(trial_output(model, rolled(given)), rolled(trial_output(model, given), outputs=True)) <= 1


def relative_gap(y: Any, expected: Any) -> float:
    """The largest relative distance of two outputs, in units of what rounding may do; infinite if they do not match."""
    pairs = list(zip(tensors(y), tensors(expected), strict=False))
    worst = 0.0
    for a, b in pairs:
        if a.shape != b.shape:
            return float("inf")
        if a.is_floating_point() or a.is_complex():
            gap = (a - b).norm() / b.norm().clamp_min(torch.finfo(b.dtype).tiny)
            worst = max(worst, float(gap) / TOLERANCE.get(a.dtype, 3e-2))
    return worst if pairs else float("inf")


def gap_of_shifted(shifted: nn.Module, probe: Probe) -> tuple[str, float]:
    """How shifted runs differ from the native run at its nodes, on a grid that contains them, in words (empty if they
    agree) and as a number."""
    shape = probe.finer
    args, kwargs = probe.at(shape)
    native = trial_output(shifted.model, probe.arguments)  # type: ignore[arg-type]
    try:
        fine = trial_output(shifted, (args, {**kwargs, **probe.grid_option(shape)}))
    except CannotFollowError:
        raise
    except Exception as error:  # whatever the model makes of a larger batch
        return f"the model does not run on shifted training grids ({first_line(error)})", float("inf")
    last = tuple(range(-len(shape), 0))

    def at_nodes(x: Tensor, dims: Dims) -> Tensor:
        return carry(x.movedim(dims, last), probe.resolution, probe.placements).movedim(last, dims)

    gap = relative_gap(map_fields(fine, shape, probe.layout, at_nodes, outputs=True), native)
    fault = "" if gap <= 1 else f"shifted runs differ from the native run at its nodes, on {probe.source}"
    dtype = next((t.dtype for t in tensors(native)), torch.float32)
    return fault, gap * TOLERANCE.get(dtype, 3e-2)


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


class ShiftedFields(Steered):
    """A run on the training grid shifted by parts of a spacing; constant fields of the model are shifted with it."""

    def __init__(self, plan: CallPlan, shifts: Sequence[float]) -> None:
        super().__init__(plan, plan.nodes(plan.native))
        self.shifts = shifts

    def steer(self, call: Call, func: Any, args: Any, kwargs: Any) -> Any:
        given = tensors((args, kwargs))
        waves = any(t.is_complex() for t in given)  # a field of wavenumbers does not move
        if all(s == 0 for s in self.shifts) or waves:
            return func(*args, **kwargs)
        moved = {
            id(t): self._moved(t, forms)
            for t, forms, live in zip(given, call.argument_forms, call.live, strict=False)
            if not live and t.is_floating_point() and any(f.moves for f in forms)
        }
        args, kwargs = mapped(lambda t: moved.get(id(t), t), (args, kwargs)) if moved else (args, kwargs)
        return func(*args, **kwargs)

    def _moved(self, t: Tensor, forms: Forms) -> Tensor:
        """A field of the model's own at the shifted nodes; splines, which go on beyond the last node."""
        for dim, form in reversed(list(enumerate(forms))):
            if not form.moves:
                continue
            if not form.on_grid or form.fold != 1 or any(form.extra):
                raise CannotFollowError(
                    "the model makes coordinates on a grid of its own, coarser or padded, which cannot be shifted"
                )
            t = torch.unflatten(t, dim, [self.plan.native[k] for k in form.axes])
            for at, k in enumerate(form.axes, start=dim):
                if self.shifts[k]:
                    M = _shift_matrix(self.plan.native[k], self.shifts[k]).to(t.device, t.dtype)
                    t = torch.matmul(t.movedim(at, -1), M.T).movedim(-1, at)
            t = t.flatten(dim, dim + len(form.axes) - 1)
        return t


@constant
@lru_cache(maxsize=256)
def _shift_matrix(n: int, shift: float) -> Tensor:
    """M (n, n): values at n samples to values at places ``shift`` spacings further."""
    return interpolation(np.arange(n) + shift, n, wraps=False)
