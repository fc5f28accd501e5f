"""How the CPU programs read and write memory: addresses as pointers, bfloat16 as the upper half of a float32, prefetch.

Numba has no bfloat16 on a CPU, so its numbers come as uint16. A conversion is two or three integer instructions, which
vectorize like any others: reading is exact, writing rounds to nearest, ties to even, as PyTorch's own does.

These are the only helpers that programs of several files share. Numba's disk cache does not notice a change here:
empty it (``NUMBA_CACHE_DIR``, or the ``__pycache__`` beside this file) after one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I16, _I32 = ir.IntType(16), ir.IntType(32)


def _as_pointer(typing, address, kind):
    """An address as a pointer to numbers like ``kind``."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind)(address, kind), code


def _as_number(typing, stored):
    """What is stored, as a number to calculate with."""

    def widened(context, builder, signature, arguments):
        bits = builder.shl(builder.zext(arguments[0], _I32), ir.Constant(_I32, 16))
        return builder.bitcast(bits, ir.FloatType())

    def same(context, builder, signature, arguments):
        return arguments[0]

    return (types.float32(stored), widened) if stored == types.uint16 else (stored(stored), same)


def _as_stored(typing, value, kind):
    """A number in the form in which numbers like ``kind`` are stored."""

    def rounded(context, builder, signature, arguments):
        bits = builder.bitcast(arguments[0], _I32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(_I32, 16)), ir.Constant(_I32, 1))
        nearest = builder.lshr(builder.add(builder.add(bits, odd), ir.Constant(_I32, 0x7FFF)), ir.Constant(_I32, 16))
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])  # which rounding could make an infinity
        return builder.trunc(builder.select(is_nan, ir.Constant(_I32, 0x7FC0), nearest), _I16)

    def same(context, builder, signature, arguments):
        return arguments[0]

    return (kind(types.float32, kind), rounded) if kind == types.uint16 else (kind(kind, kind), same)


def _prefetch(typing, row, ahead):
    """Ask for the cache line ``ahead`` bytes behind the start of a row; a hint, also beyond the end of an array."""

    def code(context, builder, signature, arguments):
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        bytes_ = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [bytes_, _I32, _I32, _I32])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, kind, "llvm.prefetch.p0")
        at = builder.gep(builder.bitcast(start, bytes_), [arguments[1]])
        to_read, keep_everywhere, data = (ir.Constant(_I32, k) for k in (0, 3, 1))
        builder.call(function, [at, to_read, keep_everywhere, data])
        return context.get_dummy_value()

    return types.void(row, types.intp), code


pointer: Any = intrinsic(_as_pointer)
prefetch: Any = intrinsic(_prefetch)
number: Any = intrinsic(_as_number)
stored: Any = intrinsic(_as_stored)
