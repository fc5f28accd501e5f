"""The model that :func:`quadnorm.transfer` returns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from quadnorm.adapt.adapted import Adapted, trial
from quadnorm.adapt.estimates import NEWS, Learned, NewGrid, Pairs, input_detail, learn, shares_of
from quadnorm.adapt.levels import (
    energy,
    fields_of,
    is_piecewise_constant,
    next_samples,
    outside_nodes,
    own_scale,
    with_fields,
)
from quadnorm.adapt.native import AtNative
from quadnorm.adapt.report import grid_text, size_text
from quadnorm.adapt.shares import OnGrid, TransferReport, combined
from quadnorm.adapt.sources import SourcePlan, Sources, why
from quadnorm.adapt.trees import Arguments, as_arguments, mapped, tensors
from quadnorm.adapt.watching.layouts import map_fields
from quadnorm.adapt.watching.watch import evaluating, leaving_no_trace
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS

PAIRS = 128  # at most so many of the given pairs are used
SAMPLES = 16  # of the first input on a grid, for the estimates there


class Transferred(AtNative):
    """A model on any grid; see :func:`transfer`.

    ``model`` is the model itself, not a copy. ``report`` says what is done on each grid.
    """

    way = "transfer"

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], restrict: str | None, layout: str | None
    ) -> None:
        super().__init__(model, resolution, placements, restrict or "cubic", "cubic", layout)
        self._restrict_open = restrict is None
        self.learned: Learned | None = None  # from pairs at the training grid
        self.report = TransferReport(f"transferred from {grid_text(resolution, placements)}")
        self._inputs: Arguments | None = None  # some inputs at the training grid
        self._sources: Sources | None = None

    # --- what is known of the model at its training grid ------------------------------------------------------------

    def take_pairs(self, arguments: Arguments, targets: Any) -> None:
        """Learn from inputs, targets and native outputs at the training grid."""
        batch = len(self._inputs_in(arguments, self.resolution)[0])
        if not batch:
            raise ValueError("data holds no sample; give some pairs at the training grid, or data=None")
        kept = self.some(arguments, PAIRS)
        with evaluating(self.model), leaving_no_trace(self.model):
            outputs = self._outputs_of(kept, min(batch, PAIRS))
        wanted = self._outputs_in(targets, self.resolution)
        if len(wanted) != len(outputs) or any(len(u) != batch for u in wanted):
            raise ValueError(
                f"data: the targets must be {batch} samples of what the model returns at {size_text(self.resolution)}, "
                f"{_shapes(outputs)}; got {_shapes(tensors(targets))}"
            )
        wanted = [u[: len(v)].to(v.device, v.dtype).detach() for u, v in zip(wanted, outputs, strict=True)]
        for u, v in zip(wanted, outputs, strict=True):
            if u.shape != v.shape:
                raise ValueError(
                    f"data: the model returns fields {tuple(v.shape[1:])}, the targets are {tuple(u.shape[1:])}"
                )
            if not torch.isfinite(u).all() or not torch.isfinite(v).all():
                raise ValueError("data: targets or the model's outputs hold NaN or infinite values")
        inputs = [x.detach() for x in self._inputs_in(kept, self.resolution)]
        self._choose_restriction(inputs)
        self._inputs = mapped(Tensor.detach, self.some(kept, SAMPLES))
        self.learned = learn(Pairs(tuple(inputs), tuple(outputs), tuple(wanted)), self.placements)
        errors = (float(energy(u - v, own_scale(u, 0.0)).mean().sqrt()) for u, v in zip(wanted, outputs, strict=True))
        text = ", ".join(f"{100 * e:.3g} %" for e in errors)
        self.report.notes.append(f"estimates from {len(wanted[0])} pairs at the training grid; error there {text}")

    def _choose_restriction(self, inputs: Sequence[Tensor]) -> None:
        """Restrict piecewise constant inputs to values of their own, unless something else was asked for."""
        if self._restrict_open and any(is_piecewise_constant(x) for x in inputs):
            self.restrict = "nearest"
        self._restrict_open = False

    def take_sources(self, arguments: Arguments) -> None:
        """Find out where the network's own detail comes from; ``arguments``: some inputs at the training grid."""
        self.example = mapped(Tensor.detach, arguments)
        example = self.example[1] or self.example[0]
        self._sources = Sources(
            self.model, self.restrict, self.resolution, self.placements, example=example, layout=self.layout
        )
        self.report.notes += [note for note in self._sources.notes if note not in self.report.notes]
        if self.learned is None:
            self.report.notes.append(
                "no pairs were given: the native output stands in for the targets, so that its noise counts as detail; "
                "pass data=(x, y) at the training grid for better estimates"
            )

    def options(self) -> dict[str, Any]:
        learned = None if self.learned is None else self.learned.saved()
        return {"restrict": None if self._restrict_open else self.restrict, "learned": learned, **self.report.saved()}

    # --- runs -------------------------------------------------------------------------------------------------------

    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution or any(0 in t.shape for t in tensors((args, kwargs))):
            return self.model(*args, **kwargs)
        if not self._knows(shape):
            self._estimate((args, kwargs), shape)
        on_grid = self.report.grids[shape]
        if on_grid.evaluates or on_grid.anchors:
            return Adapted.forward(self, *args, grid=grid, **kwargs)
        return self.steered(self.model, None, args, kwargs, shape)

    def at(self, grid: int | Sequence[int], *, batch: int | None = None, example: Any = None) -> fx.GraphModule:
        """The plain module of one grid (:meth:`Adapted.at`), with the estimates for it; where no input on this grid has
        been seen, they are made with ``example``, or with inputs of the training grid, interpolated."""
        shape = (grid,) * len(self.resolution) if isinstance(grid, int) else tuple(grid)
        given = self._inputs if example is None else as_arguments(example)
        if shape != self.resolution and not self._knows(shape) and given is not None:
            own = self.grid_of(*given, self.resolution if example is None else None)
            self._estimate(self.regridded(given, own, shape), shape)
        if shape != self.resolution and shape not in self.report.grids:
            raise ValueError(
                f"nothing is known yet of inputs at {size_text(shape)}; pass example=, or call it there once"
            )
        return super().at(grid, batch=batch, example=example)

    def kind_of(self, args: Any, kwargs: Any, shape: Shape | None) -> Hashable:
        return shape, super().kind_of(args, kwargs, shape)  # each grid has needs of its own

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> SourcePlan:
        super().plan_for(model, args, kwargs, shape)
        on_grid = self.report.grids.get(shape)
        if self._sources is None or on_grid is None:
            return SourcePlan()
        return self._sources.plan(model, (args, kwargs), shape, on_grid.evaluates, on_grid.anchors)

    def steered(self, model: nn.Module, plan: SourcePlan | None, args: Any, kwargs: Any, shape: Shape) -> Any:
        on_grid, plan, new = self.report.grids.get(shape), plan or SourcePlan(), (args, kwargs)
        if on_grid is None:  # where plans are made before there are shares
            return super().steered(model, None, args, kwargs, shape)
        given = self.restricted(new, shape)
        if on_grid.evaluates:
            assert self._sources is not None
            native, evaluated = self._sources.with_native_run(model, plan, given, new, shape)
        else:
            native, evaluated = model(*given[0], **given[1]), None
        carried = self.carried(model, native, shape, new)
        v, n = self._outputs_in(native, self.resolution), self._outputs_in(carried, shape)
        if not v or len(v) != len(n) or len(v) != len(on_grid.shares):
            return carried
        e = self._outputs_in(evaluated, shape) if on_grid.evaluates else [None] * len(v)
        d = self._effects(model, plan, given, new, shape)[: len(v)] if on_grid.anchors else [None] * len(v)
        parts = zip(on_grid.shares, v, n, e, d, strict=True)
        results = (combined(*p, placements=self.placements) for p in parts)
        return with_fields(carried, shape, self._layout, results)

    def _effects(
        self, model: nn.Module, plan: SourcePlan, given: Arguments, new: Arguments, shape: Shape
    ) -> list[Tensor]:
        """What the new input's detail does at the training nodes, anchored with it minus anchored without it; and
        then the latter, which would be the native run if anchoring left nothing of the grid in the model."""
        assert plan.sums is not None
        back = "linear" if self.restrict == "nearest" else "cubic"  # jumps must not ring
        without = self.regridded(given, self.resolution, shape, back)
        a, b = (self._outputs_in(plan.sums.run(model, z, shape), shape) for z in (new, without))
        at_nodes = [carry(q, self.resolution, self.placements, "cubic") for q in b]
        effects = [carry(p - q, self.resolution, self.placements, "cubic") for p, q in zip(a, b, strict=True)]
        return effects + at_nodes

    @property
    def _layout(self) -> str:
        """The layout, which is known once a grid has been looked for."""
        return self.layout or "first"

    def _inputs_in(self, arguments: Any, shape: Shape) -> list[Tensor]:
        return fields_of(arguments, shape, self._layout)

    def _outputs_in(self, output: Any, shape: Shape) -> list[Tensor]:
        return fields_of(output, shape, self._layout, outputs=True)

    # --- estimates --------------------------------------------------------------------------------------------------

    def estimate(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> OnGrid | None:
        """Make, or renew, the estimates for the grid of these inputs; None at the training grid, which needs none."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution:
            return None
        with trial():
            self._estimate((args, kwargs), shape, again=True)
            self.forget()  # graphs hold the shares
        return self.report.grids[shape]

    def _knows(self, shape: Shape) -> bool:
        """Whether a grid's shares are known, and the sources that they need; a file has no sources."""
        on_grid = self.report.grids.get(shape)
        return on_grid is not None and (self._sources is not None or not (on_grid.evaluates or on_grid.anchors))

    def _estimate(self, arguments: Arguments, shape: Shape, again: bool = False) -> None:
        """The shares on a grid, from the pairs and some of the inputs there, if they are not known or made ``again``.

        The sources are found out where they are missing.
        """
        with trial():
            arguments = self.some(mapped(Tensor.detach, arguments), SAMPLES, shape)
            if self._sources is None:
                self._choose_restriction(self._inputs_in(arguments, shape))
                self.take_sources(self.some(self.restricted(arguments, shape), 2))
            if shape in self.report.grids and not again:  # another thread was first, or a file has them
                return
            with evaluating(self.model), leaving_no_trace(self.model):
                self.report.grids[shape] = self._on_grid(arguments, shape)

    def _on_grid(self, arguments: Arguments, shape: Shape) -> OnGrid:
        notes: list[str] = []
        given = self.restricted(arguments, shape)
        native = self.model(*given[0], **given[1])
        v = self._outputs_in(native, self.resolution)
        n = self._outputs_in(self.carried(self.model, native, shape, arguments), shape)
        inputs = self._inputs_in(given, self.resolution)
        learned = self.learned or learn(Pairs(tuple(inputs), tuple(v)), self.placements)
        if not v or len(v) != len(n) or [t.shape[1] for t in v] != [len(f.error) for f in learned.fields]:
            note = "the output is no field on the grid of the input: the run at the training grid serves alone"
            return OnGrid((), (note,), len(inputs[0]))
        back = self.regridded(given, self.resolution, shape, "cubic")
        inside = ~outside_nodes(self.resolution, shape, self.placements)
        detail = input_detail(learned, self._inputs_in(arguments, shape), self._inputs_in(back, shape), inside)
        finer = any(a > b for a, b in zip(shape, self.resolution, strict=True))

        sources, new = self._sources, (arguments, shape)
        assert sources is not None

        def tried(what: str, like: list[Tensor], run: Callable[[], list[Tensor]]) -> tuple[Tensor, ...] | None:
            """What a source gives on this grid; None, with a note, where it does not run or gives no usable fields."""
            try:
                fields = run()
            except Exception as error:  # whatever the model's own code makes of this grid
                notes.append(f"{what} does not run here ({why(error)})")
                return None
            if [t.shape for t in fields] != [t.shape for t in like] or not all(torch.isfinite(t).all() for t in fields):
                notes.append(f"{what} gives other fields than the run at the training grid, or not finite ones")
                return None
            return tuple(fields)

        def evaluated() -> list[Tensor]:
            plan = sources.plan(self.model, *new, detail=True, sums=False)
            return self._outputs_in(sources.with_native_run(self.model, plan, given, *new)[1], shape)

        def effects() -> list[Tensor]:
            return self._effects(self.model, sources.plan(self.model, *new, detail=False, sums=True), given, *new)

        e = d = None
        if sources.detail is not None:
            e = tried("the network's own detail", n, evaluated)
        if sources.anchored is not None and finer and detail > NEWS:
            d = tried("the anchored model", [*v, *v], effects)
        moved = (
            tried("a shift of the training grid", v, lambda: self._moved(given, v)) if e and sources.shifts else None
        )
        seen = NewGrid(shape, detail, tuple(v), tuple(n), e, d and d[: len(v)], d and d[len(v) :], moved)
        shares = tuple(shares_of(learned, k, seen, self.placements) for k in range(len(v)))
        return OnGrid(shares, tuple(notes), len(n[0]))

    def _moved(self, given: Arguments, native: Sequence[Tensor]) -> list[Tensor]:
        """How far the mean of the runs shifted by a spacing either way, on all axes, is from the native run at the same
        nodes, which it is compared at, but for the outermost: there only one of them is."""
        wraps = [PLACEMENTS[p].wraps for p in self.placements]

        def along(x: Tensor, dims: Sequence[int], step: int) -> Tensor:
            odd = self.restrict != "nearest" and (x.is_floating_point() or x.is_complex())
            for dim, around in zip(dims, wraps, strict=True):
                x = next_samples(x, dim, step, around, odd)
            return x

        total = [torch.zeros_like(v) for v in native]
        last = tuple(range(-len(wraps), 0))
        for step in (1, -1):
            args, kwargs = map_fields(given, self.resolution, self._layout, lambda x, dims, s=step: along(x, dims, s))
            outputs = self._outputs_in(self.model(*args, **kwargs), self.resolution)
            total = [t + along(y, last, -step) / 2 for t, y in zip(total, outputs, strict=True)]
        inside = (..., *(slice(None) if around else slice(1, -1) for around in wraps))
        moved = [torch.zeros_like(v) for v in native]
        for m, t, v in zip(moved, total, native, strict=True):
            m[inside] = (t - v)[inside]
        return moved

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
            rest = mapped(lambda t, at=start: t[at:] if t.ndim and t.shape[0] == batch else t, arguments)
            part = self.some(rest, SAMPLES)
            fields = self._outputs_in(self.model(*part[0], **part[1]), self.resolution)
            if not fields:
                raise ValueError(
                    f"data: the model returns no field at {size_text(self.resolution)} to compare with the targets"
                )
            parts.append(fields)
            start += len(fields[0])
        return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]


def _shapes(fields: Sequence[Tensor]) -> str:
    return ", ".join(str(tuple(t.shape)) for t in fields) or "no tensor"


def again(
    model: nn.Module, resolution: Shape, placements: tuple[str, ...], layout: str | None, example: Any, **saved: Any
) -> Transferred:
    """A transferred model from its :meth:`Transferred.options`, ``saved``."""
    transferred = Transferred(model, resolution, placements, saved["restrict"], layout)
    transferred.learned = None if saved["learned"] is None else Learned.of(saved["learned"])
    if example is not None:
        transferred.take_sources(as_arguments(example))
    transferred.report.notes = list(saved["notes"])
    transferred.report.grids = {tuple(shape): OnGrid.of(each) for shape, each in saved["grids"]}
    return transferred
