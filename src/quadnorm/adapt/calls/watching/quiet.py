"""Runs of a model that leave no trace in it: no gradients, the same random numbers, buffers as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.calls.trees import Arguments


@contextmanager
def advice_on_gradients() -> Iterator[None]:
    """Say what to do about a model that differentiates in its forward and fails where gradients are off."""
    try:
        yield
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        raise RuntimeError(
            f"the model differentiates in its forward, and fails where gradients are off ({error}); it is looked at "
            "without them, as it is evaluated: put `with torch.enable_grad():` around the part that differentiates"
        ) from error


@contextmanager
def leaving_no_trace(model: nn.Module, gradients: bool = False) -> Iterator[None]:
    """For runs that leave no trace: no gradients unless asked for, random numbers and buffers as they were."""
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    with torch.set_grad_enabled(gradients), torch.random.fork_rng(devices=[]):
        try:
            with advice_on_gradients():
                yield
        finally:
            for b, before in buffers:
                b.data.copy_(before)  # not a change that autograd should see


def trial_output(model: nn.Module, arguments: Arguments) -> Any:
    """The model's output for (args, kwargs), from a run that leaves no trace."""
    with leaving_no_trace(model), uncompiled():
        return model(*arguments[0], **arguments[1])


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run the Python code of modules inside ``torch.compile``."""
    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():  # nothing was compiled, or we are
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Keep PyTorch's attention layers from their fused kernel, and compiled parts of a model from their compiled code.

    Neither would show its calls.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with uncompiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
