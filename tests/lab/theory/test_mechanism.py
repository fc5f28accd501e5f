"""The mechanism's parts against sums written out and integrals in closed form."""

import numpy as np
import pytest

from quadnorm.lab.theory.refinement import mechanism


def nodes(n, b):
    s = np.arange(n) / (n - 1)
    return 0.5 * (1 + np.tanh(b * (2 * s - 1)) / np.tanh(b))


def test_parts_are_those_of_the_formula():
    measured, x = mechanism(16, 2.0), nodes(16, 2.0)
    gaps = np.diff(x)
    w = np.concatenate([[gaps[0]], gaps[1:] + gaps[:-1], [gaps[-1]]]) / 2
    u = np.sin(np.pi * x)
    assert np.allclose(measured.nodes, x)
    assert np.allclose(np.diff(measured.edges), w)
    assert np.allclose(measured.volume, np.outer(w, w))
    assert np.allclose(measured.field, np.outer(u, u), atol=1e-15)
    assert np.allclose(measured.mismatch, 1 / 256 - np.outer(w, w))
    assert measured.equal == pytest.approx(np.outer(u, u).mean())
    assert measured.volumes == pytest.approx((w @ u) ** 2)


@pytest.mark.parametrize(("n", "strength"), [(9, 0.5), (64, 2.0), (33, 4.0)])
def test_contributions_add_up(n, strength):
    measured = mechanism(n, strength)
    assert measured.volume.sum() == pytest.approx(1, abs=1e-12)
    assert measured.mismatch.sum() == pytest.approx(0, abs=1e-12)
    assert measured.difference.sum() == pytest.approx(measured.equal - measured.volumes, abs=1e-12)
    assert np.allclose(measured.difference, measured.equal_shares - measured.volume_shares, atol=1e-15)


def test_the_means_at_the_papers_size():
    """Exact 4/π²; volumes within 0.2 %; equal weights tend to (∫ sin(πx(s)) ds)², here by 10⁶ midpoints."""
    measured = mechanism()
    s = (np.arange(10**6) + 0.5) / 10**6
    limit = np.sin(0.5 * np.pi * (1 + np.tanh(2 * (2 * s - 1)) / np.tanh(2))).mean() ** 2
    assert measured.field.shape == (64, 64)
    assert measured.exact == pytest.approx(4 / np.pi**2)
    assert measured.volumes == pytest.approx(4 / np.pi**2, rel=2e-3)
    assert measured.equal == pytest.approx(limit, rel=0.05)
    assert measured.equal < 0.45 * measured.exact


def test_the_strip_has_most_nodes_and_little_area():
    """x(s) < 0.1 for s below s₁ = ½ + artanh(−0.8 tanh 2)/4: a share 1 − (1 − 2s₁)² of the nodes, 0.36 of the area."""
    measured = mechanism()
    first = 0.5 + np.arctanh(-0.8 * np.tanh(2)) / 4
    strip = measured.strip()
    assert strip.mean() == pytest.approx(1 - (1 - 2 * first) ** 2, abs=0.03)
    assert measured.volume[strip].sum() == pytest.approx(0.36, abs=0.02)
    assert strip[0].all()
    assert not strip[32, 32]
