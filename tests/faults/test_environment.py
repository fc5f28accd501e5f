"""What should make no difference makes none: hash seeds, locales, a home that cannot be written, growing old."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from quadnorm.operators import FNO
from quadnorm.training.files.saved import Saved
from tests.faults.effort import LONG, report

pytestmark = pytest.mark.faults

SMALL = [
    *("problem.name=poisson", "problem.params.modes=4", "resolutions.train=[9]", "epochs=2"),
    *("samples.train=4", "samples.val=2", "samples.test=2"),
    *("operator.params.width=4", "operator.params.modes=2", "operator.params.layers=1", "operator.params.norm=quad"),
]
NOWHERE = "/proc/nowhere"  # not even root can make it
THREADS = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}  # a run has its own number
ODD = [
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "HOME": NOWHERE, "NUMBA_CACHE_DIR": NOWHERE, **THREADS},
    {"PYTHONHASHSEED": "2", "PYTHONIOENCODING": "latin-1", "MPLCONFIGDIR": NOWHERE, "TZ": "Asia/Kathmandu"},
]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_surroundings_do_not_change_a_single_weight(tmp_path):
    weights = []
    for k, odd in enumerate([{"PYTHONHASHSEED": "0"}, *ODD[: 2 if LONG else 1]]):
        done = subprocess.run(
            [sys.executable, "-m", "quadnorm", "-q", "train", *SMALL, "-o", str(tmp_path / str(k))],
            env={**os.environ, "QUADNORM_CACHE": str(tmp_path / f"cache{k}"), **odd},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        weights.append(Saved(tmp_path / str(k) / "best.safetensors").weights)
    assert len(set(weights)) == 1


def held():
    """Bytes in memory, open descriptors, threads."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_steps_and_evaluations_on_ever_other_grids_hold_on_to_nothing():
    """After the first hundred, caches are full: nothing grows with the number of steps, or of grids."""
    steps, grids = (10_000, 1000) if LONG else (400, 120)
    model = FNO(1, 1, width=4, modes=2, layers=1, norm="quad")
    optimiser = torch.optim.Adam(model.parameters())

    def step(k):
        optimiser.zero_grad()
        model(torch.randn(2, 1, 9, 9)).square().mean().backward()
        optimiser.step()

    def evaluate(k):
        with torch.no_grad():
            model(torch.randn(2, 1, 9 + k % 40, 9 + k % 7))

    for work, count, first in ((step, steps, 200), (evaluate, 2 * grids, grids)):
        for k in range(first):
            work(k)
        before = held()
        for k in range(count):
            work(k)
        after = held()
        report(f"{count} times {work.__name__}: {(after[0] - before[0]) / 1e6:.1f} MB more")
        assert after[0] - before[0] < 20e6
        assert after[1:] == before[1:]
