"""Which kernel runs, and that both do the same on sizes that cross their blocks."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from quadnorm.measures import Grid
from quadnorm.norms import QuadNorm
from quadnorm.norms.kernels import blocked, core, dispatch, formula, native
from quadnorm.norms.kernels.blocks import BLOCK
from quadnorm.norms.kernels.dispatch import numba_serves, requested, triton_serves
from quadnorm.norms.kernels.inputs import Inputs
from quadnorm.norms.kernels.triton import choice
from tests import HANGS
from tests.norms.reference import reference


def test_choice(monkeypatch):
    x = torch.randn(2, 3, 4)
    monkeypatch.delenv("QUADNORM_KERNEL", raising=False)
    assert requested() == "auto"
    assert numba_serves(x)
    assert numba_serves(x.double())
    assert numba_serves(x.bfloat16())
    assert not numba_serves(x.half())
    assert not numba_serves(x.to("meta"))
    monkeypatch.setenv("QUADNORM_KERNEL", "torch")
    assert not numba_serves(x)
    monkeypatch.setenv("QUADNORM_KERNEL", "cuda")
    with pytest.raises(ValueError, match="numba, torch"):
        requested()
    monkeypatch.setenv("QUADNORM_KERNEL", "numba")
    monkeypatch.setattr(dispatch, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"quadnorm\[fast\]"):
        requested()
    monkeypatch.setenv("QUADNORM_KERNEL", "triton")
    with pytest.raises(ImportError, match=r"quadnorm\[triton\]"):
        requested()


def test_a_triton_older_than_the_kernel_is_left_alone(monkeypatch):
    """As torch 2.6 for CUDA brings it: a GPU takes PyTorch's operations; who asks for the kernel is told why not."""
    triton = pytest.importorskip("triton")
    with FakeTensorMode():
        gpu = torch.empty(2, 3, 4, device="cuda")
    choice.usable.cache_clear()
    choice.kernel.cache_clear()
    try:
        with monkeypatch.context() as old:
            old.setattr(triton, "__version__", "3.2.0")
            old.delenv("QUADNORM_KERNEL", raising=False)
            assert not triton_serves(gpu)
            old.setenv("QUADNORM_KERNEL", "triton")
            with pytest.raises(ImportError, match=r"needs Triton 3\.6 or newer"):
                requested()
    finally:
        choice.usable.cache_clear()
        choice.kernel.cache_clear()


@pytest.mark.skipif(not choice.usable(), reason="no Triton that the kernel was written for")
def test_triton_is_for_gpus(monkeypatch):
    """Float32 and shorter on CUDA and ROCm; on the CPU only in the interpreter, and only when asked for."""
    x = torch.randn(2, 3, 4)
    with FakeTensorMode():
        gpu = torch.empty(2, 3, 4, device="cuda")
        double = gpu.double()
    monkeypatch.delenv("QUADNORM_KERNEL", raising=False)
    assert triton_serves(gpu)
    assert not triton_serves(double)
    assert not triton_serves(x)
    for name, serves in (("triton", True), ("torch", False), ("numba", False)):
        monkeypatch.setenv("QUADNORM_KERNEL", name)
        assert [triton_serves(gpu), triton_serves(x), triton_serves(x.half())] == [serves] * 3
        assert not triton_serves(x.double())
        assert not triton_serves(x.to("meta"))


@pytest.mark.parametrize("shape", [(1, 3, 300, 310), (3, 2, 40000), (2, 70, 64, 64)])
@pytest.mark.parametrize("groups", [1, None])
@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_blocks_of_every_kind(kernel, shape, groups, per_sample, offset):
    """One batch entry and uneven rows, channels and rows longer than a block; small and large means."""
    C = shape[1]
    groups = groups or C
    x = (torch.randn(shape) + offset).requires_grad_()
    w = torch.rand(shape[0] if per_sample else 1, x[0, 0].numel(), dtype=torch.float64)
    w[:, 100:20000] *= 0  # whole blocks absent
    w = w / w.sum(1, keepdim=True)
    gamma, g = None if per_sample else torch.rand(C), torch.randn(shape)
    y = core.normalize(x, w.float(), gamma, None, groups)
    want = reference(x, w.reshape(-1, *shape[2:]).expand(shape[0], *shape[2:]), groups, gamma)
    torch.testing.assert_close(y.double(), want, atol=5e-5, rtol=0)
    y.backward(g)
    dx = formula.backward(
        g.double(), x.detach().double(), w, gamma if gamma is None else gamma.double(), groups, 1e-5, True, False
    )[0]
    torch.testing.assert_close(x.grad.double(), dx, atol=5e-5, rtol=0)


@pytest.mark.parametrize("offset", [0.0, 1e4])  # two ways to write the output
def test_temporaries_of_the_torch_kernel_are_small(offset):
    """The largest thing allocated beside the output, on a tensor of 8 blocks per row."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Storages(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.bytes = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(t, torch.Tensor):
                    self.bytes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return out

    x, w = torch.randn(2, 64, 16384) + offset, torch.full((1, 16384), 1 / 16384)
    y, stats, dx = torch.empty_like(x), torch.empty(3, 2, 1), torch.empty_like(x)
    g = torch.ones_like(x)
    with Storages() as forward:
        blocked.forward(Inputs(x, w), y, stats)
    with Storages() as backward:
        blocked.backward(Inputs(x, w), g, stats, dx, False)
    for seen, outputs in ((forward, (x, y)), (backward, (x, g, dx))):
        own = {t.untyped_storage().data_ptr() for t in outputs}
        assert max(n for p, n in seen.bytes.items() if p not in own) <= 4 * BLOCK * torch.get_num_threads()


def test_threads_at_the_same_time():
    layer, x = QuadNorm(4), torch.randn(4, 4, 32, 32)
    want, wrong = layer(x).detach(), []

    def work():
        wrong.extend(1 for _ in range(20) if not torch.allclose(layer(x), want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_free_of_numba_and_cuda():
    out = run(
        "import sys, torch, quadnorm.norms; print('numba' in sys.modules, torch.cuda.is_initialized());"
        "quadnorm.norms.QuadNorm(2, measure='counting')(torch.randn(1, 2, 4)); print('numba' in sys.modules)"
    )
    assert out.split() == ["False", "False", "False"]


def test_without_numba_the_torch_kernel_serves_silently():
    out = run(
        "import sys; sys.modules['numba'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'numba' else find(name, *a)\n"
        "import torch; from quadnorm.norms import QuadNorm\n"
        "x = torch.randn(2, 3, 5, requires_grad=True); QuadNorm(3)(x).sin().sum().backward(); print(x.grad.shape)"
    )
    assert "[2, 3, 5]" in out


FORKED = """
import hashlib, os, torch
from quadnorm.measures import Grid
from quadnorm.norms import QuadNorm
torch.set_num_threads(2)
torch.manual_seed(0)
inputs = [torch.randn(3, 5, 30, 31), torch.randn(3, 5, 30, 31).to(memory_format=torch.channels_last)]
layers = [QuadNorm(5), QuadNorm(5, mode="instance")]

def bits():
    seen = hashlib.blake2b()
    for x in inputs:
        for layer in layers:
            leaf = x.clone().requires_grad_()
            y = layer(leaf)
            y.backward(x.cos())
            for t in (y.detach(), leaf.grad):
                seen.update(t.float().contiguous().numpy().tobytes())
    return seen.hexdigest().encode()

mine = bits()
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    torch.set_num_threads(1)
    os.write(write, bits())
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.read(read, 1000) == mine)
"""


def test_kernels_take_no_more_threads_than_torch():
    launch = pytest.importorskip("quadnorm.norms.kernels.numba.launch")
    assert 1 <= launch._threads() <= torch.get_num_threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_gives_the_same_bits():
    """As a worker of a DataLoader does, which has one thread: layers that the parent has used, and its uneven rows."""
    assert run(FORKED).split() == ["0", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("imported", ["before", "after"])
def test_a_child_of_a_process_with_its_own_parallel_numba_survives(imported):
    """The parent's threads are gone in the child, where numba would end the process; imported before or after."""
    early, late = ("import quadnorm\n", "") if imported == "before" else ("", "import quadnorm\n")
    code = (
        "import multiprocessing, numba, numpy as np, torch\n"
        f"{early}"
        "@numba.njit(parallel=True)\n"
        "def own(a):\n"
        "    for i in numba.prange(a.size):\n        a[i] += 1\n"
        "def child():\n"
        f"    {late or 'pass'}\n"
        "    from quadnorm import QuadNorm\n"
        "    assert QuadNorm(3)(torch.randn(2, 3, 5)).shape == (2, 3, 5)\n"
        "torch.set_num_threads(1); own(np.zeros(100))\n"
        "p = multiprocessing.get_context('fork').Process(target=child); p.start(); p.join(); print(p.exitcode)"
    )
    assert run(code).split() == ["0"]


def test_the_way_to_the_kernel_is_short():
    """At most ten functions of this package in five files, and then compiled code."""
    pytest.importorskip("numba")
    layer, x, passed = QuadNorm(4), torch.randn(2, 4, 9, 9), set()

    def note(frame, event, arg):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        ours = "/src/quadnorm/" in file and not file.endswith("programs.py")
        if event == "call" and ours and not name.startswith("<"):  # a comprehension is no function to read
            passed.add((file, frame.f_code.co_qualname))

    layer(x)
    sys.setprofile(note)
    try:
        layer(x)
    finally:
        sys.setprofile(None)
    assert 5 <= len(passed) <= 10, sorted(name for _, name in passed)
    assert len({file for file, _ in passed}) <= 5


@pytest.mark.parametrize("name", ["auto", "torch"])
def test_numbers_whose_sign_is_a_flag(name):
    """The imaginary part of a conjugate: PyTorch keeps the sign apart, and what lies in memory has the other one."""
    flagged = torch.randn(2, 3, 5, dtype=torch.complex64).conj().imag.requires_grad_()
    plain = flagged.detach().resolve_neg().contiguous().requires_grad_()
    assert flagged.is_neg()
    assert not plain.is_neg()
    layer = QuadNorm(3, mode="instance")
    with dispatch.use_kernel(name):
        torch.testing.assert_close(layer(flagged), layer(plain))
        g = torch.randn(2, 3, 5)
        for t in (plain, flagged):
            layer(t).backward(torch._neg_view(-g))
        torch.testing.assert_close(flagged.grad, plain.grad)


@pytest.mark.parametrize("shape", [(2, 4, 17), (2, 4, 12, 15), (1, 6, 30, 40), (2, 4, 26, 27, 28), (1, 3, 1100, 1001)])
@pytest.mark.parametrize("groups", [1, None])
@pytest.mark.parametrize("measure", ["trapezoid", "midpoint", "left"])
def test_weights_that_are_one_number_inside(shape, groups, measure):
    """The torch kernel takes plain moments and corrects them on the faces; ``left`` is not such a rule."""
    groups, N = groups or shape[1], torch.Size(shape[2:]).numel()
    w = Grid(measure).weights(shape[2:]).reshape(1, -1)
    assert (native.faces_of(w.float(), shape[2:]) is None) == (measure == "left" or shape[2:] == (12, 15))
    x, g = torch.randn(shape) * 2 + 1, torch.randn(shape)
    given = Inputs(x, w.float(), torch.rand(shape[1]) + 0.5, torch.rand(shape[1]), groups)
    y, stats, dx = torch.empty_like(x), torch.empty(3, shape[0], groups), torch.empty_like(x)
    blocked.forward(given, y, stats)
    blocked.backward(given, g, stats, dx, False)
    want = reference(x, w.reshape(shape[2:]), groups, given.weight, given.bias)
    torch.testing.assert_close(y.double(), want, atol=2e-6, rtol=1e-6)
    exact = formula.backward(g.double(), x.double(), w, given.weight.double(), groups, 1e-5, True, False)[0]
    torch.testing.assert_close(dx.double(), exact, atol=5e-6 if N < 1e6 else 1e-5, rtol=1e-5)
