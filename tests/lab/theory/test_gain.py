"""The residual gain's bound: holds, is reached, and is noticed when the gain is wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.lab.theory import gain, statement
from quadnorm.operators.fno import FNOBlock


def test_the_statement_holds_and_stands_beside_the_paper():
    s = statement("gain")
    assert s.label == "eq:gain"
    assert s.measure().holds


@given(st.lists(st.floats(-10, 10), min_size=8, max_size=8), st.floats(0, 5), st.floats(1e-3, 1e3))
def test_the_bound_for_arbitrary_fields(values, alpha, scale):
    """√(Σy²/N) ≤ (1 + α₀) √(Σx²/N) with y and the energies written out in numpy."""
    x = np.array(values[:4]) + 0.1
    branch = scale * np.array(values[4:])
    g = alpha * np.sqrt((x**2).mean() / ((branch**2).mean() + 1e-12))
    wanted = x + g * branch
    shape = (1, 1, 2, 2)
    scaled = gain.scaled(torch.from_numpy(x).view(shape), torch.from_numpy(branch).view(shape), alpha)
    assert scaled.flatten().numpy() == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert np.sqrt((wanted**2).mean()) <= (1 + alpha) * np.sqrt((x**2).mean()) * (1 + 1e-12)


def test_a_gain_without_its_root_is_noticed(monkeypatch):
    def without_root(x, branch, alpha, eps=gain.EPS):
        return x + alpha * gain.energy(x) / (gain.energy(branch) + eps) * branch

    monkeypatch.setattr(gain, "scaled", without_root)
    assert not gain.measure_gain().holds


@pytest.mark.parametrize("factor", [1.1, 10.0])
def test_an_operator_that_scales_too_much_is_noticed(monkeypatch, factor):
    original = FNOBlock.scale
    monkeypatch.setattr(FNOBlock, "scale", lambda *args: factor * original(*args))
    failed = [c.what for c in gain.measure_gain().checks if not c.holds]
    assert {what.split(",")[1].split(":")[0].strip() for what in failed} == {"counting", "trapezoid"}
    assert all(what.startswith("FNO blocks") for what in failed)
