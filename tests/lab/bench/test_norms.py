"""The benchmark measures what it says: the listing is the same norm, rows are complete."""

from statistics import geometric_mean

import pytest
import torch

from quadnorm.lab.bench import norms
from quadnorm.norms import QuadNorm


@pytest.mark.parametrize("mode", ["layer", "instance"])
def test_the_listing_is_the_same_norm(mode):
    layer, x = QuadNorm(4, mode=mode, dtype=torch.float64), torch.randn(2, 4, 6, 7, dtype=torch.float64)
    torch.testing.assert_close(norms.listing(layer, x), layer(x))


def test_rows():
    rows = norms.run(scale=0.05, repeats=1, compiled=False)
    names = {r["name"] for r in rows}
    assert {"forward, torch", "forward+backward, torch", "exponent of the cost in points"} <= names
    means = [r for r in rows if r["size"] == "geometric mean"]
    assert len(means) == 5
    for mean in means:
        ratios = [r["ratio"] for r in rows if (r["name"], r["peer"]) == (mean["name"], mean["peer"]) and r is not mean]
        assert len(ratios) == 8
        assert mean["ratio"] == pytest.approx(geometric_mean(ratios))
        assert mean["ratio"] == pytest.approx(mean["seconds"] / mean["peer_seconds"])
    with pytest.raises(ValueError, match="scale"):
        norms.run(scale=0)
