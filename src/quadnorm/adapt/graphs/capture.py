"""A steered run on one grid, captured as a plain graph: no modes, no plans and no Python of the model in later calls.

The run is recorded on tensors without values ("fake" tensors), before PyTorch dispatches its calls, so that attention
stays one call. Parameters, buffers and inputs are the graph's inputs; what depends on sizes alone (counts, positions,
matrices: :func:`quadnorm._tensors.constant`) is computed outside the recorder and is a constant of the graph.

The batch is a symbol. Every comparison that the model makes with it becomes a condition, which is tested before the
graph is used for another batch. Where the model turns the batch into a plain number, two recordings at two batches are
merged: numbers that differ become functions of the batch; such a graph is compared with the steered run once for each
new batch.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from quadnorm import _torch
from quadnorm._tensors import capturing
from quadnorm.adapt.graphs.passes import fold_constants, in_strips, merge_repeated, without_unused, written_nodes
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.watch import CannotFollowError, first_line

aten = torch.ops.aten


class Obstacle(Enum):
    """Why a run cannot be captured; its value is the sentence for people."""

    VALUES = "it reads values of its tensors in Python (a branch on data, .item(), NumPy)"
    STATISTICS = "it writes into its buffers while it runs (running statistics in training mode)"
    STATE = "it keeps something of each call in its attributes"
    HOOKS = "it has hooks of its own, which must run at every call"
    DERIVATIVE = "it has an autograd function of its own, whose derivative a graph would not keep"
    COPY = "it cannot be copied"
    GRAPH = "its recorded graph does not give the same numbers"
    TRACE = "it cannot be recorded"
    ARGUMENTS = "it is given arguments that cannot be compared from call to call"


class CannotCaptureError(RuntimeError):
    """The run cannot be captured."""

    def __init__(self, obstacle: Obstacle, detail: str = "") -> None:
        super().__init__(obstacle.value + (f": {detail}" if detail else ""))
        self.obstacle = obstacle


class BatchFixedError(RuntimeError):
    """The model makes a plain number of its batch."""


# What is captured: a run of the model on arguments.
Steer = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]
# Finds out how to run the model on such arguments, with values; not recorded.
Prepare = Callable[[nn.Module, Any], Steer]


# --- a model's twin --------------------------------------------------------------------------------------------------


def twin_of(model: nn.Module) -> nn.Module:
    """A copy with the same parameters and plain tensors; its buffers, caches and attributes are its own.

    What models remember of a run stays in the twin, and nobody else sees hooks or modes that are set on it.
    """
    kept: dict[int, Any] = {id(p): p for p in model.parameters()}
    for module in model.modules():
        kept.update((id(t), t) for t in vars(module).values() if isinstance(t, Tensor))
    try:
        return copy.deepcopy(model, kept)
    except Exception as error:
        raise CannotCaptureError(Obstacle.COPY, first_line(error)) from error


def state_slots(model: nn.Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer of the model is kept, by its name; tied ones once."""
    slots: dict[str, tuple[dict[str, Any], str]] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for tensors_of in (module._parameters, module._buffers):
            for name, t in tensors_of.items():
                if t is not None and id(t) not in seen:
                    seen.add(id(t))
                    slots[f"{path}.{name}" if path else name] = tensors_of, name
    return slots


# --- the graph -------------------------------------------------------------------------------------------------------


@dataclass
class Graph:
    """A captured run: ``module(*state, *inputs)`` gives the tensors of the output in order.

    ``state``: the names of the parameters and buffers that it takes. ``output``: the nesting of what the model returns.
    ``conditions(batch)``: whether the comparisons that the run has made with its batch come out the same;
    ``comparisons``: these in words. ``exact``: they tell all; else each new batch is compared with the steered run
    first. ``proven``: what that gave.
    """

    module: fx.GraphModule
    state: tuple[str, ...]
    output: Any
    conditions: Callable[[int], bool]
    comparisons: tuple[str, ...] = ()
    exact: bool = True
    proven: dict[int, bool] = field(default_factory=dict)

    def rebuilt(self, flat: Sequence[Tensor]) -> Any:
        """The output's tensors in the nesting that the model gives them."""
        if isinstance(self.output, Tensor):
            return flat[0]
        values = iter(flat)
        return mapped(lambda _: next(values), self.output)


class BatchForm(Enum):
    """How a recording treats the batch."""

    SYMBOL = "a symbol, with conditions"
    MERGED = "from recordings at two batches"
    FIXED = "one number"


def capture(
    prepare: Prepare,
    twin: nn.Module,
    model: nn.Module,
    arguments: Any,
    batched: Sequence[bool],
    batch: int,
    way: BatchForm,
) -> Graph:
    """The graph of a run of the model on arguments of a kind, recorded with the given ``batch``.

    ``arguments``: (args, kwargs), tensors with values; ``batched``: which of these have the batch as first axis. The
    ``twin`` of the model is run; others are recorded, and left with tensors without values in their caches.
    """

    def recorded(size: int, dynamic: Sequence[bool]) -> Graph:
        given = with_batch(arguments, batched, size)
        with capturing():
            steer = prepare(twin, given)
        return _recorded(steer, twin_of(model), given, dynamic)

    static = [False] * len(batched)
    if way is BatchForm.SYMBOL:
        graph = recorded(batch, batched)
    elif way is BatchForm.MERGED:
        p, q = batch + 1, batch + 3
        graph, other = recorded(p, static), recorded(q, static)
        _merge(graph.module, other.module, p, q, len(graph.state) + list(batched).index(True))
        graph.exact = False
    else:
        graph = recorded(batch, static)
        graph.conditions, graph.comparisons = (lambda size: size == batch), (f"batch = {batch}",)
    _refuse_writing(graph)
    merge_repeated(graph.module)
    fold_constants(graph.module)
    in_strips(graph.module)
    graph.state = without_unused(graph.module, graph.state)
    return graph


def _refuse_writing(graph: Graph) -> None:
    """Raise where a run writes into the model's buffers, or into tensors that it keeps."""
    placeholders = [n for n in graph.module.graph.nodes if n.op == "placeholder"]
    state = set(placeholders[: len(graph.state)])
    for n in written_nodes(graph.module.graph):
        if n in state:
            raise CannotCaptureError(Obstacle.STATISTICS)
        if n.op == "get_attr":
            raise CannotCaptureError(Obstacle.STATE)


def with_batch(arguments: Any, batched: Sequence[bool], size: int) -> Any:
    """The arguments, cut off from gradients, with another batch: its entries repeated in turn."""
    flags = iter(batched)

    def change(t: Tensor) -> Tensor:
        t = t.detach()
        if not next(flags) or t.shape[0] == size:
            return t
        return t[torch.arange(size, device=t.device) % t.shape[0]]

    return mapped(change, arguments)


def _recorded(steer: Steer, model: nn.Module, arguments: Any, dynamic: Sequence[bool]) -> Graph:
    """One recording; the first sizes of the ``dynamic`` tensors among the arguments are one symbol."""
    slots = state_slots(model)
    state = [home[name] for home, name in slots.values()]
    outputs: list[Any] = []
    run = _Run(model, steer)

    def function(*flat: Tensor) -> tuple[Tensor, ...]:
        inputs = iter(flat[len(state) :])
        args, kwargs = mapped(lambda _: next(inputs), arguments)
        values = {f"model.{name}": t for name, t in zip(slots, flat, strict=False)}
        y = functional_call(run, values, args, kwargs)
        outputs.append(y)
        return tuple(tensors(y))

    try:
        with capturing(recording=True):
            recording = _torch.record(function, [*state, *tensors(arguments)], [False] * len(state) + list(dynamic))
            output = mapped(lambda t: torch.empty(0, device="cpu"), outputs[-1])
    except CannotFollowError:
        raise
    except _torch.ValuesReadError as error:
        raise CannotCaptureError(Obstacle.VALUES, first_line(error)) from error
    except Exception as error:  # whatever the model's code makes of tensors without values
        about = Obstacle.VALUES if ".numpy()" in str(error) else Obstacle.TRACE
        raise CannotCaptureError(about, first_line(error)) from error
    if any(dynamic) and recording.fixed:
        raise BatchFixedError
    if not outputs or not tensors(outputs[-1]):
        raise CannotCaptureError(Obstacle.TRACE, "it returns no tensor")
    constants = [n for n in recording.graph.graph.nodes if n.op == "get_attr"]
    if any(_torch.is_traced(getattr(recording.graph, str(n.target))) for n in constants):
        raise CannotCaptureError(Obstacle.TRACE, "it makes tensors outside of PyTorch's calls")
    return Graph(recording.graph, tuple(slots), output, recording.conditions, recording.comparisons)


class _Run(nn.Module):
    """A steered run as a module, whose parameters can be exchanged for a call."""

    def __init__(self, model: nn.Module, steer: Steer) -> None:
        super().__init__()
        self.model, self.steer = model, steer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.steer(self.model, args, kwargs)


# --- two recordings --------------------------------------------------------------------------------------------------


def _merge(a: fx.GraphModule, b: fx.GraphModule, p: int, q: int, slot: int) -> None:
    """Make the graph a of batch p serve all batches: its numbers that differ in b, of batch q, depend on the batch.

    ``slot``: the input whose first axis is the batch.
    """
    placeholders = [n for n in a.graph.nodes if n.op == "placeholder"]
    ours, theirs = list(a.graph.nodes), list(b.graph.nodes)
    with a.graph.inserting_after(placeholders[-1]):
        size = a.graph.call_function(aten.sym_size.int, (placeholders[slot], 0))
    numbers = _Numbers(a.graph, size, p, q)
    partner: dict[fx.Node, fx.Node] = {}
    if len(ours) != len(theirs):
        raise CannotCaptureError(Obstacle.TRACE, "it makes other calls for another batch")
    for n, m in zip(ours, theirs, strict=True):
        if n.op == "get_attr" and m.op == "get_attr":
            s, t = getattr(a, str(n.target)), getattr(b, str(m.target))
            if s is not t and not (s.shape == t.shape and torch.equal(s, t)):
                raise CannotCaptureError(Obstacle.TRACE, "a constant depends on the batch")
        elif (n.op, n.target) != (m.op, m.target):
            raise CannotCaptureError(Obstacle.TRACE, "it makes other calls for another batch")
        partner[n] = m
        n.args, n.kwargs = (
            _merged(v, w, partner, numbers) for v, w in ((n.args, m.args), (dict(n.kwargs), dict(m.kwargs)))
        )


def _merged(v: Any, w: Any, partner: dict[fx.Node, fx.Node], numbers: _Numbers) -> Any:
    """Arguments of a call for any batch, from those for two batches."""
    if isinstance(v, (tuple, list)) and isinstance(w, (tuple, list)) and len(v) == len(w):
        return type(v)(_merged(*pair, partner, numbers) for pair in zip(v, w, strict=True))
    if isinstance(v, dict) and v.keys() == w.keys():
        return {k: _merged(v[k], w[k], partner, numbers) for k in v}
    if type(v) is int and type(w) is int and v != w:
        return numbers.between(v, w)
    if (isinstance(v, fx.Node) and partner.get(v) is w) or (not isinstance(v, fx.Node) and v == w):
        return v
    raise CannotCaptureError(Obstacle.TRACE, f"its forward pass depends on the batch: {v} and {w}")


class _Numbers:
    """Numbers that are v at batch p and w at batch q, as nodes of a graph."""

    def __init__(self, graph: fx.Graph, size: fx.Node, p: int, q: int) -> None:
        self.graph, self.size, self.p, self.q = graph, size, p, q
        self.nodes: dict[tuple[int, int], fx.Node] = {}
        self.last = size

    def between(self, v: int, w: int) -> fx.Node:
        slope, rest = divmod(w - v, self.q - self.p)
        if rest:
            raise CannotCaptureError(Obstacle.TRACE, f"a size is {v} for batch {self.p} and {w} for batch {self.q}")
        if (v, w) not in self.nodes:
            with self.graph.inserting_after(self.last):
                times = self.graph.call_function(operator.mul, (self.size, slope))
            with self.graph.inserting_after(times):
                self.last = self.nodes[v, w] = self.graph.call_function(operator.add, (times, v - slope * self.p))
        return self.nodes[v, w]
