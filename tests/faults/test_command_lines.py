"""Command lines drawn at random, and the list of those that once went wrong."""

import json
import os
import random
import subprocess
import sys

import pytest

from tests import ROOT
from tests.faults.effort import LONG, MINUTES, report

pytestmark = pytest.mark.faults


def test_no_drawn_command_line_ends_in_a_traceback(tmp_path):
    seed, count = (random.SystemRandom().randrange(10**6), 1000) if LONG else (1, 60)
    script = ["-m", "tests.faults.command_lines", str(tmp_path), str(seed), str(count), str(0.3 * MINUTES)]
    done = subprocess.run(
        [sys.executable, *script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "QUADNORM_CACHE": str(tmp_path / "cache"), "BROWSER": "true"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    report(f"{len(result['faults'])} faults in {result['lines']} drawn command lines (seed {seed}); {result['codes']}")
    assert result["faults"] == []
