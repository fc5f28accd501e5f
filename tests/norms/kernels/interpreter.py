"""Triton's interpreter under test: quick enough, and with an account of every number that a program loads or stores."""

from contextlib import contextmanager

import numpy as np
import torch
import triton.language as tl
from triton.language import core
from triton.runtime import interpreter


@contextmanager
def quick():
    """Device functions called by a program do not patch the language once more; that is two thirds of the time.

    Two more differences from a device are taken away: numpy warns about infinities, and the interpreter rounds to
    bfloat16 towards zero.
    """
    slow = interpreter.InterpretedFunction.__call__

    def call(self, *args, **kwargs):
        if core.is_builtin(core.arange):  # not patched yet
            return slow(self, *args, **kwargs)
        return self.rewrite()(*args, **kwargs)

    def convert(numbers, source, target, rounding):
        if (source, target) != (tl.float32, tl.bfloat16):
            return towards_zero(numbers, source, target, rounding)
        nearest = torch.from_numpy(np.ascontiguousarray(numbers)).to(torch.bfloat16)
        return nearest.view(torch.int16).numpy().view(np.uint16).reshape(numbers.shape)

    towards_zero = interpreter._convert_float
    interpreter.InterpretedFunction.__call__, interpreter._convert_float = call, convert
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        interpreter.InterpretedFunction.__call__, interpreter._convert_float = slow, towards_zero


@contextmanager
def traffic(**tensors):
    """Counts of the numbers read from and written to each tensor: {"x": [reads, writes], …}."""
    counts = {name: [0, 0] for name in tensors}
    spans = {name: (t.data_ptr(), t.data_ptr() + t.nbytes) for name, t in tensors.items()}
    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def count(pointers, mask, kind):
        live = np.broadcast_to(mask.data, pointers.data.shape)
        for name, (start, end) in spans.items():
            counts[name][kind] += int((live & (pointers.data >= start) & (pointers.data < end)).sum())

    def counting_load(self, ptrs, mask, *rest):
        count(ptrs, mask, 0)
        return load(self, ptrs, mask, *rest)

    def counting_store(self, ptrs, value, mask, *rest):
        count(ptrs, mask, 1)
        return store(self, ptrs, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store = counting_load, counting_store
    try:
        yield counts
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store
