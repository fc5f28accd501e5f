"""The entry point, before anything is imported."""

import os
import subprocess
import sys

import pytest

from quadnorm import keep_memory
from quadnorm.__main__ import wait_briefly

SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.mark.parametrize("own", [None, *SETTINGS])
def test_threads_sleep_unless_the_user_says_otherwise(monkeypatch, own):
    for name in SETTINGS:
        monkeypatch.setenv(name, "active")  # so that monkeypatch puts it back
        if name != own:
            monkeypatch.delenv(name)
    wait_briefly()
    assert os.environ.get("GOMP_SPINCOUNT") == {None: "2000", "GOMP_SPINCOUNT": "active"}.get(own)


FAULTS = """
import resource, sys
if sys.argv[1] == "keep":
    from quadnorm import keep_memory
    assert keep_memory()
def rounds(n):
    for _ in range(n):
        fields = [bytearray(2**24) for _ in range(3)] + [bytearray(42 * 2**20)]
        del fields
rounds(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
rounds(10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="an option of the GNU C library")
def test_memory_that_was_freed_is_used_again_without_page_faults(monkeypatch):
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        pytest.skip("an option of the GNU C library")

    def faults(how):
        done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    assert faults("keep") < 100
    assert faults("leave") > 10_000  # 22,000 pages in each of 10 rounds


@pytest.mark.parametrize("own", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_whoever_has_a_policy_for_memory_keeps_it(monkeypatch, own):
    monkeypatch.setattr("os.environ", {own: "1"})
    assert not keep_memory()
    assert os.environ == {own: "1"}
