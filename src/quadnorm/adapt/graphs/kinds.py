"""The graphs of an adapted model: one for each kind of input, captured when it first comes, and proven right."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from quadnorm.adapt.graphs.capture import (
    BatchFixedError,
    BatchForm,
    CannotCaptureError,
    Graph,
    Obstacle,
    Steer,
    capture,
    state_slots,
    twin_of,
    with_batch,
)
from quadnorm.adapt.graphs.changes import WatchedModel, attributes, changes
from quadnorm.adapt.graphs.proof import check, is_real
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.layouts import batch_of_inputs
from quadnorm.measures.base import Shape

MAX_KINDS = 32  # of input that graphs are kept for, those that were used last
MAX_CHANGES = 8  # of the model's attributes; a model that changes more often is run without graphs
LOCK = threading.RLock()  # watching and steering replace functions of PyTorch's, one thread at a time
_LOG = logging.getLogger("quadnorm")


class SteeredModel(Protocol):
    """What graphs need of an adapted model (:class:`quadnorm.adapt.adapted.Adapted`)."""

    model: nn.Module
    layout: str
    way: str

    def steering_plan(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> Any: ...
    def steered(self, model: nn.Module, plan: Any, args: Any, kwargs: Any, shape: Shape) -> Any: ...
    def run_steered(self, args: Any, kwargs: Any, shape: Shape) -> Any: ...


# --- kinds of input --------------------------------------------------------------------------------------------------


class _UnknownArgumentError(TypeError):
    pass


def _skeleton(value: Any) -> Any:
    """Nested arguments without their tensors, to be compared from call to call."""
    if isinstance(value, Tensor):
        return Tensor
    if value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.device, Enum, type)):
        return type(value), value  # 1 and True and 1.0 are not the same
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_skeleton, value))
    if isinstance(value, Mapping):
        return (type(value), *((k, _skeleton(v)) for k, v in value.items()))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value), *(_skeleton(getattr(value, f.name)) for f in fields(value)))
    raise _UnknownArgumentError(type(value).__name__)


@dataclass(frozen=True)
class _Input:
    """Arguments of a call: their tensors, the batch, and which tensors have it as first axis."""

    arguments: Any
    tensors: list[Tensor]
    batch: int
    batched: tuple[bool, ...]

    @classmethod
    def of(cls, adapted: SteeredModel, args: Any, kwargs: Any, shape: Shape) -> _Input:
        given = tensors((args, kwargs))
        batch = batch_of_inputs(given, shape, adapted.layout)
        if batch is None:  # no such axis, or not in front: every size is part of the kind
            return cls((args, kwargs), given, 1, (False,) * len(given))
        return cls((args, kwargs), given, batch, tuple(t.ndim > 0 and t.shape[0] == batch for t in given))

    def kind(self, shape: Shape, training: Sequence[bool]) -> Any:
        """What graphs are kept for, besides whether there are gradients."""
        sizes = tuple(
            (tuple(t.shape[1:]) if many else tuple(t.shape), many, t.dtype, t.device)
            for t, many in zip(self.tensors, self.batched, strict=True)
        )
        amp = tuple(
            torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
            for kind in sorted({t.device.type for t in self.tensors})
        )
        modes = tuple(training), amp, torch.get_default_device(), torch.get_default_dtype()
        return shape, _skeleton(self.arguments), sizes, modes


# --- graphs ----------------------------------------------------------------------------------------------------------


@dataclass
class _Ready:
    """A graph, and where the tensors of its state are."""

    graph: Graph
    slots: list[tuple[dict[str, Any], str]]

    def __call__(self, inputs: Sequence[Tensor]) -> Any:
        state = [home[name] for home, name in self.slots]
        return self.graph.rebuilt(self.graph.module.forward(*state, *inputs))


@dataclass
class _Kind:
    """The graphs of one kind of input, by conditions on the batch; or why there is none."""

    ready: list[_Ready] = field(default_factory=list)
    obstacle: Obstacle | None = None


_WITHOUT: ContextVar[bool] = ContextVar("without graphs", default=False)


@contextmanager
def without_graphs() -> Iterator[None]:
    """Calls of adapted models in here are steered: capturing a graph takes as long as some hundred such calls."""
    token = _WITHOUT.set(True)
    try:
        yield
    finally:
        _WITHOUT.reset(token)


class Graphs:
    """All graphs of one adapted model."""

    def __init__(self) -> None:
        self.kinds: OrderedDict[Any, _Kind] = OrderedDict()
        self.plans: dict[Any, Any] = {}
        self.obstacles: dict[Obstacle, str] = {}
        self.watched: WatchedModel | None = None
        self.changes = 0

    def run(self, adapted: SteeredModel, args: Any, kwargs: Any, shape: Shape) -> Any:
        """The output of a graph, captured now if there is none yet; or of the steered run where none can be had."""
        if _WITHOUT.get():
            return adapted.run_steered(args, kwargs, shape)
        watched = self.watched
        if watched is None or watched.has_changed():
            with LOCK:
                watched = self._watch(adapted)
        given = _Input.of(adapted, args, kwargs, shape)
        try:
            key = torch.is_grad_enabled(), given.kind(shape, [m.training for m in watched.modules])
        except _UnknownArgumentError as error:
            self._note(adapted, CannotCaptureError(Obstacle.ARGUMENTS, str(error)))
            return adapted.run_steered(args, kwargs, shape)
        ready = self._ready(adapted, key, given, shape)
        if ready is None:
            return adapted.run_steered(args, kwargs, shape)
        return ready([t if t.is_contiguous() else t.contiguous() for t in given.tensors])

    def plain_graph(
        self, adapted: SteeredModel, args: Any, kwargs: Any, shape: Shape, batch: int | None
    ) -> tuple[Graph, Any]:
        """The graph of one grid for all batches, or for one ``batch``, on its own, and arguments that it is right for;
        raises where there is none."""
        with LOCK, torch.enable_grad():
            given = _Input.of(adapted, args, kwargs, shape)
            watched = WatchedModel(adapted.model)
            if watched.has_hooks():
                raise CannotCaptureError(Obstacle.HOOKS)
            if batch is not None:
                arguments = with_batch(given.arguments, given.batched, batch)
                given = _Input(arguments, tensors(arguments), batch, given.batched)
            proof = _Proof(_preparation(adapted, shape), twin_of(adapted.model), given)
            graph = proof.new_graph(adapted.model, fixed=batch is not None)
            if not graph.exact:  # a module that runs alone cannot compare new batches
                proof.require(graph, (1, 2, 8, 9, 17, 33))
            return graph, given.arguments

    def _watch(self, adapted: SteeredModel) -> WatchedModel:
        """Start anew with a model whose attributes have changed."""
        if self.watched is None or self.watched.has_changed():
            if self.watched is not None:  # plans that were made when the model was adapted are as good as new
                self.changes += 1
                self.plans.clear()
            self.kinds.clear()
            self.watched = WatchedModel(adapted.model, self.watched)
        return self.watched

    def _ready(self, adapted: SteeredModel, key: Any, given: _Input, shape: Shape) -> _Ready | None:
        kind = self.kinds.get(key)
        if kind is not None:
            with suppress(KeyError):  # another thread may have dropped them just now
                self.kinds.move_to_end(key)
            found = self._fitting(kind, given.batch)
            if found is not None or kind.obstacle is not None:
                return found
        with LOCK:
            kind = self.kinds.setdefault(key, _Kind())
            self.kinds.move_to_end(key)
            while len(self.kinds) > MAX_KINDS:
                self.kinds.popitem(last=False)
            found = self._fitting(kind, given.batch)
            if found is not None or kind.obstacle is not None:
                return found
            try:
                found = self._captured(adapted, key, given, shape)
            except CannotCaptureError as error:
                kind.obstacle = error.obstacle
                self._note(adapted, error)
                return None
            return found

    @staticmethod
    def _fitting(kind: _Kind, batch: int) -> _Ready | None:
        """A graph that is known to be right for the batch."""
        return next((r for r in kind.ready if r.graph.proven.get(batch)), None)

    def _captured(self, adapted: SteeredModel, key: Any, given: _Input, shape: Shape) -> _Ready:
        """A graph that is right for the batch: one that there is already, else a new one."""
        assert self.watched is not None
        gradients, kind_of_input = key
        kind, other = self.kinds[key], self.kinds.get((not gradients, kind_of_input), _Kind())
        if self.changes > MAX_CHANGES:
            raise CannotCaptureError(Obstacle.STATE)
        if self.watched.has_hooks():
            raise CannotCaptureError(Obstacle.HOOKS)
        twin = twin_of(adapted.model)
        proof = _Proof(_preparation(adapted, shape), twin, given)
        for ready in kind.ready:
            if proof.holds(ready.graph):
                return ready
        graph = proof.borrowed([r.graph for r in other.ready]) or proof.new_graph(adapted.model)
        self.watched.leave_out(proof.remembered)
        slots = state_slots(adapted.model)
        ready = _Ready(graph, [slots[name] for name in graph.state])
        kind.ready = [*kind.ready, ready]
        return ready

    def _note(self, adapted: SteeredModel, error: CannotCaptureError) -> None:
        """Say once why calls of the model are steered."""
        if error.obstacle in self.obstacles:
            return
        self.obstacles[error.obstacle] = str(error)
        text = f"runs without a graph, and slower, because {error}"
        _LOG.warning("quadnorm.%s: %s %s", adapted.way, type(adapted.model).__name__, text)
        report = getattr(adapted, f"{adapted.way}_report", None)
        if report is not None:
            report.notes.append(f"the model {text}")


def _preparation(adapted: SteeredModel, shape: Shape) -> Callable[[nn.Module, Any], Steer]:
    """How a graph of the model on the grid ``shape`` is prepared: by looking at the model."""

    def prepare(model: nn.Module, arguments: Any) -> Steer:
        args, kwargs = mapped(Tensor.detach, arguments)
        plan = adapted.steering_plan(model, args, kwargs, shape)

        def steer(model: nn.Module, args: Any, kwargs: Any) -> Any:
            return adapted.steered(model, plan, args, kwargs, shape)

        return steer

    return prepare


class _Proof:
    """Comparisons of graphs with the steered run of a twin of the model."""

    def __init__(self, prepare: Callable[[nn.Module, Any], Steer], twin: nn.Module, given: _Input) -> None:
        self.prepare, self.twin, self.given = prepare, twin, given
        self.remembered: set[tuple[int, str]] = set()  # attributes that a run changes: (number of the module, name)

    def holds(self, graph: Graph) -> bool:
        """Whether the graph is right for the batch at hand."""
        batch = self.given.batch
        if batch not in graph.proven:
            graph.proven[batch] = graph.conditions(batch) and (
                (graph.exact and batch > 1) or self._agrees(graph, batch)
            )
        return graph.proven[batch]

    def borrowed(self, graphs: Sequence[Graph]) -> Graph | None:
        """One that was captured with gradients where there are none, or the other way, if it is right here too."""
        for graph in graphs:
            own = replace(graph, proven={})
            if graph.conditions(self.given.batch) and self._agrees(own, self.given.batch):
                own.proven[self.given.batch] = True
                return own
        return None

    def _agrees(self, graph: Graph, batch: int) -> bool:
        try:
            self._check(graph, batch)
        except (CannotCaptureError, RuntimeError):  # sizes that do not fit are errors of the graph's calls
            return False
        return True

    def _check(self, graph: Graph, batch: int) -> None:
        arguments = with_batch(self.given.arguments, self.given.batched, batch)
        before = attributes(self.twin)
        check(graph, self.prepare, self.twin, arguments)
        changed = changes(before, attributes(self.twin))
        if changed - self.remembered:  # a cache, if other data leave it as it is
            self.remembered |= changed
            before = attributes(self.twin)
            check(graph, self.prepare, self.twin, mapped(lambda t: 0.7 * t + 0.03 if is_real(t) else t, arguments))
            changed = changes(before, attributes(self.twin))
            if changed:
                names = ", ".join(sorted(name for _, name in changed))
                raise CannotCaptureError(Obstacle.STATE, names)

    def require(self, graph: Graph, batches: Sequence[int]) -> None:
        """Raise unless the graph is right for these batches."""
        for batch in batches:
            self._check(graph, batch)

    def new_graph(self, model: nn.Module, fixed: bool = False) -> Graph:
        """A graph for the batch at hand, and, unless ``fixed``, as many others as can be had; each is checked at one
        more batch."""
        batch = self.given.batch
        obstacle = CannotCaptureError(Obstacle.TRACE)
        attempts = [(BatchForm.SYMBOL, 2), (BatchForm.SYMBOL, batch), (BatchForm.MERGED, 2), (BatchForm.FIXED, batch)]
        if batch <= 2:
            attempts.pop(1)
        for way, size in attempts[-1:] if fixed else attempts:
            try:
                graph = capture(self.prepare, self.twin, model, self.given.arguments, self.given.batched, size, way)
                self._check(graph, next((b for b in (3, 5, 4, size + 1) if b != size and graph.conditions(b)), size))
                if self.holds(graph):
                    return graph
            except BatchFixedError:
                continue
            except CannotCaptureError as error:
                if error.obstacle not in (Obstacle.TRACE, Obstacle.GRAPH, Obstacle.DERIVATIVE):
                    raise
                obstacle = error
        raise obstacle
