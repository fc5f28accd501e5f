"""Disks that are full at every size: the command says so in one line, and what was there stays as it was."""

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.faults.effort import LONG, report

pytest.importorskip("resource")
pytestmark = pytest.mark.faults


def test_a_full_disk_leaves_no_fragments(tmp_path):
    limits = ["0", "1", "100", "1000", "10000", "50000", "200000"] if LONG else ["500"]
    limits += [f"i{files}" for files in ((2, 3, 4, 5, 6, 8, 11) if LONG else (4,))]  # no more than so many files
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.disks", str(tmp_path), *limits],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "QUADNORM_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    report(f"{len(result['faults'])} faults in {result['tried']} commands on full disks")
    assert result["faults"] == []
