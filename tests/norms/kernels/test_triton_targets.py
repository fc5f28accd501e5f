"""The Triton programs compiled for devices that are not here: they fit, nothing spills, the table in the docs holds.

A process of its own, since the interpreter that the other tests use changes the language.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from quadnorm.norms.kernels.triton import choice
from tests import HANGS, ROOT

pytestmark = pytest.mark.skipif(not choice.usable(), reason="no Triton that the kernel was written for")

CODE = """
import json, sys
from quadnorm.norms.kernels.triton import targets
variants = list(targets.variants())
dtypes, alignments, programs = json.loads(sys.argv[2])
print(json.dumps([
    [*targets.resources(v, sys.argv[1], dtype, aligned)]
    for v in variants if v.program.__name__ in programs for dtype in dtypes for aligned in alignments
]))
"""

# registers per thread and bytes of shared memory per block, at most, with the Triton of constraints.txt
LIMITS = {
    "forward_row": (64, 512),
    "backward_row": (64, 32768),
    "moments_tile": (48, 256),
    "output_tile": (64, 0),
    "sums_tile": (64, 256),
    "gradient_tile": (128, 16384),
    "merge_row": (40, 16),
    "merge_sums": (56, 128),
}

# Other versions compile to other numbers, which must fit all the same.
PINS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PINNED = choice.usable() and f"triton=={version('triton')}\n" in PINS


def check(target, dtypes, alignments, programs=tuple(LIMITS)):
    done = subprocess.run(
        [sys.executable, "-c", CODE, target, json.dumps([dtypes, alignments, programs])],
        env=os.environ | {"TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row[1] for row in rows} == set(programs)
    for name, program, dtype, tile, threads, registers, spills, shared in rows:
        at = f"{name} {program} {dtype} {tile}"
        assert spills == 0, at
        if PINNED:
            assert registers <= LIMITS[program][0], at
            assert shared <= LIMITS[program][1], at
        assert shared <= 48 * 2**10, at  # what every block may have
        assert threads <= 1024, at
        assert registers * threads <= 65536, at  # the registers of one multiprocessor


def test_a_device_of_our_day():
    check("sm90", ["fp32"], [False], ["forward_row", "moments_tile", "merge_row", "backward_row"])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm80", "sm90", "sm100", "gfx942"])
def test_all_devices(target):
    check(target, ["fp32", "bf16"], [True, False])
