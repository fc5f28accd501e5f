"""Norms and operators train on a device that nobody has heard of, with and without autocast."""

import subprocess
import sys

from tests import HANGS, ROOT


def test_a_device_in_name_only():
    done = subprocess.run(
        [sys.executable, "-m", "tests.devices.elsewhere"], cwd=ROOT, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 11
