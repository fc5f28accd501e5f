"""Outputs on huge pages: a hint that never reaches beyond the tensor and never changes a value."""

import pytest
import torch

from quadnorm.norms import QuadNorm
from quadnorm.norms.kernels import memory
from quadnorm.norms.kernels.dispatch import use_kernel


@pytest.fixture
def hints(monkeypatch):
    given = []
    monkeypatch.setattr(memory, "LARGE", 3 * memory.PAGE)
    monkeypatch.setattr(memory, "_madvise", lambda: lambda *call: given.append(call))
    return given


@pytest.mark.parametrize("numbers", [3 * 1024, 3 * 1024 + 1, 5000, 9999])
def test_whole_pages_inside_the_tensor(hints, numbers):
    y = torch.zeros(numbers)
    memory.ask_for_huge_pages(y)
    [(start, length, advice)] = hints
    end = y.data_ptr() + y.nbytes
    assert (start % memory.PAGE, length % memory.PAGE, advice) == (0, 0, memory.HUGE_PAGES)
    assert y.data_ptr() <= start < y.data_ptr() + memory.PAGE
    assert start + length <= end < start + length + memory.PAGE


def test_small_tensors_and_other_devices_are_left_alone(hints):
    with use_kernel("torch"):
        QuadNorm(1)(torch.zeros(1, 1, 3 * 1024 - 1))
        assert hints == []
        QuadNorm(1)(torch.zeros(1, 1, 3 * 1024))
        assert len(hints) == 1
    memory.ask_for_huge_pages(torch.zeros(10_000, device="meta"))
    assert len(hints) == 1


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_systems_without_the_call(monkeypatch, system):
    monkeypatch.setattr(memory.sys, "platform", system)
    memory._madvise.cache_clear()
    try:
        y = torch.ones(2, 3, dtype=torch.float64)
        memory.ask_for_huge_pages(y)
        assert (y == 1).all()
    finally:
        memory._madvise.cache_clear()


def test_the_kernels_ask_for_output_and_gradient_and_values_stay(monkeypatch, kernel):
    layer, x = QuadNorm(3), torch.randn(2, 3, 33, 33, generator=torch.Generator().manual_seed(0))

    def step():
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        y.square().sum().backward()
        return y.detach(), leaf.grad

    before = step()
    calls, real = [], memory._madvise()
    monkeypatch.setattr(memory, "LARGE", 1)
    monkeypatch.setattr(memory, "_madvise", lambda: lambda *call: calls.append(real(*call) if real else 0))
    after = step()
    assert len(calls) == 2
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["torch", "numba"])
def test_parameters_can_be_resized_afterwards(name):
    """FSDP frees parameters that it has gathered by resizing their storage; NumPy's view of one would forbid it."""
    norm = QuadNorm(4, mode="instance")
    with use_kernel(name):
        norm(torch.randn(2, 4, 9, 9, requires_grad=True)).sum().backward()
    assert all(p.untyped_storage().resizable() for p in norm.parameters())
