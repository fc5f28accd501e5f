"""Whether two ways to compute the same agree, in outputs and derivatives: a graph, and the run that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import under_autocast
from quadnorm.adapt.graphs.capture import CannotCaptureError, Graph, Obstacle, Prepare, state_slots
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.watch import first_line

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative; half precision has 3e-2


def check(graph: Graph, prepare: Prepare, model: nn.Module, arguments: Any) -> None:
    """Raise if the graph does not give what the steered run gives on these arguments, derivatives included."""
    slots = state_slots(model)
    buffers = [(b, b._version) for b in model.buffers()]
    steer = prepare(model, arguments)
    inputs = with_gradients(arguments)

    def graph_run() -> Any:
        state = [home[name] for home, name in (slots[key] for key in graph.state)]
        try:
            return graph.module(*state, *tensors(inputs))
        except RuntimeError as error:  # the steered run came through
            raise CannotCaptureError(Obstacle.GRAPH, first_line(error)) from error

    difference = difference_of(lambda: steer(model, *inputs), graph_run, tensors(inputs), [*model.parameters()])
    if any(b._version != version for b, version in buffers):
        raise CannotCaptureError(Obstacle.STATISTICS)
    if difference is not None:
        raise CannotCaptureError(difference)


def with_gradients(arguments: Any) -> Any:
    """Copies of the arguments, that derivatives can be taken by where gradients are on."""
    return mapped(lambda t: t.detach().clone().requires_grad_(torch.is_grad_enabled() and is_real(t)), arguments)


def difference_of(
    run: Callable[[], Any], other: Callable[[], Any], inputs: Sequence[Tensor], parameters: Sequence[Tensor]
) -> Obstacle | None:
    """Whether a second run with the same random numbers gives the same: ``GRAPH`` if its outputs differ, ``DERIVATIVE``
    if their derivatives do, by inputs or parameters."""
    results = []
    for each in (run, other):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            y = tensors(each())
        leaves = [t for t in (*inputs, *parameters) if t.requires_grad]
        results.append((y, _derivatives(y, leaves)))
    (y, dy), (z, dz) = results
    # The graph may round elsewhere: in half precision, derivatives by parameters in single precision are no better.
    halves = [t for t in (*y, *inputs) if t.dtype in (torch.bfloat16, torch.float16)]
    least = 3e-2 if halves or any(map(under_autocast, y)) else 0.0
    if len(y) != len(z) or not all(_agree(s, t, least) for s, t in zip(y, z, strict=True)):
        return Obstacle.GRAPH
    return None if _agree_together(dy, dz, least) else Obstacle.DERIVATIVE


def is_real(t: Tensor) -> bool:
    """Whether a tensor holds real or complex numbers, not labels."""
    return t.is_floating_point() or t.is_complex()


def _derivatives(y: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Derivatives of a fixed combination of all outputs by the leaves."""
    outputs = [t for t in y if t.requires_grad]
    if not outputs or not leaves:
        return []
    random = torch.Generator("cpu").manual_seed(1)
    directions = [torch.randn(t.shape, generator=random, device="cpu", dtype=t.dtype).to(t.device) for t in outputs]
    found = torch.autograd.grad(outputs, leaves, directions, allow_unused=True)
    return [torch.zeros_like(t) if d is None else d for t, d in zip(leaves, found, strict=True)]


def _limit(t: Tensor, least: float) -> float:
    return max(TOLERANCE.get(t.abs().dtype, 3e-2), least)


def _agree(a: Tensor, b: Tensor, least: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not is_real(a):
        return torch.equal(a, b)
    return not _loses_numbers(a, b) and bool(_size(a - b) <= _limit(a, least) * _size(a))


def _agree_together(a: list[Tensor], b: list[Tensor], least: float) -> bool:
    """Whether lists of derivatives agree, small ones in comparison with the largest."""
    if not a:
        return not b
    largest = max(_size(t) for t in a)
    return len(a) == len(b) and all(
        s.shape == t.shape
        and not _loses_numbers(s, t)
        and _size(s - t) <= 10 * _limit(s, least) * max(_size(s), 0.01 * largest)
        for s, t in zip(a, b, strict=True)
    )


def _size(t: Tensor) -> float:
    """The L² norm of what is finite: a model may well return infinity or NaN at places."""
    wide = torch.complex128 if t.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(torch.nan_to_num(t.detach().to(wide), 0.0, 0.0, 0.0)))


def _loses_numbers(a: Tensor, b: Tensor) -> bool:
    """Whether b is infinite or NaN where a is not."""
    return bool((torch.isfinite(a) & ~torch.isfinite(b)).any())
