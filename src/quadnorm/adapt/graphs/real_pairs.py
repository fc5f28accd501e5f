r"""Complex arithmetic of a graph as arithmetic of real pairs, and Fourier transforms as products with matrices.

Runtimes for exported models, ONNX among them, have no complex numbers. A captured graph has one grid, so that a
transform of n samples is a product with a constant matrix: of cosines and sines, :math:`\sum_j x_j e^{-2\pi i jk/n}`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, fx, nn

from quadnorm.adapt.graphs.passes import adopt, written_later
from quadnorm.adapt.operations import TABLE
from quadnorm.adapt.operations.fourier import Transform
from quadnorm.carry.waves import divisor, multiplicities, waves

aten = torch.ops.aten


class NotInRealPairsError(RuntimeError):
    """A graph has an operation on complex numbers that is not known here."""


def in_real_pairs(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph without complex numbers, inputs and outputs aside; its parameters stay what they are."""
    return _Rewriter(module).rewritten()


# Operations that act on the real and on the imaginary part alike.
_ALIKE = {
    *("slice", "select", "narrow", "permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "mT"),
    *("numpy_T", "reshape", "view", "view_as", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as"),
    *("clone", "contiguous", "cat", "concat", "concatenate", "stack", "index_select", "index", "flip", "roll"),
    *("sum", "mean", "pad", "constant_pad_nd", "detach", "alias", "repeat", "tile", "gather", "chunk", "split"),
    *("split_with_sizes", "unbind", "neg", "copy_", "slice_scatter", "select_scatter", "index_put", "index_put_"),
    *("index_copy", "index_copy_", "diagonal", "lift_fresh_copy", "broadcast_to", "reshape_as", "negative"),
    *("fft_fftshift", "fft_ifftshift"),
}
_PRODUCTS = {"mul", "multiply", "matmul", "mm", "bmm", "einsum", "tensordot", "dot", "mv", "inner", "outer", "mul_"}
_NO_VIEWS = {"view_as_real", "conj", "_conj"}  # views, whose pairs here are none
_SHARE_PARTS = {"complex", "add", "sub", "rsub"}  # no views, whose pairs may have parts of their inputs' pairs
_NEW = {"zeros", "ones", "full", "empty", "zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones"}
_NEW |= {"new_empty", "new_full"}
_INVERSE = {None: "forward", "backward": "forward", "forward": "backward"}  # what a transform divides by
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}

Value = Any  # a node, a number, or a nesting of these
Pair = tuple[Value, Value]


class _Rewriter:
    """One graph, node by node; ``pairs`` has the two nodes of each complex one."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.module = module
        self.graph = fx.Graph(tracer_cls=fx.Tracer)
        self.nodes: dict[fx.Node, fx.Node] = {}
        self.pairs: dict[fx.Node, Pair] = {}
        self.constants: dict[str, Tensor] = {}  # the module gets them once all calls are known here
        self.written_later = written_later(module.graph)

    def rewritten(self) -> fx.GraphModule:
        for n in self.module.graph.nodes:
            if n.op == "output":
                self.graph.output(fx.map_arg(n.args[0], self._whole))
            elif n.op in ("placeholder", "get_attr"):
                copied = self.nodes[n] = self.graph.node_copy(n)
                if _is_complex(self.module, n):
                    self._split(n, copied)
            else:
                self._call(n)
        home = self.module.get_submodule("constants")
        for name, value in self.constants.items():
            home.register_buffer(name, value, persistent=False)
        result = fx.GraphModule(self.module, self.graph, type(self.module).__name__)
        adopt(result, self.module)
        result.graph.eliminate_dead_code()
        used = {str(n.target) for n in result.graph.nodes if n.op == "get_attr"}
        for name in [name for name in home._buffers if f"constants.{name}" not in used]:
            delattr(home, name)
        result.recompile()
        return result

    def _split(self, n: fx.Node, copied: fx.Node) -> None:
        """The parts of an input, a parameter or a constant."""
        constant = n.op == "get_attr" and not isinstance(_attribute(self.module, str(n.target)), nn.Parameter)
        if constant and str(n.target).startswith("constants."):
            value = _attribute(self.module, str(n.target))
            self.pairs[n] = self._constant(value.real), self._constant(value.imag)
        else:
            parts = self._do(aten.view_as_real.default, copied)
            self.pairs[n] = self._do(aten.select.int, parts, -1, 0), self._do(aten.select.int, parts, -1, 1)

    # --- building ----------------------------------------------------------------------------------------------------

    def _do(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call_function(target, args, kwargs)

    def _constant(self, value: Tensor) -> fx.Node:
        name = f"pair{len(self.constants)}"
        self.constants[name] = value.detach().contiguous().clone()
        return self.graph.get_attr(f"constants.{name}")

    def _whole(self, n: fx.Node) -> fx.Node:
        """A node as it is, complex ones put together again: they are outputs."""
        return self._do(aten.complex.default, *self.pairs[n]) if n in self.pairs else self.nodes[n]

    def _part(self, value: Value, at: int) -> Value:
        """The real (0) or imaginary (1) part of arguments; real ones stay what they are."""
        if isinstance(value, fx.Node):
            return self.pairs[value][at] if value in self.pairs else self.nodes[value]
        if isinstance(value, complex):
            return (value.real, value.imag)[at]
        if isinstance(value, (tuple, list)):
            return type(value)(self._part(v, at) for v in value)
        if isinstance(value, slice):
            return slice(*(self._part(v, at) for v in (value.start, value.stop, value.step)))
        return value

    def _imaginary(self, value: Value) -> Value:
        """The imaginary part of one factor: None if it is real."""
        if isinstance(value, fx.Node):
            return self.pairs[value][1] if value in self.pairs else None
        return (value.imag or None) if isinstance(value, complex) else None

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, n: fx.Node) -> None:
        involved = any(i in self.pairs for i in n.all_input_nodes)
        if not involved and not _is_complex(self.module, n):
            self.nodes[n] = self.graph.node_copy(n, self.nodes.__getitem__)
            return
        if n.target is operator.getitem:
            source, at = n.args
            self.pairs[n] = tuple(self._do(operator.getitem, part, at) for part in self.pairs[source])  # type: ignore[index,assignment]
            return
        if n in self.written_later and _name(n) in _NO_VIEWS:
            raise NotInRealPairsError(f"what is written into the result of {_name(n)}")
        result = self._rewrite(n, _name(n))
        if isinstance(result, tuple) and _name(n) in _SHARE_PARTS and self.written_later & {n, *n.all_input_nodes}:
            result = self._do(aten.clone.default, result[0]), self._do(aten.clone.default, result[1])
        if isinstance(result, tuple):
            self.pairs[n] = result
        else:
            self.nodes[n] = result

    def _rewrite(self, n: fx.Node, name: str) -> fx.Node | Pair:
        args, kwargs = n.args, n.kwargs
        operation = TABLE.get(name.removeprefix("fft_"))
        if isinstance(operation, Transform):
            return self._transform(n, operation)
        if name in _NEW:
            return self._new(n)
        if name in _PRODUCTS:
            return self._product(n, name)
        if name == "complex":
            return self._part(args[0], 0), self._part(args[1], 0)
        if name == "view_as_complex":
            parts = self._part(args[0], 0)
            return self._do(aten.select.int, parts, -1, 0), self._do(aten.select.int, parts, -1, 1)
        if name == "view_as_real":
            return self._do(aten.stack.default, list(self.pairs[args[0]]), -1)  # type: ignore[index]
        if name in ("real", "imag"):
            return self._part(args[0], 0 if name == "real" else 1)  # type: ignore[no-any-return]
        if name in ("conj", "_conj", "conj_physical", "resolve_conj", "resolve_neg"):
            re, im = self.pairs[args[0]]  # type: ignore[index]
            return re, im if name.startswith("resolve") else self._do(aten.neg.default, im)
        if name == "abs":
            return self._length(*self.pairs[args[0]])  # type: ignore[index]
        if name in ("to", "_to_copy"):
            return self._converted(n)
        if name in ("add", "sub", "add_", "sub_", "rsub"):
            return self._sum(n)
        if name in ("div", "true_divide", "divide") and self._imaginary(args[1]) is None:
            return self._each(n, kwargs)
        if name in ("copy_", "slice_scatter", "select_scatter", "index_put", "index_put_") and not all(
            i in self.pairs for i in _fields(n)
        ):
            raise NotInRealPairsError(f"{name} of a real tensor into a complex one")
        if name in ("pad", "constant_pad_nd") and _arguments(n).get("value"):
            raise NotInRealPairsError(f"{name} with a number other than 0")
        if name in _ALIKE:
            return self._each(n, kwargs)
        raise NotInRealPairsError(f"{name} of complex numbers")

    def _each(self, n: fx.Node, kwargs: Any) -> Pair:
        """The call on the real parts, and on the imaginary parts."""
        parts = []
        for at in (0, 1):
            named = {k: self._part(v, at) for k, v in kwargs.items() if k != "dtype"}
            parts.append(self._do(n.target, *(self._part(a, at) for a in n.args), **named))
        return parts[0], parts[1]

    def _length(self, re: Value, im: Value) -> fx.Node:
        """√(re² + im²), with derivative 0 at 0 as that of complex numbers has; the root's own is infinite there."""
        square = self._do(aten.add.Tensor, *(self._do(aten.mul.Tensor, part, part) for part in (re, im)))
        zero = self._do(aten.eq.Scalar, square, 0)
        root = self._do(aten.sqrt.default, self._do(aten.masked_fill.Scalar, square, zero, 1))
        return self._do(aten.masked_fill.Scalar, root, zero, 0)

    def _sum(self, n: fx.Node) -> Pair:
        a, b = n.args[:2]
        if self._imaginary(a) is not None and self._imaginary(b) is not None:
            return self._each(n, n.kwargs)
        re = self._do(n.target, self._part(a, 0), self._part(b, 0), **n.kwargs)
        first = self._imaginary(a) is not None
        im = self._imaginary(a if first else b)
        if _name(n) == "rsub" if first else _name(n) in ("sub", "sub_"):
            im = self._do(aten.neg.default, im)
        if n.kwargs.get("alpha", 1) != 1 or _shape(n) != _shape(a if first else b):
            raise NotInRealPairsError("a sum of a real and a complex tensor of other shapes")
        return re, im

    def _product(self, n: fx.Node, name: str) -> Pair:
        """Products are linear in each factor: (a + ib)(c + id) = ac − bd + i(ad + bc), and so on for more."""
        many = name == "einsum"
        target: Any = getattr(aten.mul, n.target._schema.overload_name) if name == "mul_" else n.target  # type: ignore[union-attr]
        factors: Sequence[Value] = n.args[1] if many else n.args[:2]  # type: ignore[assignment]
        choices = [((0,) if self._imaginary(f) is None else (0, 1)) for f in factors]
        totals: list[Value] = [None, None]
        for chosen in product(*choices):
            parts = [self._part(f, at) for f, at in zip(factors, chosen, strict=True)]
            others = n.args[2:]
            term = self._do(target, n.args[0], parts, *others) if many else self._do(target, *parts, *others)
            i = sum(chosen)  # iⁱ = 1, i, −1, −i, …
            term = self._do(aten.neg.default, term) if i % 4 > 1 else term
            old = totals[i % 2]
            totals[i % 2] = term if old is None else self._do(aten.add.Tensor, old, term)
        if name == "mul_":  # once both are known, as each needs both old ones
            totals = [self._do(aten.copy_.default, self._part(n.args[0], at), totals[at]) for at in (0, 1)]
        return totals[0], totals[1]

    def _new(self, n: fx.Node) -> Pair:
        options = dict(n.kwargs)
        options["dtype"] = _REAL[_value(n).dtype]
        parts = [self._do(n.target, *(self._part(a, at) for a in n.args), **options) for at in (0, 1)]
        if "ones" in _name(n) or "full" in _name(n):
            zeros = self._do(aten.zeros_like.default, parts[0])
            number = next((a for a in (*n.args, options.get("fill_value")) if isinstance(a, complex)), 0.0)
            if number:
                raise NotInRealPairsError("a tensor filled with a complex number")
            return parts[0], zeros
        return parts[0], parts[1]

    def _converted(self, n: fx.Node) -> fx.Node | Pair:
        """A change of dtype or device."""
        source, dtype = n.args[0], _value(n).dtype
        real = _REAL.get(dtype, dtype)
        parts = self.pairs.get(source, (self.nodes.get(source), None))  # type: ignore[arg-type]
        re, im = (None if p is None else self._do(aten.to.dtype, p, real) for p in parts)
        if not dtype.is_complex:
            return re  # type: ignore[return-value]
        return re, self._do(aten.zeros_like.default, re) if im is None else im

    # --- transforms --------------------------------------------------------------------------------------------------

    def _transform(self, n: fx.Node, operation: Transform) -> fx.Node | Pair:
        given, shape = _arguments(n), _shape(n.args[0])
        inverse, half = operation.inverse, operation.half
        given = {**given, "s": given.get("s", given.get("n"))}
        dims = operation.dims_of(given, len(shape))
        wanted = given["s"] if isinstance(given["s"], (list, tuple)) else [given["s"]]
        lengths = [] if any(isinstance(m, fx.Node) for m in wanted) else operation.lengths(given, shape, dims)
        if not lengths or not all(isinstance(m, int) for m in lengths):
            raise NotInRealPairsError("a transform along the batch")
        norm: Any = given.get("norm")
        scale = 1 / divisor(lengths, norm if inverse else _INVERSE.get(norm, norm))
        pair: Pair = self.pairs.get(n.args[0], (self.nodes.get(n.args[0]), None))  # type: ignore[arg-type]
        value = _value(n.args[0])
        real = _REAL.get(value.dtype, value.dtype)
        axes = list(enumerate(zip(dims, lengths, strict=True)))
        if half and not inverse:
            axes.reverse()  # the real one first
        for at, (d, m) in axes:
            last = half and at == len(dims) - 1
            factor = scale if at == axes[0][0] else 1.0
            pair = self._along(pair, d, len(shape), shape[d], m, inverse, last, factor, real, value.device)
        return pair[0] if half and inverse else pair

    def _along(
        self,
        pair: Pair,
        d: int,
        ndim: int,
        given: int,
        m: int,
        inverse: bool,
        half: bool,
        factor: float,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Pair:
        """A transform of m samples along dimension d; the input has ``given`` of them, more or less are cut or 0."""
        kept = m // 2 + 1 if half else m
        rows, columns = (min(given, kept), m) if inverse else (min(given, m), kept)
        j, k = (torch.arange(n, dtype=torch.float64, device="cpu") for n in (rows, columns))
        E = waves(j, k / m) * factor
        if inverse and half:
            E = E * multiplicities(m)[:rows, None]
        C, S = (self._constant(t.to(device, dtype)) for t in (E.real, E.imag))

        def along(x: Value, M: Value) -> Value:
            return self._do(aten.matmul.default, x, M)

        def moved(x: Value) -> Value:
            if x is None:
                return None
            y = self._do(aten.movedim.int, x, d, -1) if d != ndim - 1 else x
            return self._do(aten.slice.Tensor, y, -1, 0, rows) if rows < given else y

        def back(x: Value) -> Value:
            return self._do(aten.movedim.int, x, -1, d) if d != ndim - 1 else x

        re, im = map(moved, pair)
        sign: Callable[..., Value] = self._minus if inverse else self._plus
        if im is None:  # of a real field
            return back(along(re, C)), back(along(re, S) if inverse else self._do(aten.neg.default, along(re, S)))
        first = back(sign(along(re, C), along(im, S)))
        if inverse and half:
            return first, None
        other: Callable[..., Value] = self._plus if inverse else self._minus
        return first, back(other(along(im, C), along(re, S)))

    def _plus(self, a: Value, b: Value) -> Value:
        return self._do(aten.add.Tensor, a, b)

    def _minus(self, a: Value, b: Value) -> Value:
        return self._do(aten.sub.Tensor, a, b)


# --- what nodes are --------------------------------------------------------------------------------------------------


def _name(n: fx.Node) -> str:
    """The name of a node's operation, without its overload."""
    target = n.target
    return (
        target._schema.name.split("::")[1] if hasattr(target, "_schema") else getattr(target, "__name__", str(target))
    )


def _arguments(n: fx.Node) -> dict[str, Any]:
    """A call's arguments by name."""
    names = [a.name for a in n.target._schema.arguments]  # type: ignore[union-attr]
    return {**dict(zip(names, n.args, strict=False)), **n.kwargs}


def _attribute(module: nn.Module, target: str) -> Any:
    path, _, name = target.rpartition(".")
    return getattr(module.get_submodule(path), name)


def _value(n: Any) -> Any:
    """The tensor without values that a node stood for when it was recorded."""
    return n.meta["val"]


def _is_complex(module: nn.Module, n: fx.Node) -> bool:
    if n.op == "get_attr":
        return bool(_attribute(module, str(n.target)).is_complex())
    value = n.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(v, Tensor) and v.is_complex() for v in values)


def _shape(n: Any) -> tuple[Any, ...]:
    return tuple(_value(n).shape) if isinstance(n, fx.Node) else ()


def _fields(n: fx.Node) -> list[fx.Node]:
    """The nodes among a call's arguments that are tensors of real or complex numbers."""
    return [
        i
        for i in n.all_input_nodes
        if isinstance(v := i.meta.get("val"), Tensor) and (v.is_floating_point() or v.is_complex())
    ]
