"""What models on clouds share: their calls, plans and checks, and how points are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm.adapt.clouds.arguments import Axes, each_cloud, each_graph, point_axes, taken
from quadnorm.adapt.planning.plan import input_kind, make_plan
from quadnorm.adapt.trees import Arguments, as_arguments, mapped, tensors
from quadnorm.adapt.watching.calls import CallPlan
from quadnorm.adapt.watching.forms import Form
from quadnorm.adapt.watching.layouts import guess_examples
from quadnorm.adapt.watching.nodes import Nodes, relative_gap
from quadnorm.adapt.watching.watch import CannotFollowError, OutOfStepError, trial_output
from quadnorm.measures.base import Shape

PLACEMENT = ("endpoint",)  # a row of points has none; nothing may depend on it
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}  # relative, at the points of the subset; half precision has 3e-2


@dataclass(frozen=True)
class PointRow(Nodes):
    """A cloud of the trained size, and another one. Between neighbours in a row of points there is nothing: what is the
    same at all points can be taken to others, and nothing else."""

    def carry(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        return _repeated(t, dim, self.size(form))

    def restrict(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        return _repeated(t, dim, form.size(self.native))


def _repeated(t: Tensor, dim: int, size: int) -> Tensor:
    """A field that is the same at all points along ``dim``, at ``size`` points; an error if it is not."""
    if t.shape[dim] == size:
        return t
    one = t.narrow(dim, 0, 1)
    if not bool((t == one).all()):
        raise CannotFollowError(
            "the model has values of its own for each point, or mixes neighbours in the row of points; at other points "
            "there is no formula for them"
        )
    return one.expand([size if k == dim % t.ndim else -1 for k in range(t.ndim)])


def drawn(total: int, count: int, density: Tensor | None = None, seed: int = 0) -> Tensor:
    """``count`` of ``total`` points, in increasing order, the same for the same seed.

    Without ``density`` every point is as likely as any other, so that the subset is as dense as the cloud. With it,
    point j is expected count · density_j / Σ density times: systematic sampling along a random order, with points that
    come several times where count · density_j exceeds Σ density (always, if there are fewer points than ``count``).

    >>> drawn(4, 2, torch.tensor([0.0, 1.0, 0.0, 1.0])).tolist(), drawn(2, 4).tolist()
    ([1, 3], [0, 0, 1, 1])
    """
    random = torch.Generator("cpu").manual_seed(seed)
    order = torch.randperm(total, generator=random, device="cpu")
    if density is None and total >= count:
        return order[:count].sort().values
    w = torch.ones(total, device="cpu") if density is None else density.detach().cpu()
    if w.shape != (total,) or not bool(torch.isfinite(w).all()) or bool((w < 0).any()) or not float(w.sum()) > 0:
        raise ValueError(
            f"density must have one number ≥ 0 for each of the {total} points, not all 0, got shape {tuple(w.shape)}"
        )
    reached = w.double()[order].cumsum(0)
    ticks = (torch.arange(count, device="cpu").double() + 0.5) / count * reached[-1]
    return order[torch.searchsorted(reached, ticks).clamp(max=total - 1)].sort().values


class PointModel(nn.Module, ABC):
    """What the models on clouds share: their plan, the axes of points, and samples with a number of points each."""

    def __init__(self, model: nn.Module, count: int, example: Arguments) -> None:
        super().__init__()
        self.model, self.count = model, count
        self.axes = point_axes(example, count)
        if all(axis is None for axis in self.axes):
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors(example)) or "no tensor"
            raise ValueError(f"the example must have {count} points, got shapes {shapes}")
        self.ranks = tuple(t.ndim for t in tensors(example))
        self.takes_lists = any(isinstance(a, list) for a in chain(example[0], example[1].values()))
        self._plans: dict[Any, CallPlan] = {}

    def points_of(self, value: Any) -> tuple[int, Axes]:
        """How many points the arguments have, and along which axes."""
        given = tensors(value)
        first = next((k for k, axis in enumerate(self.axes) if axis is not None), 0)
        axis = self.axes[first]
        if first >= len(given) or axis is None or given[first].ndim != self.ranks[first]:
            shapes = ", ".join(str(tuple(t.shape)) for t in given) or "no tensor"
            raise ValueError(
                f"expected arguments as in the example, with {self.ranks[first]} axes, of which the one at {axis} runs "
                f"over the points; got shapes {shapes}"
            )
        total = given[first].shape[axis]
        if len(given) == len(self.axes):
            pairs = list(zip(given, self.axes, strict=True))
            if any(a is not None and (t.ndim <= a or t.shape[a] != total) for t, a in pairs):
                shapes = ", ".join(str(tuple(t.shape)) for t in given)
                raise ValueError(f"the tensors among the arguments have different numbers of points: {shapes}")
            return total, self.axes
        return total, point_axes(value, total)

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any], axes: Axes, again: bool = False) -> CallPlan:
        """The calls of the model, from a run on ``count`` points and one on more; made once for each kind of input."""
        key = input_kind(self.model, args, kwargs)
        if again or key not in self._plans:
            given = mapped(lambda t: t.detach(), (args, kwargs))

            def at(shape: Shape) -> Any:
                return taken(given, axes, torch.arange(shape[0], device="cpu") % self.count)

            self._plans[key] = make_plan(self.model, at, (self.count,), PLACEMENT)
        return self._plans[key]

    def in_step(self, arguments: Arguments, axes: Axes, run: Callable[[CallPlan], Any]) -> Any:
        """A run that follows the plan for such arguments; made again where the model went another way."""
        try:
            return run(self.plan(*arguments, axes))
        except OutOfStepError:  # another branch, or another number of steps: look again
            return run(self.plan(*arguments, axes, again=True))

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> Any:
        """The output for the arguments of a call: lists of clouds and objects with several graphs are taken apart."""
        several = None if self.takes_lists else each_cloud(self, (args, kwargs), self.ranks, options)
        several = each_graph(self, (args, kwargs), options) if several is None else several
        if several is not None:
            return several
        total, axes = self.points_of((args, kwargs))
        if total == self.count and all(v is None for v in options.values()):
            return self.model(*args, **kwargs)
        return self.on_cloud((args, kwargs), total, axes, **options)

    @abstractmethod
    def on_cloud(self, arguments: Arguments, total: int, axes: Axes, **options: Any) -> Any:
        """The output for one cloud of ``total`` points."""

    def checked_gap(self, y: Any, native: Any, where: str, advice: str) -> float:
        """The gap of an output to a native run's, in the points that lead; raises if it is large."""
        found, expected = tensors(y), tensors(native)
        if not expected:
            raise CannotFollowError(f"the model returned no tensor to compare, got {type(native).__name__}")
        gap = relative_gap([_leading_entries(t, s) for t, s in zip(found, expected, strict=True)], expected)
        if not gap <= TOLERANCE.get(expected[0].dtype, 3e-2):
            raise CannotFollowError(
                f"{where}, the model differs by {gap:.1e} from its run on the training points: {advice}"
            )
        return gap

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The model's state."""
        return self.model.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Load the model's state."""
        self._plans.clear()
        return self.model.load_state_dict(*args, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def extra_repr(self) -> str:
        """The trained number of points."""
        return f"points={self.count}"


def refuse_placement(placement: Any) -> None:
    """Raise where someone says where the samples of a grid lie, but the layout says that there is none."""
    if placement is not None:
        raise ValueError(f'placement={placement!r} is for a grid; layout="points" is a cloud of points, which has none')


def checked_count(count: Any, verb: str) -> int:
    """The number of points a model was trained on."""
    if isinstance(count, (tuple, list)) and len(count) == 1:
        count = count[0]
    if isinstance(count, bool) or not hasattr(count, "__index__") or int(count) < 2:
        raise ValueError(
            f'{verb}(…, layout="points") needs the number of points in a cloud of training, as in 10_000, got {count!r}'
        )
    return int(count)


def point_example(model: nn.Module, count: int, example: Any) -> Arguments:
    """The user's example as (args, kwargs), or random numbers (1, N, C) that the model takes."""
    if example is not None:
        return as_arguments(example)
    for guess, layout in guess_examples(model, (count,)):
        if layout == "last":
            try:
                trial_output(model, ((guess,), {}))
            except Exception:  # a guess may fail in any way
                continue
            return (guess,), {}
    raise ValueError(
        f"no input could be guessed; pass example=, an input with {count} points as the model takes it: x, (x, pos), a "
        "dict of keyword arguments, or an object with x and pos"
    )


def _leading_entries(t: Tensor, like: Tensor) -> Tensor:
    """The leading entries of t, as many as ``like`` has along every axis."""
    for axis, n in enumerate(like.shape):
        t = t.narrow(axis, 0, n)
    return t
