"""What kind of tensor this is: the one test that every room shares.

Hand-written kernels, caches and checks of values need tensors whose numbers are there to be read. Tracers, transforms
and fake tensors hand out objects of the same type whose numbers are not, or do not belong outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

_TYPES = (Tensor, nn.Parameter)
# The vmap of autograd.grad(is_grads_batched=True), which is not functorch's.
_BATCHED_GRADIENTS: Any = torch._C._parse_dispatch_key("VmapMode")
# Looked up once: a norm asks at every call.
_is_compiling = torch.compiler.is_compiling
_transforms, _tracer = torch._C._are_functorch_transforms_active, torch._C._get_tracing_state
_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_has_key = torch._C._dispatch_tls_is_dispatch_key_included
_pre_dispatch_modes: Callable[[], int] = torch._ops._len_torch_dispatch_stack_pre_dispatch


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether operations run as they are written, and the numbers of all tensors can be read; None counts as plain.

    Not so inside a compiler, exporter, tracer, functional transform, forward-mode level or dispatch mode, and not for
    fake and meta tensors and other subclasses.

    >>> is_plain(torch.ones(1), None), is_plain(torch.ones(1, device="meta"))
    (True, False)
    """
    if _is_compiling() or _transforms() or _tracer() is not None:
        return False
    if _dispatch_modes() or forward_ad._current_level >= 0 or _has_key(_BATCHED_GRADIENTS):
        return False
    if _function_modes() and recorded_before_dispatch():
        return False
    for t in tensors:  # noqa: SIM110, a generator would cost more than the questions
        if t is not None and (type(t) not in _TYPES or t.is_meta):
            return False
    return True


def recorded_before_dispatch() -> bool:
    """Whether ``make_fx(pre_dispatch=True)`` is recording. It keeps a stack of modes of its own.

    >>> recorded_before_dispatch()
    False
    """
    # That stack is slow to ask, and never there without a function mode.
    return bool(_function_modes() and _pre_dispatch_modes())


def outlives_its_maker(t: Tensor) -> bool:
    """Whether a tensor means the same outside the tracer or transform it was made in, so that a cache may keep it.

    >>> outlives_its_maker(torch.ones(1))
    True
    """
    return (
        type(t) is Tensor
        and not torch._is_functional_tensor(t)
        and not torch._C._functorch.is_functorch_wrapped_tensor(t)
    )
