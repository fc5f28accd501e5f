"""Sums over a subset of the trained size; every other point is a query, in chunks of constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.clouds.arguments import Axes, taken
from quadnorm.adapt.clouds.base import (
    PointModel,
    PointRow,
    checked_count,
    drawn,
    point_example,
)
from quadnorm.adapt.models import check_module
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.listing import listing_of, report_of
from quadnorm.adapt.planning.steer import Kept, Record, Replay
from quadnorm.adapt.report import AnchorReport
from quadnorm.adapt.trees import Arguments, mapped, tensors
from quadnorm.adapt.watching.calls import CallPlan
from quadnorm.adapt.watching.forms import Forms
from quadnorm.adapt.watching.watch import CannotFollowError, evaluating, leaving_no_trace, trial_output


class ExtendedPoints(PointModel):
    """A model with the sums of a run on a subset of the trained size, evaluated at all points of a cloud in chunks.

    :func:`quadnorm.extend` with ``layout="points"`` makes it. ``extend_report`` says what was done with each call that
    mixes points. The memory of a call is that of one chunk, and of the output.
    """

    extend_report: Any = None

    def __init__(
        self, model: nn.Module, count: int, example: Arguments, chunk: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(model, count, example)
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be positive, got {chunk}")
        self.chunk, self.seed = chunk or 2 * count + 1, seed

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, subset: Any = None, density: Tensor | None = None, **kwargs: Any) -> Any:
        """The model's arguments on a cloud of any size.

        Args:
            args, kwargs: as the model takes them. Lists in place of tensors are clouds of different sizes, and give a
                list of outputs; an object with several graphs (``data.batch``) is taken apart.
            subset: indices of the points that sums are taken over, as many as in training. Default: drawn.
            density: (N,), with which they are drawn, for a cloud that is denser in other places than those of training:
                control volumes, for a model trained on points that lie evenly. Default: all alike.
        """
        return self.called(args, kwargs, subset=subset, density=density)

    def on_cloud(self, arguments: Arguments, total: int, axes: Axes, **options: Any) -> Any:
        subset, density = options["subset"], options["density"]
        index = drawn(total, self.count, density, self.seed) if subset is None else self._checked(subset, total)
        native = taken(arguments, axes, index)
        plan, tape = self.in_step(native, axes, lambda plan: self._recorded(plan, native))
        parts = [(self._replayed(plan, tape, taken(arguments, axes, at)), n) for at, n in self._chunks(total)]
        return _joined([y for y, _ in parts], [n for _, n in parts], plan.outputs)

    def _checked(self, subset: Any, total: int) -> Tensor:
        index = torch.as_tensor(subset, device="cpu")
        if (
            index.shape != (self.count,)
            or index.is_floating_point()
            or bool((index < 0).any() | (index >= total).any())
        ):
            raise ValueError(
                f"subset must hold {self.count} indices of the {total} points, as many as the model was trained on, "
                f"got shape {tuple(index.shape)}"
            )
        return index.long()

    def _chunks(self, total: int) -> Iterator[tuple[Tensor, int]]:
        """Indices of all points in chunks of one size, the last one filled up, and how many count in each.

        Never as many as were trained on: then a tensor's size would not tell which points it is about.
        """
        size = min(self.chunk, total)
        size += size == self.count
        for start in range(0, total, size):
            at = torch.arange(start, start + size, device="cpu").clamp(max=total - 1)
            yield at, min(size, total - start)

    def _recorded(self, plan: CallPlan, native: Arguments) -> tuple[CallPlan, list[Kept]]:
        """The run on the subset: its plan, and what was kept of each call."""
        record = Record(plan)
        run_under(self.model, record, *native)
        return plan, record.tape

    def _replayed(self, plan: CallPlan, tape: list[Kept], arguments: Arguments) -> Any:
        """One chunk; in training, buffers such as running statistics stay those of the run on the subset."""
        before = [(b, b.detach().clone()) for b in self.model.buffers()] if self.model.training else []
        size = next(t.shape[a] for t, a in zip(tensors(arguments), self.axes, strict=False) if a is not None)
        y = run_under(self.model, Replay(plan, PointRow(plan.native, (size,), plan.placements), tape), *arguments)
        for b, value in before:
            b.data.copy_(value)  # not a change that autograd should see
        return y


def _joined(outputs: list[Any], counts: list[int], forms: tuple[Forms, ...]) -> Any:
    """The outputs of chunks as one; what has no axis of points is the same for all."""
    parts, order = zip(*(tensors(y) for y in outputs), strict=True), iter(forms)

    def join(t: Tensor) -> Tensor:
        pieces, dims = next(parts), [k for k, f in enumerate(next(order)) if f.moves]
        if not dims:
            return t
        if len(dims) > 1:
            raise CannotFollowError("the model returns a value for every pair of points, which chunks do not give")
        return torch.cat([p.narrow(dims[0], 0, n) for p, n in zip(pieces, counts, strict=True)], dims[0])

    return mapped(join, outputs[0])


def extend_points(
    model: nn.Module, count: Any, example: Any = None, chunk: int | None = None, seed: int = 0
) -> ExtendedPoints:
    """:func:`quadnorm.extend` for models on clouds of ``count`` points; see there."""
    count = checked_count(count, "extend")
    check_module(model, "extend")
    arguments = point_example(model, count, example)
    extended = ExtendedPoints(model, count, arguments, chunk, seed)
    with evaluating(model):
        plan = extended.plan(*arguments, extended.axes)
        report = report_of(listing_of(model, plan, *arguments))
        _refuse_neighbours(report, plan)
        gap = _gap_at_the_subset(extended, arguments)
    replayed = sum(e.action == "replayed" for e in report)
    report.title = f"extended from {count} points: {replayed} call{'s' * (replayed != 1)} replayed"
    report.notes.append(f"compared with the run on {count} points alone: equal to {gap:.1e} at these")
    extended.extend_report = report
    return extended


def _refuse_neighbours(report: AnchorReport, plan: CallPlan) -> None:
    """Raise where a model does something with points for which there is no formula at other points."""
    for e in report:
        if e.action in ("carried", "left"):
            raise CannotFollowError(
                f"{e.kind} in {e.name or 'the model'} {e.why.split(':')[0]}: at points outside of the subset there is "
                "no formula for it (neighbour lists and graphs change with the cloud); quadnorm.at_native(model, "
                "points) runs any model on its training points"
            )
    if plan.unseen:
        raise CannotFollowError(
            f"{plan.unseen[0] or 'the model'} computes something from the points outside of PyTorch, as by NumPy; "
            "quadnorm.at_native(model, points) runs any model on its training points"
        )


def _with_others(arguments: Arguments, axes: Axes, count: int, seed: int = 0) -> Arguments:
    """The points of the arguments, and as many others between them."""
    random = torch.Generator("cpu").manual_seed(seed)
    partner = torch.randint(count, (count,), generator=random, device="cpu")
    order = iter(axes)

    def more(t: Tensor) -> Tensor:
        axis = next(order)
        if axis is None:
            return t
        other = t.index_select(axis, partner.to(t.device))
        return torch.cat([t, (t + other) / 2 if t.is_floating_point() else other], axis)

    both: Arguments = mapped(more, arguments)
    return both


def _gap_at_the_subset(extended: ExtendedPoints, arguments: Arguments) -> float:
    """The gap to a run on the subset alone, at its points."""
    cloud = _with_others(arguments, extended.axes, extended.count)
    with leaving_no_trace(extended.model):
        y = extended(*cloud[0], subset=torch.arange(extended.count, device="cpu"), **cloud[1])
    advice = (
        "it does something with its points that could not be followed; quadnorm.at_native(model, points) runs any "
        "model on its training points"
    )
    where = f"extended, at {extended.count} points among others"
    return extended.checked_gap(y, trial_output(extended.model, arguments), where, advice)
