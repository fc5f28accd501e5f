"""What kind of tensor this is: the one test that every room shares.

Hand-written kernels, caches and checks of values need tensors whose numbers are there to be read. Tracers, transforms
and fake tensors hand out objects of the same type whose numbers are not, or do not belong outside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from quadnorm import _torch

_TYPES = (Tensor, nn.Parameter)
# Looked up once: a norm asks at every call.
_is_compiling = torch.compiler.is_compiling


class _Capture(threading.local):
    """Whether this thread captures a graph of an adapted model (:mod:`quadnorm.adapt.graphs.capture`)."""

    active = False
    recording = False
    direct = False


_CAPTURE = _Capture()
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@contextmanager
def capturing(recording: bool = False) -> Iterator[None]:
    """Say that a graph of an adapted model is made in this thread; ``recording``: from tensors without values."""
    before = _CAPTURE.active, _CAPTURE.recording
    _CAPTURE.active, _CAPTURE.recording = True, recording
    try:
        yield
    finally:
        _CAPTURE.active, _CAPTURE.recording = before


def is_recording() -> bool:
    """Whether this thread records such a graph right now; not, whether it looks at the model beforehand."""
    return _CAPTURE.recording


def directly(function: AnyFunction) -> AnyFunction:
    """One of our operators, to be called by a mode that has seen it: it asks no further mode.

    The recorder's own mode would see no change of autocast inside.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _CAPTURE.direct = True
        try:
            return function(*args, **kwargs)
        finally:
            _CAPTURE.direct = False

    return run  # type: ignore[return-value]


def constant(function: AnyFunction) -> AnyFunction:
    """Mark a function whose result depends on sizes, dtype and device alone: in a captured graph it is a constant.

    While a graph is captured, it runs outside of all modes, on tensors with values.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _CAPTURE.active:
            return function(*args, **kwargs)
        before = _CAPTURE.recording
        _CAPTURE.active = _CAPTURE.recording = False
        try:
            with _torch.outside_modes():
                return function(*args, **kwargs)
        finally:
            _CAPTURE.active, _CAPTURE.recording = True, before

    return run  # type: ignore[return-value]


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether operations run as they are written, and the numbers of all tensors can be read; None counts as plain.

    Not so inside a compiler, exporter, tracer, functional transform, forward-mode level or dispatch mode, and not for
    fake and meta tensors and other subclasses.

    >>> is_plain(torch.ones(1), None), is_plain(torch.ones(1, device="meta"))
    (True, False)
    """
    if _is_compiling() or _CAPTURE.active or _torch.transforms_active() or _torch.tracing_state() is not None:
        return False
    if _torch.dispatch_modes() or _torch.forward_level() >= 0 or _torch.batches_gradients():
        return False
    if _torch.function_modes() and recorded_before_dispatch():
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
    if _CAPTURE.direct:
        _CAPTURE.direct = False
        return True
    # That stack is slow to ask, and never there without a function mode. Our own recorder wants our operators as they
    # are called.
    return bool(_torch.function_modes() and not _CAPTURE.active and _torch.pre_dispatch_modes())


def outlives_its_maker(t: Tensor) -> bool:
    """Whether a tensor means the same outside the tracer or transform it was made in, so that a cache may keep it.

    >>> outlives_its_maker(torch.ones(1))
    True
    """
    return type(t) is Tensor and not _torch.is_functional(t) and not _torch.is_functorch_wrapped(t)
