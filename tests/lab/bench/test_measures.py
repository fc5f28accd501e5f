"""The benchmark's own machinery: it must measure what it says."""

import doctest

import numpy as np
import pytest

from quadnorm.lab.bench import measures, timing
from quadnorm.measures.geometry.meshes import lumped_weights


def test_times_are_medians_and_functions_take_turns(monkeypatch):
    """On a clock that the functions move themselves: a takes 1, 9 and 2 seconds, b always 3."""
    now, naps, calls = [0.0], iter([1.0, 9.0, 2.0]), []
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def a():
        calls.append("a")
        now[0] += next(naps)

    def b():
        calls.append("b")
        now[0] += 3.0

    assert timing.interleaved({"a": a, "b": b}, repeats=3) == {"a": 2.0, "b": 3.0}
    assert calls == ["a", "b"] * 3
    assert timing.median_time(b, repeats=2) == 3.0
    with pytest.raises(ValueError, match="at least 1, got 0"):
        timing.median_time(b, repeats=0)


@pytest.mark.skipif(not timing.Path("/proc/self/clear_refs").exists(), reason="only Linux keeps a resettable mark")
def test_peak_memory_sees_a_short_peak():
    """80 MB that live for a moment inside the call, and nothing after it."""
    peak = timing.peak_memory(lambda: float(np.ones(10_000_000).sum()))
    assert 78 < peak < 100
    assert timing.peak_memory(lambda: None) < 5


def test_rows_are_complete_and_the_loop_agrees():
    rows = measures.run(scale=2e-4)
    assert {r["name"] for r in rows} >= {"voronoi_weights, box", "delaunay_weights", "lumped_weights"}
    for r in rows:
        assert set(r) == set(timing.BenchRow.__annotations__)
        assert r["ratio"] == pytest.approx(r["seconds"] / r["peer_seconds"])
    x, cells = measures.kuhn_mesh(4)
    assert (len(x), len(cells)) == (64, 6 * 27)
    np.testing.assert_allclose(measures.loop(x, cells), lumped_weights(x, cells), rtol=1e-12)
    with pytest.raises(ValueError, match="scale must be"):
        measures.run(scale=0)


def test_examples_in_the_docstrings():
    assert doctest.testmod(timing) == (0, 2)
    assert doctest.testmod(measures) == (0, 1)
