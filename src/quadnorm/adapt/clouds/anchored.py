"""Sums over all points of a cloud, each with a weight such as its control volume."""

from __future__ import annotations

from dataclasses import dataclass
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
from quadnorm.adapt.models import check_module, deep_copy
from quadnorm.adapt.operations import anchoring
from quadnorm.adapt.planning.follow import run_under
from quadnorm.adapt.planning.listing import CallListing, action_and_reason
from quadnorm.adapt.planning.steer import Summing
from quadnorm.adapt.report import AnchorReport, with_times
from quadnorm.adapt.trees import Arguments, tensors
from quadnorm.adapt.watching.calls import Call, CallPlan, Step, WeightedStep
from quadnorm.adapt.watching.forms import Form
from quadnorm.adapt.watching.nodes import CountedNodes
from quadnorm.adapt.watching.watch import evaluating, leaving_no_trace, trial_output
from quadnorm.operators.domain import Measured


@dataclass(frozen=True)
class WeighedRow(PointRow, CountedNodes):
    """A cloud whose point j stands for ``weights[j]`` points of the training cloud."""

    weights: Tensor | None = None

    def counts(self, form: Form, like: Tensor) -> Tensor | None:
        if self.weights is None:
            return None
        dtype = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
        return self.weights.repeat(form.fold).to(like.device, dtype)


class AnchoredPoints(PointModel):
    r"""A model whose sums over a cloud of N points are taken with weights, as over a cloud of the trained size.

    :func:`quadnorm.anchor` with ``layout="points"`` makes it. Point j counts as :math:`n_0 w_j / \sum w` points. At the
    trained number of points, without weights, the model runs as it is.
    """

    anchor_report: Any = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, volumes: Any = None, **kwargs: Any) -> Any:
        """The model's arguments on a cloud of any size.

        Args:
            args, kwargs: as for :class:`ExtendedPoints`.
            volumes: (N,), one weight for each point, of any scale: control volumes (:func:`quadnorm.voronoi_weights`)
                for a model trained on points that lie evenly. Default: all alike, for a cloud that is dense where those
                of training were.
        """
        return self.called(args, kwargs, volumes=volumes)

    def on_cloud(self, arguments: Arguments, total: int, axes: Axes, **options: Any) -> Any:
        volumes = options["volumes"]
        w = torch.ones(total, device="cpu") if volumes is None else torch.as_tensor(volumes).detach().cpu()
        if w.shape != (total,) or not bool((w >= 0).all()) or not 0 < float(w.sum()) < float("inf"):
            raise ValueError(
                f"volumes must have one number ≥ 0 for each of the {total} points, not all 0, got {tuple(w.shape)}"
            )
        w = self.count * w.double() / w.double().sum()
        args, kwargs = arguments
        if isinstance(self.model, Measured):  # takes weights itself
            return self.model(*args, **kwargs, weights=w.to(tensors(arguments)[0]))

        def summed(plan: CallPlan) -> Any:
            run = Summing(plan, (total,))
            run.nodes = WeighedRow(plan.native, (total,), plan.placements, plan.origins, weights=w)
            return run_under(self.model, run, args, kwargs)

        return self.in_step(taken(arguments, axes, drawn(total, self.count)), axes, summed)


class _Sums(CallListing):
    """The run on the example that lists which calls over points are weighed."""

    def observe(self, call: Call, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        nodes = CountedNodes(self.plan.native, self.plan.native, self.plan.placements, self.plan.origins)
        operation = anchoring(WeightedStep(call, func, args, kwargs, nodes))
        if operation is not None:
            self.add(call, "anchored", operation.anchored.value)
            return
        outcome = action_and_reason(Step(call, func, args, kwargs, self.nodes, result=result))
        if outcome is not None:
            self.add(call, "left", outcome[1].split(":")[0])


def anchor_points(model: nn.Module, count: Any, example: Any = None, share: bool = False) -> AnchoredPoints:
    """:func:`quadnorm.anchor` for models on clouds of ``count`` points; see there."""
    count = checked_count(count, "anchor")
    check_module(model, "anchor")
    arguments = point_example(model, count, example)
    anchored = AnchoredPoints(deep_copy(model, share), count, arguments)
    with evaluating(anchored.model):
        plan = anchored.plan(*arguments, anchored.axes)
        listing = _Sums(plan)
        with leaving_no_trace(anchored.model):
            run_under(anchored.model, listing, *arguments)
        report = AnchorReport("")
        own = isinstance(model, Measured)
        if own:
            report.add("", type(model).__name__, "anchored", "takes weights itself")
        for (module, name, action, why), times in [] if own else listing.lines.items():
            report.add(module, f"call {name}", action, with_times(why, times))
        if not report.changed:
            raise ValueError(f"found no sum over points that could be anchored in the model\n{report}")
        _compare_twice(anchored, arguments, report)
    n, m_left = len(report.changed), len(report.left)
    report.title = f"anchored at {count} points: {n} sum{'s' * (n != 1)} anchored, {m_left} left"
    anchored.anchor_report = report
    return anchored


def _compare_twice(anchored: AnchoredPoints, arguments: Arguments, report: AnchorReport) -> None:
    """Every point twice with half the weight is the same measure: the output must be the model's, at both."""
    twice = taken(arguments, anchored.axes, torch.arange(2 * anchored.count, device="cpu") % anchored.count)
    with leaving_no_trace(anchored.model):
        y = anchored(*twice[0], **twice[1])
    left = "; ".join(f"{e.kind} in {e.name or 'the model'}: {e.why}" for e in report.left) or "none was left"
    advice = f"not all sums over points could be anchored ({left}); quadnorm.extend with layout='points' may serve"
    native = trial_output(anchored.model, arguments)
    gap = anchored.checked_gap(y, native, "anchored, with every point twice and half the weight each", advice)
    report.notes.append(f"compared with the model on every point twice, with half the weight: equal to {gap:.1e}")
