"""The numba kernel shares torch's OpenMP runtime; it must not change torch's number of threads."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

CODE = """
import torch
from quadnorm import QuadNorm
before = torch.get_num_threads()
QuadNorm(4)(torch.randn(2, 4, 9, 9))
assert torch.get_num_threads() == before == 1, (before, torch.get_num_threads())
torch.set_num_threads(2)
QuadNorm(4)(torch.randn(2, 4, 9, 9))
assert torch.get_num_threads() == 2
"""


def test_the_kernel_leaves_torchs_threads_alone():
    """In a process of its own: the first call of the kernel is the one that starts numba's threads."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "QUADNORM_KERNEL": "numba"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
