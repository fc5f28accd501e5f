"""The names of PyTorch that are not public: all that the package uses, in one place.

A version of PyTorch may lack any of them. Those that layers ask at every call (:data:`ASKED`) have a stand-in: the
layer works, and does not see the tracer or transform that the name would show. Adapters need all (:func:`require`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad

ASKED: dict[str, Any] = {  # name → what stands in for it where it is missing
    "torch._C:_are_functorch_transforms_active": lambda: False,
    "torch._C:_get_tracing_state": lambda: None,
    "torch._C:_len_torch_dispatch_stack": lambda: 0,
    "torch._C:_len_torch_function_stack": lambda: 0,
    "torch._C:_dispatch_tls_is_dispatch_key_included": lambda key: False,
    "torch._C:_parse_dispatch_key": lambda name: None,
    "torch._C:_functorch.is_functorch_wrapped_tensor": lambda t: False,
    "torch._C:_functorch.is_legacy_batchedtensor": lambda t: False,
    "torch._ops:_len_torch_dispatch_stack_pre_dispatch": lambda: 0,
    "torch:_is_functional_tensor": lambda t: False,
    "torch:_assert_async": lambda condition, message: None,
    "torch.autograd.forward_ad:_current_level": -1,
    "torch.utils._python_dispatch:_disable_current_modes": nullcontext,
    "torch._subclasses.fake_tensor:FakeTensor": type("FakeTensor", (), {}),
    "torch.fx.experimental.proxy_tensor:get_proxy_mode": lambda: None,
}
# Every transform makes its tensors with these, below the level at which calls are seen.
WRAPPERS = (
    "torch._functorch.vmap:_add_batch_dim",
    "torch._functorch.vmap:_remove_batch_dim",
    "torch._functorch.eager_transforms:_wrap_for_grad",
    "torch._functorch.eager_transforms:_unwrap_for_grad",
)
CHECKPOINT = "torch.utils.checkpoint:_checkpoint_without_reentrant_generator"
NEEDED = (  # by adapters alone
    *WRAPPERS,
    CHECKPOINT,
    "torch._C:DisableTorchFunction",
    "torch._C:_is_torch_function_mode_enabled",
    "torch._C:_functorch.is_gradtrackingtensor",
    "torch._C:_functorch.is_batchedtensor",
    "torch._C:_functorch.get_unwrapped",
    "torch._C:_functorch.maybe_get_level",
    "torch._C:_functorch.maybe_get_bdim",
    "torch.overrides:_get_current_function_mode",
    "torch.nn.modules.module:_global_forward_hooks",
    "torch.nn.modules.module:_global_forward_pre_hooks",
    "torch.nn.modules.module:_global_backward_hooks",
    "torch.nn.modules.module:_global_backward_pre_hooks",
    "torch._dispatch.python:enable_python_dispatcher",
    "torch._subclasses.fake_tensor:DataDependentOutputException",
    "torch._subclasses.fake_tensor:DynamicOutputShapeException",
    "torch._subclasses.fake_tensor:FakeTensorMode",
    "torch._subclasses.fake_tensor:UnsupportedOperatorException",
    "torch.fx.experimental.proxy_tensor:PreDispatchTorchFunctionMode",
    "torch.fx.experimental.proxy_tensor:ProxyTorchDispatchMode",
    "torch.fx.experimental.proxy_tensor:PythonKeyTracer",
    "torch.fx.experimental.proxy_tensor:disable_autocast_cache",
    "torch.fx.experimental.proxy_tensor:wrap_key",
    "torch.fx.experimental.symbolic_shapes:DimDynamic",
    "torch.fx.experimental.symbolic_shapes:GuardOnDataDependentSymNode",
    "torch.fx.experimental.symbolic_shapes:ShapeEnv",
    "torch.fx.experimental.symbolic_shapes:StatelessSymbolicContext",
)
PARALLEL = (  # by quadnorm.parallel alone
    "torch.distributed._functional_collectives:all_reduce",  # its module registers operators
    "torch:ops._c10d_functional",
    "torch.testing._internal.distributed.fake_pg:FakeStore",  # for a benchmark
    "torch.utils._python_dispatch:TorchDispatchMode",
)


def named(path: str) -> Any:
    """PyTorch's name, given as ``module:name``, or what stands in for it; an error if nothing does."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError):
        if path in ASKED:
            return ASKED[path]
        raise


# Looked up once: a norm asks at every call.
transforms_active: Callable[[], bool] = named("torch._C:_are_functorch_transforms_active")
tracing_state: Callable[[], Any] = named("torch._C:_get_tracing_state")
dispatch_modes: Callable[[], int] = named("torch._C:_len_torch_dispatch_stack")
function_modes: Callable[[], int] = named("torch._C:_len_torch_function_stack")
pre_dispatch_modes: Callable[[], int] = named("torch._ops:_len_torch_dispatch_stack_pre_dispatch")
is_functorch_wrapped: Callable[[Tensor], bool] = named("torch._C:_functorch.is_functorch_wrapped_tensor")
is_legacy_batched: Callable[[Tensor], bool] = named("torch._C:_functorch.is_legacy_batchedtensor")
is_functional: Callable[[Tensor], bool] = named("torch:_is_functional_tensor")
assert_async: Callable[[Tensor, str], None] = named("torch:_assert_async")
disable_current_modes: Callable[[], Any] = named("torch.utils._python_dispatch:_disable_current_modes")
FakeTensor: Any = named("torch._subclasses.fake_tensor:FakeTensor")
get_proxy_mode: Callable[[], Any] = named("torch.fx.experimental.proxy_tensor:get_proxy_mode")
_has_key: Callable[[Any], bool] = named("torch._C:_dispatch_tls_is_dispatch_key_included")
_batched: Any = named("torch._C:_parse_dispatch_key")("VmapMode")
# Whether autograd.grad(is_grads_batched=True) is running, whose vmap is not functorch's. No functions of Python here
# and below: a norm asks at every call.
batches_gradients: Callable[[], bool] = partial(bool) if _batched is None else partial(_has_key, _batched)
# The innermost open level of forward-mode differentiation; negative if there is none.
forward_level: Callable[[], int] = partial(getattr, forward_ad, "_current_level", -1)


@cache
def missing() -> tuple[str, ...]:
    """The names that adapters need and this PyTorch lacks."""
    absent = []
    for path in (*ASKED, *NEEDED):
        try:
            resolve_name(path)
        except (ImportError, AttributeError):
            absent.append(path.replace(":", "."))
    return tuple(absent)


def require(what: str) -> None:
    """Raise if this PyTorch lacks a name that adapters need."""
    if missing():
        raise RuntimeError(
            f"{what} looks at a model's calls through names of PyTorch that are not public, and PyTorch "
            f"{torch.__version__} lacks {', '.join(missing())}; quadnorm.at_native needs none of them"
        )


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

    def fake_tensor(name: str) -> Any:
        return named(f"torch._subclasses.fake_tensor:{name}")

    def proxy_tensor(name: str) -> Any:
        return named(f"torch.fx.experimental.proxy_tensor:{name}")

    def symbolic(name: str) -> Any:
        return named(f"torch.fx.experimental.symbolic_shapes:{name}")

    environment, DimDynamic = symbolic("ShapeEnv")(), symbolic("DimDynamic")
    fake = fake_tensor("FakeTensorMode")(shape_env=environment, allow_non_fake_inputs=True)
    inputs = []
    for t, moves in zip(given, dynamic, strict=True):
        # DUCK: equal sizes are one symbol. Arguments that share a batch may meet in one tensor.
        kinds = [DimDynamic.DUCK if moves and k == 0 else DimDynamic.STATIC for k in range(t.ndim)]
        context = symbolic("StatelessSymbolicContext")(dynamic_sizes=kinds)
        inputs.append(fake.from_tensor(t, symbolic_context=context))
    tracer = proxy_tensor("PythonKeyTracer")()
    tracer.root, tracer.tensor_attrs = nn.Module(), {}
    tracer.graph = fx.Graph(tracer_cls=fx.Tracer)
    proxies = [tracer.create_proxy("placeholder", f"t{k}", (), {}) for k in range(len(inputs))]
    contexts = (
        fake,
        named("torch._dispatch.python:enable_python_dispatcher")(),
        proxy_tensor("PreDispatchTorchFunctionMode")(tracer),
        proxy_tensor("ProxyTorchDispatchMode")(tracer, "real", pre_dispatch=True),
        proxy_tensor("disable_autocast_cache")(),
    )
    values_read = (
        fake_tensor("DataDependentOutputException"),
        fake_tensor("DynamicOutputShapeException"),
        symbolic("GuardOnDataDependentSymNode"),
        fake_tensor("UnsupportedOperatorException"),
    )
    try:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            results = proxy_tensor("wrap_key")(function, tuple(inputs), tracer, True)(*proxies)
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
    return isinstance(t, FakeTensor) or (isinstance(t, Tensor) and is_functorch_wrapped(t))


@cache
def functorch(name: str) -> Callable[[Tensor], Any]:
    """A function of the transforms."""
    function: Callable[[Tensor], Any] = named(f"torch._C:_functorch.{name}")
    return function


def current_function_mode() -> Any:
    """The innermost function mode of this thread; None where none sees calls."""
    enabled = _asked_often("torch._C:_is_torch_function_mode_enabled")()
    return _asked_often("torch.overrides:_get_current_function_mode")() if enabled else None


_asked_often = cache(named)


def exchange(path: str, new: Any) -> None:
    """Put a function in the place of PyTorch's own."""
    module, _, name = path.partition(":")
    setattr(resolve_name(module), name, new)


def without_function_modes() -> Any:
    """A context in which no function mode sees a call."""
    return _asked_often("torch._C:DisableTorchFunction")()


def outside_modes() -> ExitStack:
    """A context outside of all function modes, dispatch modes and gradients."""
    stack = ExitStack()
    for context in (without_function_modes(), disable_current_modes(), torch.no_grad()):
        stack.enter_context(context)
    return stack


def global_module_hooks() -> list[dict[int, Any]]:
    """Hooks that run with every module of the process."""
    kinds = ("forward", "forward_pre", "backward", "backward_pre")
    return [named(f"torch.nn.modules.module:_global_{kind}_hooks") for kind in kinds]
