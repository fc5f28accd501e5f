"""The benchmark runs at a small scale, solves the systems it claims to, and reports ratios to a named peer."""

import numpy as np

from quadnorm.lab.bench import problems as bench
from quadnorm.problems.solvers import pcg


def test_rows_hold_rates_and_ratios():
    rows = bench.run(scale=0.005)
    assert len(rows) == 8
    for row in rows:
        assert row["samples/s"] > 0
        if "peer" in row:
            assert np.isclose(row["speedup"], row["samples/s"] / row["peer samples/s"])
    solve = rows[0]
    assert "splu" in solve["peer"]
    assert solve["residual"] < 1e-11
    assert solve["peer residual"] < 1e-11


def test_peer_solves_the_same_system():
    from scipy.sparse.linalg import spsolve

    a = np.exp(np.random.default_rng(0).standard_normal((1, 20, 20)))
    want = spsolve(bench._matrix(a[0]), np.ones(18 * 18)).reshape(18, 18)
    np.testing.assert_allclose(pcg.solve(a).u[0, 1:-1, 1:-1], want, rtol=1e-9)
