"""The benchmark measures what it says: the listing is the same norm, rows are complete."""

import os
import subprocess
import sys
from statistics import geometric_mean

import pytest
import torch

from quadnorm.lab.bench import norms
from quadnorm.norms import QuadNorm


@pytest.mark.parametrize("mode", ["layer", "instance"])
def test_the_listing_is_the_same_norm(mode):
    layer, x = QuadNorm(4, mode=mode, dtype=torch.float64), torch.randn(2, 4, 6, 7, dtype=torch.float64)
    torch.testing.assert_close(norms.listing(layer, x), layer(x))


KEPT = """
import resource, sys, threading, torch
from quadnorm.lab.bench.timing import memory_given_back, memory_kept, memory_setting
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def work():
    with memory_given_back():
        print(memory_setting().split()[0])
    with memory_kept() as kept:
        print(kept, min(faults() for _ in range(5)), memory_setting().split()[0])
thread = threading.Thread(target=work)
work() if sys.argv[1] == "main" else thread.start()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a choice of glibc")
@pytest.mark.parametrize("where", ["main", "thread"])
def test_memory_kept_has_no_page_faults(where):
    """Writing 64 MiB again and again: no page is asked for twice, or the answer is that they are."""
    done = subprocess.run([sys.executable, "-c", KEPT, where], capture_output=True, text=True, check=True)
    back, kept, faults, inside = done.stdout.split()
    assert (inside == "kept") == (kept == "True")
    assert back == "given"
    assert (kept == "True") == (int(faults) < 100)
    assert where == "thread" or kept == "True" or "CS_GNU_LIBC_VERSION" not in os.confstr_names


def test_rows():
    rows = norms.run(scale=0.02, repeats=1, compiled=False)
    names = {r["name"] for r in rows}
    assert {"forward, torch", "forward+backward, torch", "exponent of the cost in points"} <= names
    assert {f"forward, torch, {name}" for name in norms.FORMATS} <= names
    means = [r for r in rows if r["size"] == "geometric mean"]
    back = [m for m in means if m["name"].endswith("memory given back")]
    assert len(means) - len(back) == 17  # 2 kernels, 2 directions, 4 formats; the listing
    assert len(back) in (0, 17)  # once more where the C library can
    assert rows.index(means[0]) < 60  # what the command itself does comes first
    for mean in means:
        ratios = [r["ratio"] for r in rows if (r["name"], r["peer"]) == (mean["name"], mean["peer"]) and r is not mean]
        assert len(ratios) == (4 if any(name in mean["name"] for name in norms.FORMATS) else 8)
        assert mean["ratio"] == pytest.approx(geometric_mean(ratios))
        assert mean["ratio"] == pytest.approx(mean["seconds"] / mean["peer_seconds"])
    with pytest.raises(ValueError, match="scale"):
        norms.run(scale=0)
