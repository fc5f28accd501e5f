"""Passes over captured graphs: what they write into, constants computed once, and the plain module of one grid."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

aten = torch.ops.aten
_OVERLOAD: Any = type(aten.add.Tensor)
_NUMBERS = ("_operator", "math")  # modules of functions of sizes


def _aliases(node: fx.Node, writes: bool) -> list[fx.Node]:
    """The arguments of a call that its result is a view of, or with ``writes`` those that it writes into."""
    if node.target is operator.getitem and not writes:
        return node.all_input_nodes
    if not isinstance(node.target, _OVERLOAD) or (writes and node.target is aten.detach_.default):
        return []
    found = []
    schema = node.target._schema
    for k, argument in enumerate(schema.arguments):
        value = node.args[k] if k < len(node.args) else node.kwargs.get(argument.name)
        info = argument.alias_info
        if info is not None and (info.is_write or not writes):
            found += [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(v, fx.Node)]
    return found


class _Memory:
    """Which nodes of a graph may share memory, and which of these are written into by some call."""

    def __init__(self, graph: fx.Graph) -> None:
        self._first: dict[fx.Node, fx.Node] = {}  # of the nodes that share memory, another one, up to the first
        for n in graph.nodes:
            for base in _aliases(n, writes=False):
                self._first[self.of(n)] = self.of(base)
        self.written = {self.of(base) for n in graph.nodes for base in _aliases(n, writes=True)}

    def of(self, node: fx.Node) -> fx.Node:
        """One node that stands for all that may share memory with this one."""
        while (first := self._first.get(node, node)) is not node:
            node = first
        return node

    def is_written(self, node: fx.Node) -> bool:
        return self.of(node) in self.written


def written_nodes(graph: fx.Graph) -> set[fx.Node]:
    """The nodes whose memory is written into by some call, through whatever view."""
    memory = _Memory(graph)
    return {n for n in graph.nodes if memory.is_written(n)}


def written_later(graph: fx.Graph) -> set[fx.Node]:
    """The nodes whose memory is written into by a call that comes after them."""
    memory = _Memory(graph)
    written: set[fx.Node] = set()
    found: set[fx.Node] = set()
    for n in reversed(graph.nodes):
        if memory.of(n) in written:
            found.add(n)
        written |= {memory.of(base) for base in _aliases(n, writes=True)}
    return found


def _write_anew(graph: fx.Graph) -> None:
    """Exchange calls that write into what nobody else uses, such as ``gelu(x).add_(y)``, for ``gelu(x) + y``."""
    for n in graph.nodes:
        if not _aliases(n, writes=True) or not isinstance(base := n.args[0], fx.Node):
            continue
        name, overload = n.target._schema.name.split("::")[1], n.target._schema.overload_name or "default"
        alone = len(base.users) == 1 and base.op == "call_function" and _is_pure(base) and not _aliases(base, False)
        values = [i.meta.get("val") for i in n.all_input_nodes]
        kinds = {v.dtype for v in values if isinstance(v, Tensor)}
        shape = base.meta["val"].shape if isinstance(base.meta.get("val"), Tensor) else None
        new = getattr(getattr(aten, name.removesuffix("_"), None), overload, None)
        if alone and len(kinds) == 1 and new is not None and n.target is not new and n.meta["val"].shape == shape:
            n.target = new


def merge_repeated(module: fx.GraphModule) -> None:
    """Compute once what is computed several times from the same, and leave out copies that nothing writes into.

    The native run and the run on the new grid have such calls in common. Not merged: what an output shares memory with,
    and calls on both sides of a change of gradients or autocast. Where gradients are off, a copy cuts them off.
    """
    _write_anew(module.graph)
    graph, memory = module.graph, _Memory(module.graph)
    returned = {memory.of(n) for n in graph.output_node().all_input_nodes}
    seen: dict[Any, fx.Node] = {}
    section, gradients = 0, True
    for n in list(graph.nodes):
        if n.op == "get_attr" and not memory.is_written(n):
            key: Any = id(getattr(module, str(n.target)))
        elif n.op == "call_function" and _is_pure(n):
            if memory.of(n) in returned or any(map(memory.is_written, (n, *n.all_input_nodes))):
                continue
            if gradients and _repeats_its_input(n):
                n.replace_all_uses_with(n.args[0])
                graph.erase_node(n)
                continue
            key = section, n.target, _hashable(n.args), _hashable(n.kwargs)
        else:
            section += n.op == "call_function" and not isinstance(n.target, _OVERLOAD)  # sets gradients or autocast
            if getattr(n.target, "__name__", "") == "_set_grad_enabled":
                gradients = bool(n.args[0])
            continue
        if seen.setdefault(key, n) is not n:
            n.replace_all_uses_with(seen[key])
            graph.erase_node(n)
    module.recompile()


def _repeats_its_input(node: fx.Node) -> bool:
    """Whether a call copies its input as it is, or converts it to the dtype that it has.

    A copy of every second sample is no such: it lies in memory without gaps, so that it can be viewed otherwise.
    """
    if node.kwargs or not node.args or not isinstance(source := node.args[0], fx.Node):
        return False
    value, result = source.meta.get("val"), node.meta.get("val")
    if not isinstance(value, Tensor) or not isinstance(result, Tensor):
        return False
    if node.target is aten.to.dtype and len(node.args) == 2:
        return value.dtype == node.args[1]
    # As text: comparing symbols would make a condition of the graph.
    return node.target is aten.clone.default and len(node.args) == 1 and str(value.stride()) == str(result.stride())


def _hashable(value: Any) -> Any:
    """Nested arguments of a call, to be compared with others; 1, 1.0 and True are not the same."""
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(_hashable, value))
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in sorted(value.items()))
    if isinstance(value, slice):
        return _hashable((value.start, value.stop, value.step))
    return value if isinstance(value, fx.Node) else (type(value), value)


def fold_constants(module: fx.GraphModule) -> None:
    """Compute what depends on no input; not what is written into, nor random numbers."""
    written = written_nodes(module.graph)
    values: dict[fx.Node, Any] = {}
    for n in module.graph.nodes:
        if n in written or any(i not in values for i in n.all_input_nodes):
            continue
        if n.op == "get_attr":
            values[n] = getattr(module, str(n.target))
        elif n.op == "call_function" and _is_pure(n):
            args, kwargs = fx.map_arg((n.args, dict(n.kwargs)), values.__getitem__)
            with torch.no_grad():
                values[n] = n.target(*args, **kwargs)
    for k, (n, value) in enumerate(values.items()):
        if n.op != "get_attr" and isinstance(value, Tensor) and any(user not in values for user in n.users):
            module.register_buffer(f"_folded{k}", value.detach().clone())
            with module.graph.inserting_before(n):
                folded = module.graph.get_attr(f"_folded{k}")
            folded.meta["val"] = value
            n.replace_all_uses_with(folded)
    module.graph.eliminate_dead_code(_has_effects)
    kept = {str(n.target) for n in module.graph.nodes if n.op == "get_attr"}
    made = [*module._buffers, *vars(module)]
    for name in [name for name in made if name.startswith(("_folded", "_tensor_constant")) and name not in kept]:
        delattr(module, name)
    module.recompile()


STRIP = 2**10  # points of a hidden field that are made at once
STRIPS = 32  # at most, so that graphs of fine grids stay small
_ACTIVATIONS = (aten.gelu.default, aten.relu.default, aten.tanh.default, aten.silu.default)


def in_strips(module: fx.GraphModule) -> None:
    """Make wide hidden fields strip by strip: W₂ g(W₁ x + b₁) + b₂ of points (B, C, N), the heads of neural operators.

    Each of its calls acts on single points, so that the hidden field need never be in memory as a whole.
    """
    graph = module.graph
    for last in list(graph.nodes):
        calls = _hidden_field(last)
        if calls is None:
            continue
        first, inner = calls
        points = _shape(first)[-1]
        step = max(STRIP, -(-points // STRIPS))
        strips = []
        with graph.inserting_before(last):
            for start in range(0, points, step):
                at = -1, start, min(step, points - start)
                x = graph.call_function(aten.narrow.default, (first.args[2], *at))
                onto = last.args[0]
                if _shape(onto)[-1] == points:
                    onto = graph.call_function(aten.narrow.default, (onto, *at))
                hidden = graph.call_function(first.target, (*first.args[:2], x), dict(first.kwargs))
                hidden = graph.call_function(inner.target, (hidden, *inner.args[1:]), dict(inner.kwargs))
                strips.append(graph.call_function(last.target, (onto, last.args[1], hidden), dict(last.kwargs)))
            whole = graph.call_function(aten.cat.default, (strips, -1))
        whole.meta.update(last.meta)
        last.replace_all_uses_with(whole)
        for n in (last, inner, first):
            graph.erase_node(n)
    module.recompile()


def _hidden_field(last: Any) -> tuple[Any, Any] | None:
    """The first product and the activation of two products by points, where the field between them is worth strips."""
    product = aten.baddbmm.default
    inner: Any = last.args[2] if last.target is product else None
    first: Any = inner.args[0] if isinstance(inner, fx.Node) and inner.target in _ACTIVATIONS else None
    if not isinstance(first, fx.Node) or first.target is not product or len(inner.users) > 1 or len(first.users) > 1:
        return None
    (_, wide, points), bias, onto = _shape(first), _shape(first.args[0]), _shape(last.args[0])
    widths = _shape(first.args[2])[1], _shape(last)[1]
    if not all(type(n) is int for n in (wide, points, bias[-1], onto[-1], *widths)):
        return None
    return (first, inner) if points > STRIP and wide > max(widths) and bias[-1] == 1 != points else None


def _shape(n: Any) -> tuple[Any, ...]:
    return tuple(n.meta["val"].shape)


def _is_pure(node: fx.Node) -> bool:
    """Whether a call gives the same for the same arguments, and does nothing else."""
    if not isinstance(node.target, _OVERLOAD):
        return getattr(node.target, "__module__", "") in _NUMBERS
    return node.target.namespace == "aten" and torch.Tag.nondeterministic_seeded not in node.target.tags


def _has_effects(node: fx.Node) -> bool:
    """Whether a node must stay although nothing uses it."""
    if node.op in ("placeholder", "output"):
        return True
    if isinstance(node.target, _OVERLOAD):
        return _draws(node) or bool(_aliases(node, writes=True))
    return node.op == "call_function" and getattr(node.target, "__module__", "") not in _NUMBERS


def _draws(node: fx.Node) -> bool:
    """Whether a call draws random numbers: without it, calls after it would draw others."""
    if torch.Tag.nondeterministic_seeded not in node.target.tags:  # type: ignore[union-attr]
        return False
    arguments = node.target._schema.arguments  # type: ignore[union-attr]
    given = {**{a.name: a.default_value for a in arguments if a.has_default_value()}, **node.kwargs}
    given |= {a.name: value for a, value in zip(arguments, node.args, strict=False)}
    return bool(given.get("train", True)) and given.get("dropout_p") != 0


def without_unused(module: fx.GraphModule, state: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the first inputs, named ``state``, that the graph has no use for; the names of the others."""
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    kept = []
    for name, n in zip(state, placeholders, strict=False):
        if n.users:
            kept.append(name)
        else:
            module.graph.erase_node(n)
    module.recompile()
    return tuple(kept)


# --- the plain module ------------------------------------------------------------------------------------------------


def plain_module(
    captured: fx.GraphModule, state: tuple[str, ...], model: nn.Module, inputs: list[str], output: Any, name: str
) -> fx.GraphModule:
    """A captured graph as a module of its own: it has the model's parameters and buffers, under their names.

    ``inputs``: names for the inputs; ``output``: the nesting of the output, whose tensors the graph returns in a row.
    Constants are no part of its state.
    """
    root = nn.Module()
    root.add_module("constants", nn.Module())
    kept = {*model.state_dict(keep_vars=True)}
    for path, t in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        _attach(root, path, t, persistent=path in kept)
    graph, copies = fx.Graph(tracer_cls=fx.Tracer), dict[fx.Node, fx.Node]()
    placeholders = [n for n in captured.graph.nodes if n.op == "placeholder"]
    for n, label in zip(placeholders[len(state) :], inputs, strict=True):
        copies[n] = graph.placeholder(label)
    for n, path in zip(placeholders, state, strict=False):
        copies[n] = graph.get_attr(path)
    for n in captured.graph.nodes:
        if n.op == "get_attr":
            path = f"constants.{str(n.target).lstrip('_')}"
            _attach(root, path, getattr(captured, str(n.target)), persistent=False)
            copies[n] = graph.get_attr(path)
        elif n.op == "call_function":
            copies[n] = graph.node_copy(n, copies.__getitem__)
        elif n.op == "output":
            graph.output(_nested(output, [copies[v] for v in n.args[0]]))
        copies.get(n, n).meta.update({k: v for k, v in n.meta.items() if k == "val"})
    plain = fx.GraphModule(root, graph, name)
    adopt(plain, root)
    return plain.train(model.training)


def adopt(plain: fx.GraphModule, root: nn.Module) -> None:
    """Give a graph's module all that its root has, in its order; on its own it has only what the graph uses."""
    plain._modules, plain._parameters, plain._buffers = root._modules, root._parameters, root._buffers
    plain._non_persistent_buffers_set = root._non_persistent_buffers_set


def _nested(output: Any, results: list[fx.Node]) -> Any:
    """The results in the nesting of the output, where a graph can return it; else in a row."""
    values = iter(results)

    def nested(value: Any) -> Any:
        if isinstance(value, Tensor):
            return next(values)
        if type(value) in (tuple, list):
            return type(value)(map(nested, value))
        if type(value) is dict:
            return {k: nested(v) for k, v in value.items()}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError

    try:
        return nested(output)
    except TypeError:
        return tuple(results)


def _attach(root: nn.Module, path: str, t: Tensor, persistent: bool) -> None:
    *parts, name = path.split(".")
    for part in parts:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    if isinstance(t, nn.Parameter):
        root.register_parameter(name, t)
    elif name not in root._buffers:
        root.register_buffer(name, t, persistent=persistent)
