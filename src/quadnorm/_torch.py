"""The names of PyTorch that are not public and that recording a graph needs, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn


@dataclass(frozen=True)
class Recording:
    """A recorded function: its graph, whether its dynamic size became a plain number, and the conditions on it.

    ``comparisons``: these conditions in words, with the line of code that makes each.
    """

    graph: fx.GraphModule
    fixed: bool
    comparisons: tuple[str, ...]
    conditions: Callable[[int], bool]


class ValuesReadError(RuntimeError):
    """A function asked for values of tensors while it was recorded."""


def record(function: Callable[..., tuple[Tensor, ...]], given: Sequence[Tensor], dynamic: Sequence[bool]) -> Recording:
    """The graph of ``function(*given)`` before dispatch, from tensors without values.

    ``dynamic``: whose first size is a symbol, the same for all. This is ``make_fx(pre_dispatch=True)`` without the
    patches of ``nn.Module`` that ``fx`` tracers set for all threads.
    """
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
        UnsupportedOperatorException,
    )
    from torch.fx.experimental import proxy_tensor
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        GuardOnDataDependentSymNode,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    environment = ShapeEnv()
    fake = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    inputs = []
    for t, moves in zip(given, dynamic, strict=True):
        kinds = [DimDynamic.DYNAMIC if moves and k == 0 else DimDynamic.STATIC for k in range(t.ndim)]
        inputs.append(fake.from_tensor(t, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)))
    tracer = proxy_tensor.PythonKeyTracer()
    tracer.root, tracer.tensor_attrs = nn.Module(), {}
    tracer.graph = fx.Graph(tracer_cls=fx.Tracer)
    proxies = [tracer.create_proxy("placeholder", f"t{k}", (), {}) for k in range(len(inputs))]
    mode = proxy_tensor.ProxyTorchDispatchMode(tracer, "real", pre_dispatch=True)
    function_mode = proxy_tensor.PreDispatchTorchFunctionMode(tracer)
    contexts = fake, enable_python_dispatcher(), function_mode, mode, proxy_tensor.disable_autocast_cache()
    values_read = (
        DataDependentOutputException,
        DynamicOutputShapeException,
        GuardOnDataDependentSymNode,
        UnsupportedOperatorException,
    )
    try:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            results = proxy_tensor.wrap_key(function, tuple(inputs), tracer, True)(*proxies)
            tracer.create_node("output", "output", (tracer.create_arg(tuple(results)),), {})
    except values_read as error:
        raise ValuesReadError(str(error)) from error
    graph = fx.GraphModule(tracer.root, tracer.graph)
    # A kernel without values asks how large the batch is to choose a memory layout, which changes no number.
    guards = [g for g in environment.guards if "_subclasses" not in str(getattr(g, "sloc", ""))]
    expressions = [g.expr for g in guards]
    if environment.deferred_runtime_asserts or any(len(e.free_symbols) > 1 for e in expressions):
        raise ValuesReadError("sizes depend on values")

    def conditions(size: int) -> bool:
        return all(bool(e.subs(dict.fromkeys(e.free_symbols, size))) for e in expressions)

    return Recording(graph, bool(environment.replacements), tuple(f"{g.expr} {g.sloc}" for g in guards), conditions)


def is_traced(t: object) -> bool:
    """Whether a tensor means nothing outside the tracer or transform that it was made in."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(t, FakeTensor) or (isinstance(t, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(t))


def outside_modes() -> ExitStack:
    """A context outside of all function modes, dispatch modes and gradients."""
    from torch.utils._python_dispatch import _disable_current_modes

    stack = ExitStack()
    stack.enter_context(torch._C.DisableTorchFunction())
    stack.enter_context(_disable_current_modes())
    stack.enter_context(torch.no_grad())
    return stack


def global_module_hooks() -> list[dict[int, Any]]:
    """Hooks that run with every module of the process."""
    module = torch.nn.modules.module
    names = (
        "_global_forward_hooks",
        "_global_forward_pre_hooks",
        "_global_backward_hooks",
        "_global_backward_pre_hooks",
    )
    return [getattr(module, name, {}) for name in names]
