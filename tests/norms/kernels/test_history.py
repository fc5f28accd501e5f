"""The numba kernel gives the same bits whether a process compiles it or loads it, whatever it ran before."""

import os
import subprocess
import sys

import pytest

from tests import HANGS

pytest.importorskip("numba")

CODE = """
import hashlib, sys, torch
from quadnorm.norms.kernels import core
torch.set_num_threads(2)

def bits(B, C):
    found, random = hashlib.blake2b(), torch.Generator().manual_seed(0)
    for n in (81, 289, 1000):
        w = torch.rand(1, n, generator=random)
        for groups in (1, C):
            x = torch.randn(B, C, n, generator=random).requires_grad_()
            y = core.normalize(x, w / w.sum(), None, None, groups)
            y.backward(torch.randn(y.shape, generator=random))
            for t in (y.detach(), x.grad):
                found.update(t.numpy().tobytes())
    return found.hexdigest()

# B·groups divides by the threads: a task per row; it does not: a task per block of samples.
sizes = [(2, 4), (1, 5)]
print(*[d for _, d in sorted((s, bits(*s)) for s in (sizes[::-1] if sys.argv[1:] else sizes))])
"""


def bits(cache, *arguments: str) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "QUADNORM_KERNEL": "numba"}
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow  # two processes, one of which compiles four kernels
def test_bits_do_not_depend_on_the_past_of_a_process(tmp_path):
    compiled = bits(tmp_path, "blocks first")
    assert len(set(compiled)) == 2  # the two kernels saw different data
    assert bits(tmp_path) == compiled  # loaded, and in another order
