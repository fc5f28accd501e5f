"""A copy of a model, seen at work on its training grid and anchored module by module."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from quadnorm.adapt.anchoring.rules.apply import apply_rules, known, learn_neuralop
from quadnorm.adapt.anchoring.size_dependence import NO_SUMS
from quadnorm.adapt.anchoring.torch_modules import OverGrid
from quadnorm.adapt.anchoring.trace import Example, Trace, trace
from quadnorm.adapt.layouts import guess_examples
from quadnorm.adapt.models import deep_copy
from quadnorm.adapt.report import AnchorReport, size_text
from quadnorm.adapt.trees import tensors
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Look:
    """A traced run of a model: what it showed, on which input, and where that comes from.

    Where no input could be guessed, ``trace`` and ``example`` are None and ``source`` says what to do.
    """

    trace: Trace | None
    source: str
    example: Example | None


def anchor_modules(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], example: Example | None, share: bool
) -> tuple[nn.Module, AnchorReport, Look]:
    """The copy with its modules anchored by their rules, the report so far, and the run that it is based on."""
    anchored_copy = deep_copy(model, share)
    learn_neuralop(anchored_copy)
    look = _look(anchored_copy, sizes, example)
    report = AnchorReport("")
    anchored_copy = apply_rules(anchored_copy, sizes, names, look.trace, report)
    _list_fields(anchored_copy, sizes, report, look.trace.weights if look.trace else set())
    for module, name, what in look.trace.calls if look.trace else ():
        why = what if what in NO_SUMS else f"{what}; a call, no module: make it one and teach it with register_anchor"
        report.add(module, f"call {name}", "left", why)
    return anchored_copy, report, look


def anchored_parts(
    model: nn.Module, sizes: Shape, names: tuple[str, ...], example: Example, only: Container[str]
) -> nn.Module:
    """A copy in which only the named modules are anchored, for experiments; parameters are shared."""
    partly_anchored = deep_copy(model, share=True)
    learn_neuralop(partly_anchored)
    traced = trace(partly_anchored, example, sizes, known)
    return apply_rules(partly_anchored, sizes, names, traced, AnchorReport(""), only)


def _look(model: nn.Module, sizes: Shape, example: Example | None) -> Look:
    grid = size_text(sizes)
    if example is not None:
        if not any(_holds(t.shape, sizes) for t in tensors(example)):
            raise ValueError(
                f"the example must be an input at the training resolution {grid}, got shapes {_shapes(example)}; "
                f"check the resolution, or pass an input on the training grid"
            )
        return Look(trace(model, example, sizes, known), f"the example at {grid}", example)
    failures: list[str] = []
    for x, _ in guess_examples(model, sizes):
        try:
            return Look(trace(model, x, sizes, known), f"random input at {grid}", x)
        except Exception as error:  # a guess may fail in any way
            failures.append(f"\n  {_shapes(x)}: {(str(error).splitlines() or [repr(error)])[0]}")
    why = (
        f"the model must be seen at work, and no input could be guessed; pass example=, an input at {grid}: a tensor, "
        "a tuple of arguments or a dict of keyword arguments. Tried:" + "".join(failures[:4])
    )
    return Look(None, why, None)


def _shapes(example: Example) -> str:
    return ", ".join(str(tuple(t.shape)) for t in tensors(example)) or repr(example)


def _holds(shape: Sequence[int], sizes: Shape) -> bool:
    """Whether a tensor's shape has the grid's axes side by side, or in one."""
    d = len(sizes)
    return any(tuple(shape[k : k + d]) == sizes for k in range(len(shape) - d + 1)) or prod(sizes) in shape


def _list_fields(model: nn.Module, sizes: Shape, report: AnchorReport, weights: set[int]) -> None:
    """A line for each parameter or buffer with one value per training sample.

    Not for ``weights``, the ids of tensors that products contract with, which have the grid's size by chance.
    """
    for owner, module in model.named_modules():
        if isinstance(module, OverGrid) or known(module):
            continue
        for name, t in _own_tensors(module):
            if t is not None and id(t) not in weights and len(sizes) > 1 and _holds(t.shape, sizes):
                path = f"{owner}.{name}" if owner else name
                why = f"values on the training grid, shape {tuple(t.shape)}: other grids have no use for them"
                report.add(path, "field", "left", why)


def _own_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    yield from module._parameters.items()
    yield from module._buffers.items()
