""":func:`quadnorm.transfer`: a trained model on any other grid, as well as it can be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt.anchoring import anchor
from quadnorm.adapt.estimates import (
    NEWS,
    FieldShares,
    NewGrid,
    Pairs,
    combined,
    energy,
    outside_nodes,
    shares_of,
    variance_of,
)
from quadnorm.adapt.extending import extend
from quadnorm.adapt.layouts import Dims, map_fields, needs_grid
from quadnorm.adapt.models import guess_dimension, model_grid, states_placement
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.probes import layout_of_model, make_probe
from quadnorm.adapt.report import grid_text, size_text
from quadnorm.adapt.shifted import shifted_runs
from quadnorm.adapt.trees import Arguments, mapped, tensors
from quadnorm.adapt.watch import CannotFollowError, first_line, leaving_no_trace, trial_output
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS
from quadnorm.measures.base import Shape

PAIRS = 128  # at most so many of the given pairs are used
SAMPLES = 16  # of the first input on a grid, for the estimates there
_WHERE = (
    "where the samples lie is not said, and a wrong guess is worse than doing nothing; pass placement=: which line "
    "made your grid? linspace(0, 1, n): 'endpoint'; (arange(n) + 0.5)/n: 'cell'; arange(n)/n: 'periodic' if the domain "
    "closes there, else 'left'; linspace(0, 1, n + 2)[1:-1]: 'interior'; quadnorm.check_grid(coarse, fine) reads it "
    "off data at two resolutions"
)
Source = Callable[..., Any]  # takes the model's arguments on any grid and gives its output there


def transfer(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    data: tuple[Any, Any] | None = None,
    *,
    layout: str | None = None,
    restrict: str | None = None,
) -> Transferred:
    r"""A trained model on any other grid: one module for all of them, the model itself at its training grid.

    With :math:`v = G(R x)` the run at the training grid on the restricted input and P the interpolation to the new
    grid's nodes,

    .. math:: y = P\bigl(v - s\, v_{finest} + a\, \delta\bigr) + g\, (e - P v)

    - :math:`v_{finest}`: the finest scales of the native output, of which networks make noise; s by least squares
      against the targets at the training grid.
    - :math:`e`: the network evaluated at the new nodes with the sums of the native run (:func:`quadnorm.extend`; for
      models of stencils and patches shifted native runs). Its detail is trusted as far as detail of that size is to be
      expected: g is a Wiener gain, from how the targets' detail falls from level to level and how it goes with the
      input's. Outside the training nodes, where P extrapolates, g has another value, from extrapolating the model's own
      output to its outermost nodes.
    - :math:`\delta`: what the new input's detail does at the training nodes: anchored runs (:func:`quadnorm.anchor`)
      with it minus without it.

    Shares are estimated per channel, once for each grid, when the first input on it arrives; what would change little
    is not run. ``transferred.report`` says what is done on each grid and why; :meth:`Transferred.estimate` renews the
    estimates of a grid with inputs of your choice.

    Args:
        model: any module; not copied: training it trains this too.
        resolution: samples per axis of the training grid, a number for all axes or one each.
        placement: where its samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``, ``left``,
            ``interior``. Never assumed: it is needed unless the model says it (``model.placement``).
        data: input and target at the training grid, some ten pairs or more, best such as the model was not trained on:
            (x, y), where x is a tensor, a tuple of arguments or a dict of keyword arguments and y what the model is to
            return. Without it the native output stands in for the targets: the network's detail is then trusted too
            much, and nothing is smoothed.
        layout: where the channels of fields are, as for :func:`quadnorm.extend`.
        restrict: how inputs go to the training grid, as for :func:`quadnorm.at_native`. Default: ``nearest`` for
            inputs that are piecewise constant, else ``cubic``.

    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> x = torch.linspace(0, 1, 9).sin().expand(8, 1, 9) * torch.linspace(1, 2, 8).view(8, 1, 1)
    >>> everywhere = transfer(model, 9, "endpoint", data=(x, x**2))
    >>> torch.equal(everywhere(x), model(x)), everywhere(torch.rand(2, 1, 17)).shape
    (True, torch.Size([2, 1, 17]))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"transfer needs an nn.Module, got {model!r}")
    if restrict is not None and restrict not in METHODS:
        raise ValueError(unknown("way to restrict", restrict, METHODS))
    example, targets = _pair(data)
    axes = _with_axes(model, resolution, example)
    if placement is None and not states_placement(model):
        raise ValueError(_WHERE)
    sizes, names = model_grid(model, axes, placement)
    if layout == "points":
        raise ValueError(
            "transfer is for models of grids; a model of points runs on others by quadnorm.extend, quadnorm.anchor "
            '(layout="points") or quadnorm.at_native(model, points)'
        )
    if example is None:
        layout = layout or layout_of_model(model, sizes, names)
    else:
        layout = make_probe(model, sizes, names, _as_example(example), layout, partial(trial_output, model)).layout
    transferred = Transferred(model, sizes, names, restrict, layout)
    if example is not None:
        transferred.take_pairs(example, targets)
        transferred.choose_restriction(transferred.pairs.inputs)
        transferred.take_sources(transferred.some(example, 2))
    return transferred


def _pair(data: Any) -> tuple[Arguments | None, Any]:
    """Arguments and targets of ``data``."""
    if data is None:
        return None, None
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ValueError(
            f"data must be a pair (x, y) of inputs and targets at the training grid, got {type(data).__name__}"
            + (f" of {len(data)}" if isinstance(data, Sequence) else "")
        )
    x, y = data
    if isinstance(x, Mapping):
        return ((), dict(x)), y
    return ((tuple(x), {}) if isinstance(x, (tuple, list)) else ((x,), {})), y


def _as_example(arguments: Arguments) -> Any:
    """Arguments in the form of an example, which has no keywords beside positional ones."""
    return arguments[1] if arguments[1] else arguments[0]


def _with_axes(model: nn.Module, resolution: int | Sequence[int], arguments: Arguments | None) -> int | Sequence[int]:
    """The resolution, one number per axis where the model does not say how many it has but the data does."""
    if arguments is None or not isinstance(resolution, int) or isinstance(resolution, bool):
        return resolution
    if guess_dimension(model) is not None:
        return resolution
    for x in tensors(arguments):
        if x.ndim >= 3 and resolution in x.shape:
            return (resolution,) * (x.ndim - 2)
    return resolution


def _piecewise_constant(x: Tensor) -> bool:
    """Whether most neighbours in a field (B, C, *spatial) have the same value, and not all."""
    pairs = equal = 0
    for axis in range(2, x.ndim):
        a, b = x.narrow(axis, 1, x.shape[axis] - 1), x.narrow(axis, 0, x.shape[axis] - 1)
        pairs, equal = pairs + a.numel(), equal + int((a == b).sum())
    return pairs > equal > 0.5 * pairs


def fields_of(value: Any, grid: Shape, layout: str, outputs: bool = False) -> list[Tensor]:
    """The fields of real or complex numbers on a grid in a nested value, each as (B, C, *grid).

    The first axis beside the grid's is the batch; all others, such as channels and times, are channels here.
    """
    found: list[Tensor] = []

    def keep(x: Tensor, dims: Dims) -> Tensor:
        if x.is_floating_point() or x.is_complex():
            y = x.movedim(dims, tuple(range(-len(dims), 0)))
            batch = y.shape[0] if y.ndim > len(grid) else 1
            found.append(y.reshape(batch, prod(y.shape[1 : y.ndim - len(grid)]), *grid))
        return x

    map_fields(value, grid, layout, keep, outputs)
    return found


def with_fields(value: Any, grid: Shape, layout: str, fields: Iterator[Tensor]) -> Any:
    """The nested value with other fields (B, C, *grid) in place of its own."""

    def replace(x: Tensor, dims: Dims) -> Tensor:
        if not (x.is_floating_point() or x.is_complex()):
            return x
        last = tuple(range(-len(dims), 0))
        return next(fields).reshape(x.movedim(dims, last).shape).movedim(last, dims)

    return map_fields(value, grid, layout, replace, outputs=True)


@dataclass(frozen=True)
class OnGrid:
    """What is done on one grid: shares per output field, and remarks on what could not be."""

    shares: tuple[FieldShares, ...]
    notes: tuple[str, ...] = ()
    samples: int = 0

    @property
    def evaluates(self) -> bool:
        return any(s.evaluates for s in self.shares)

    @property
    def anchors(self) -> bool:
        return any(s.anchors for s in self.shares)


@dataclass
class TransferReport:
    """What :func:`transfer` does on each grid that it has been used on, and why; ``print`` it."""

    title: str
    notes: list[str] = field(default_factory=list)
    grids: dict[Shape, OnGrid] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self.title, *(f"note: {n}" for n in self.notes)]
        for shape, on_grid in self.grids.items():
            lines += _grid_lines(shape, on_grid)
        if not self.grids:
            lines.append("no other grid has been used yet: estimates are made with the first input on a grid")
        return "\n".join(lines)


def _grid_lines(shape: Shape, on_grid: OnGrid) -> list[str]:
    runs = ["the run at the training grid"]
    runs += ["the network evaluated at the new nodes"] * on_grid.evaluates
    runs += ["two anchored runs"] * on_grid.anchors
    lines = [f"on {size_text(shape)} (estimated with {on_grid.samples} inputs): {', '.join(runs)}"]
    for k, s in enumerate(on_grid.shares):
        lines += [f"  output {k + 1}: {text}" if len(on_grid.shares) > 1 else f"  {text}" for text in _words(s)]
    return lines + [f"  {note}" for note in on_grid.notes]


def _words(s: FieldShares) -> Iterator[str]:
    """One sentence for each part of the sum."""
    if (s.smoothing > 0).any():
        yield f"finest scale of the native output: {_range(s.smoothing[0])} of it taken out as noise"
    facts = s.facts
    if "predicted" in facts:
        sizes = (
            f"the network's detail is {_root(facts['predicted'])} of the output, {_root(facts['expected'])} is to be "
        )
        sizes += f"expected, and one level down {_range(facts['trust'])} of it is right"
        used = f"{_range(s.gain)} of it is used" if s.evaluates else "it is left out, as too little would change"
        yield f"between the training nodes: {sizes}: {used}"
    if "beyond" in facts:
        missed = f"extrapolation misses {_root(facts['missed'])} of the output, the network differs from it by "
        yield f"outside the training nodes: {missed}{_root(facts['beyond'])}: {_range(s.outside)} of that is used"
    if "effect" in facts:
        done = f"the input's detail (energy {facts['input_detail']:.2g} of its variance) changes the output by "
        used = f"{s.news[0]:.2f} of the change is used, {s.news[1]:.2f} of its finest scale"
        yield f"news: {done}{_root(facts['effect'])}: " + (used if s.anchors else "left out, as too little")


def _range(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"


def _root(values: Tensor) -> str:
    roots = 100 * values.double().sqrt()
    low, high = float(roots.min()), float(roots.max())
    return f"{low:.2g} %" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g} %"


class Transferred(AtNative):
    """A model on any grid; see :func:`transfer`.

    ``model`` is the model itself, not a copy. ``report`` says what is done on each grid.
    """

    report: TransferReport

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], restrict: str | None, layout: str | None
    ) -> None:
        super().__init__(model, resolution, placements, restrict or "cubic", "cubic", layout)
        self._restrict_open = restrict is None
        self.pairs = Pairs((), ())
        self.report = TransferReport(f"transferred from {grid_text(resolution, placements)}")
        self._sources: dict[str, Any] = {}  # not submodules: they are the model, or share its parameters

    def take_pairs(self, arguments: Arguments, targets: Any) -> None:
        """Keep inputs, targets and native outputs at the training grid, for the estimates."""
        inputs = self._inputs_in(arguments, self.resolution)
        batch = len(inputs[0])
        kept = self.some(arguments, PAIRS)
        with _evaluating(self.model), leaving_no_trace(self.model):
            outputs = self._outputs_of(kept, min(batch, PAIRS))
        wanted = self._outputs_in(targets, self.resolution)
        if len(wanted) != len(outputs) or any(len(u) != batch for u in wanted):
            raise ValueError(
                f"data: the targets must be {batch} samples of what the model returns at {size_text(self.resolution)}, "
                f"{_shapes(outputs)}; got {_shapes(tensors(targets))}"
            )
        wanted = [u[: len(v)].to(v.device, v.dtype) for u, v in zip(wanted, outputs, strict=True)]
        for u, v in zip(wanted, outputs, strict=True):
            if u.shape != v.shape:
                raise ValueError(
                    f"data: the model returns fields {tuple(v.shape[1:])}, the targets are {tuple(u.shape[1:])}"
                )
            if not torch.isfinite(u).all() or not torch.isfinite(v).all():
                raise ValueError("data: targets or the model's outputs hold NaN or infinite values")
        inputs = self._inputs_in(kept, self.resolution)
        self.pairs = Pairs(tuple(t.detach() for t in inputs), tuple(outputs), tuple(wanted))
        errors = [float((energy(u - v, _size(u))).mean().sqrt()) for u, v in zip(wanted, outputs, strict=True)]
        text = ", ".join(f"{100 * e:.3g} %" for e in errors)
        self.report.notes.append(f"estimates from {len(wanted[0])} pairs at the training grid; error there {text}")

    def choose_restriction(self, inputs: Sequence[Tensor]) -> None:
        """Restrict piecewise constant inputs to values of their own, unless something else was asked for."""
        if self._restrict_open and any(_piecewise_constant(x) for x in inputs):
            self.restrict = "nearest"
        self._restrict_open = False

    def take_sources(self, arguments: Arguments) -> None:
        """Find out where the network's own detail comes from, and whether the model can be anchored.

        ``arguments``: some inputs at the training grid.
        """
        options: dict[str, Any] = {"example": _as_example(arguments), "layout": self.layout}
        grid = (self.resolution, self.placements)
        try:
            extended = extend(self.model, *grid, restrict=self.restrict, **options)
            if any(e.action == "carried" for e in extended.extend_report):
                raise CannotFollowError("kernels of several samples, whose results extension interpolates")
            self._sources["detail"] = extended
            if extended.stencils != "carried":
                how = {"dilated": "stencils at the training grid's spacing", "shifted": "shifted native runs"}
                self._note(f"the network's detail by {how[extended.stencils]}")
        except Exception as error:  # whatever the model's own code makes of other grids
            try:
                self._sources["detail"] = shifted_runs(self.model, *grid, restrict=self.restrict, **options)
                self._note(f"the network's detail by shifted native runs ({_why(error)})")
            except Exception as second:
                self._note(
                    f"no detail of the network's own: extend refuses ({_why(error)}), and so do shifted runs "
                    f"({_why(second)})"
                )
        try:
            anchored = anchor(self.model, *grid, share=True, force=True, **options)
            self._sources["anchored"] = anchored
        except Exception as error:
            self._note(
                f"what the input's detail does at the training nodes is not known: anchor refuses ({_why(error)})"
            )
        if not self.pairs.targets:
            self._note(
                "no pairs were given: the native output stands in for the targets, so that its noise counts as detail; "
                "pass data=(x, y) at the training grid for better estimates"
            )

    def _note(self, text: str) -> None:
        self.report.notes.append(text)

    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution or any(0 in t.shape for t in tensors((args, kwargs))):
            return self.model(*args, **kwargs)
        if shape not in self.report.grids:
            self._estimate((args, kwargs), shape)
        return self._added_up((args, kwargs), shape, self.report.grids[shape])

    def estimate(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> OnGrid | None:
        """Make, or renew, the estimates for the grid of these inputs; None at the training grid, which needs none."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution:
            return None
        self._estimate((args, kwargs), shape)
        return self.report.grids[shape]

    def _added_up(self, arguments: Arguments, shape: Shape, on_grid: OnGrid) -> Any:
        given = self.restricted(arguments, shape)
        native = self.model(*given[0], **given[1])
        carried = self.carried(native, shape, arguments)
        v = self._outputs_in(native, self.resolution)
        n = self._outputs_in(carried, shape)
        if not v or len(v) != len(n) or len(v) != len(on_grid.shares):
            return carried
        e = self._evaluated(arguments, shape) if on_grid.evaluates else [None] * len(v)
        d = self._effects(arguments, given, shape) if on_grid.anchors else [None] * len(v)
        parts = zip(on_grid.shares, v, n, e, d, strict=True)
        results = (combined(*p, placements=self.placements) for p in parts)
        return with_fields(carried, shape, self._layout, results)

    def _evaluated(self, arguments: Arguments, shape: Shape) -> list[Tensor]:
        """The network's own output at the new grid's nodes."""
        options = {"grid": shape} if needs_grid(self._layout, len(shape)) else {}
        y = self._sources["detail"](*arguments[0], **arguments[1], **options)
        return self._outputs_in(y, shape)

    def _effects(self, arguments: Arguments, given: Arguments, shape: Shape) -> list[Tensor]:
        """What the new input's detail does at the training nodes: anchored with it minus anchored without it."""
        anchored = self._sources["anchored"]
        by_calls = hasattr(anchored, "layout")
        options = {"grid": shape} if by_calls and needs_grid(self._layout, len(shape)) else {}
        without = self._regridded(given, self.resolution, shape, self._back)
        a, b = (self._outputs_in(anchored(*z[0], **z[1], **options), shape) for z in (arguments, without))
        return [carry(p - q, self.resolution, self.placements, "cubic") for p, q in zip(a, b, strict=True)]

    @property
    def _layout(self) -> str:
        """The layout, which is known once a grid has been looked for."""
        return self.layout or "first"

    def _inputs_in(self, arguments: Any, shape: Shape) -> list[Tensor]:
        return fields_of(arguments, shape, self._layout)

    def _outputs_in(self, output: Any, shape: Shape) -> list[Tensor]:
        return fields_of(output, shape, self._layout, outputs=True)

    @property
    def _back(self) -> str:
        """How an input without its news goes back to the new grid: jumps must not ring."""
        return "linear" if self.restrict == "nearest" else "cubic"

    def _estimate(self, arguments: Arguments, shape: Shape) -> None:
        """The shares on a grid, from the pairs and some of the inputs there."""
        arguments = self.some(mapped(lambda t: t.detach(), arguments), SAMPLES, shape)
        notes: list[str] = []
        if not self.pairs.targets and not self._sources:
            self.choose_restriction(self._inputs_in(arguments, shape))
            self.take_sources(self.some(self.restricted(arguments, shape), 2))
        with _evaluating(self.model), leaving_no_trace(self.model):
            given = self.restricted(arguments, shape)
            native = self.model(*given[0], **given[1])
            v = self._outputs_in(native, self.resolution)
            n = self._outputs_in(self.carried(native, shape, arguments), shape)
            inputs = self._inputs_in(given, self.resolution)
            pairs = self.pairs if self.pairs.outputs else Pairs(tuple(inputs), tuple(v))
            if not v or len(v) != len(n) or [t.shape[1:] for t in v] != [t.shape[1:] for t in pairs.outputs]:
                note = "the output is no field on the grid of the input: the run at the training grid serves alone"
                self.report.grids[shape] = OnGrid((), (note,), len(inputs[0]))
                return
            detail = self._input_detail(arguments, given, shape, pairs)
            finer = any(a > b for a, b in zip(shape, self.resolution, strict=True))
            evaluated = self._tried("detail", notes, n, lambda: self._evaluated(arguments, shape))
            effects = None
            if finer and detail > NEWS:
                effects = self._tried("anchored", notes, v, lambda: self._effects(arguments, given, shape))
        new = NewGrid(shape, detail, tuple(v), tuple(n), evaluated, effects)
        shares = tuple(shares_of(pairs, k, new, self.resolution, self.placements) for k in range(len(v)))
        self.report.grids[shape] = OnGrid(shares, tuple(notes), len(n[0]))

    def _tried(
        self, source: str, notes: list[str], like: list[Tensor], run: Callable[[], list[Tensor]]
    ) -> tuple[Tensor, ...] | None:
        """What a source gives on this grid; None, with a note, where it does not run or gives no usable fields."""
        if source not in self._sources:
            return None
        what = "the network's own detail" if source == "detail" else "the anchored model"
        try:
            fields = run()
        except Exception as error:  # whatever the model's own code makes of this grid
            notes.append(f"{what} does not run here ({_why(error)})")
            return None
        if [t.shape for t in fields] != [t.shape for t in like] or not all(torch.isfinite(t).all() for t in fields):
            notes.append(f"{what} gives other fields than the run at the training grid, or not finite ones")
            return None
        return tuple(fields)

    def _input_detail(self, arguments: Arguments, given: Arguments, shape: Shape, pairs: Pairs) -> float:
        """Energy of what the training grid does not hold of the inputs, over their variance, all channels."""
        inside = ~outside_nodes(self.resolution, shape, self.placements)
        total = 0.0
        back = self._regridded(given, self.resolution, shape, "cubic")
        fields = [self._inputs_in(z, shape) for z in (arguments, back)]
        for k, (x, y) in enumerate(zip(*fields, strict=True)):
            usual = pairs.inputs[k] if k < len(pairs.inputs) and pairs.inputs[k].shape[1] == x.shape[1] else x
            total += float(energy(x - y, variance_of(usual).expand(len(x), -1), inside).sum())
        return total

    def some(self, arguments: Arguments, count: int, shape: Shape | None = None) -> Arguments:
        """The first samples of a batch; the whole batch where it is not clear which tensors have one."""
        grid = shape or self.resolution
        fields = self._inputs_in(arguments, grid)
        batch = len(fields[0]) if fields else 0
        if batch <= count or any(t.ndim < 3 and batch in t.shape and batch in grid for t in tensors(arguments)):
            return arguments
        taken: Arguments = mapped(lambda t: t[:count] if t.ndim and t.shape[0] == batch else t, arguments)
        return taken

    def _outputs_of(self, arguments: Arguments, batch: int) -> list[Tensor]:
        """The model's output fields at the training grid, run in parts."""
        parts: list[list[Tensor]] = []
        start = 0
        while start < batch:
            rest = mapped(partial(_from, start, batch), arguments)
            part = self.some(rest, SAMPLES)
            fields = self._outputs_in(self.model(*part[0], **part[1]), self.resolution)
            if not fields:
                raise ValueError(
                    f"data: the model returns no field at {size_text(self.resolution)} to compare with the targets"
                )
            parts.append(fields)
            start += len(fields[0])
        return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]


def _from(start: int, batch: int, t: Tensor) -> Tensor:
    return t[start:] if t.ndim and t.shape[0] == batch else t


def _size(u: Tensor) -> Tensor:
    return u.abs().double().square().flatten(2).mean(-1).clamp_min(1e-280)


def _shapes(fields: Sequence[Tensor]) -> str:
    return ", ".join(str(tuple(t.shape)) for t in fields) or "no tensor"


def _why(error: Exception) -> str:
    text = str(error).split(";")[0] if isinstance(error, CannotFollowError) else first_line(error).split(";")[0]
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, and each of its parts back in its own mode afterwards."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training
