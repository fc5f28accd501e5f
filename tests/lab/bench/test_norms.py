"""The benchmark measures what it says: the listing is the same norm, rows are complete."""

import resource
import sys
from statistics import geometric_mean

import pytest
import torch

from quadnorm.lab.bench import norms
from quadnorm.lab.bench.timing import memory_kept
from quadnorm.norms import QuadNorm


@pytest.mark.parametrize("mode", ["layer", "instance"])
def test_the_listing_is_the_same_norm(mode):
    layer, x = QuadNorm(4, mode=mode, dtype=torch.float64), torch.randn(2, 4, 6, 7, dtype=torch.float64)
    torch.testing.assert_close(norms.listing(layer, x), layer(x))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a choice of glibc")
def test_memory_kept_has_no_page_faults():
    """Writing 64 MiB again and again: no page is asked for twice."""

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**24)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with memory_kept() as kept:
        faults()
        inside = faults()
    assert not kept or inside < 100


def test_rows():
    rows = norms.run(scale=0.05, repeats=1, compiled=False)
    names = {r["name"] for r in rows}
    assert {"forward, torch", "forward+backward, torch", "exponent of the cost in points"} <= names
    means = [r for r in rows if r["size"] == "geometric mean"]
    assert len(means) in (5, 10)  # once more with memory kept, where the C library can
    for mean in means:
        ratios = [r["ratio"] for r in rows if (r["name"], r["peer"]) == (mean["name"], mean["peer"]) and r is not mean]
        assert len(ratios) == 8
        assert mean["ratio"] == pytest.approx(geometric_mean(ratios))
        assert mean["ratio"] == pytest.approx(mean["seconds"] / mean["peer_seconds"])
    with pytest.raises(ValueError, match="scale"):
        norms.run(scale=0)
