"""The mesh statements hold as measured, and fail with equal weights."""

import json
import math

import numpy as np
import pytest

from quadnorm.lab.theory import statement
from quadnorm.lab.theory.hypotheses import factors_by_field, noise, steps, uneven
from quadnorm.lab.theory.meshes import refined, tensor
from quadnorm.lab.theory.refinement import CLAIMED, STRENGTHS, at, size_for
from tests.lab.theory.mesh_mutations import equal_weights  # noqa: F401

NAMES = (
    "meshes-tensor", "meshes-strength", "meshes-simplices", "meshes-clouds", "meshes-sphere", "meshes-limits",
    "mechanism",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_statement_holds_over_five_sizes_or_more(name):
    evidence = statement(name).measure()
    assert [c.what for c in evidence.checks if not c.holds] == []
    assert evidence.holds
    assert all(len(set(s.x)) >= 5 and math.isfinite(s.fit.misfit) for s in evidence.series)
    assert json.loads(json.dumps(statement(name).to_json(evidence), allow_nan=False))["holds"] is True
    assert statement(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_with_equal_weights_it_does_not_hold(name, equal_weights):  # noqa: F811
    assert not statement(name).measure().holds


def test_factors_grow_as_the_square_of_n():
    """Where equal weights keep their bias and volumes leave O(h²), the factor is multiplied by 4 from 65 to 129."""
    assert at(129, 3.0).factor() / at(65, 3.0).factor() == pytest.approx(4, rel=0.05)
    assert at(129, 0.0).factor() / at(65, 0.0).factor() == pytest.approx(2, rel=0.05)


def test_the_papers_factors_at_its_size():
    """200× on Chebyshev's nodes is reached at 64² for all smooth fields, 1500× on boundary-refined ones for none."""
    table = {row["mean ÷ at 64²"]: row for row in factors_by_field()}
    for name in ("sines", "parabolas", "exponential", "bumps"):
        assert table[name]["chebyshev"] > 200
        assert 100 < table[name]["refined 3"] < CLAIMED
        assert 100 < table[name]["refined 1.5"] < CLAIMED
    assert max(at(64, s).factor() for s in STRENGTHS) < 600
    assert at(size_for(CLAIMED, 1.5), 1.5).factor() == pytest.approx(CLAIMED, rel=0.05)
    assert all(table["step"][mesh] < 600 for mesh in table["step"] if mesh != "mean ÷ at 64²")


def test_a_jump_is_of_first_order_and_bounded_by_a_cell():
    """The error of a jump is at most half the gap around it, over σ ≥ 0.4 for c in (0.2, 0.8)."""
    for n in (17, 65):
        x = refined(n, 3.0)
        worst = max(b.quadrature.mean for b in steps(x))
        assert worst <= np.diff(x).max() / 2 / 0.4 + 1e-12
        assert worst > np.diff(x).max() / 8


def test_noise_is_averaged_best_by_equal_weights():
    """Var Σpξ = Σp², least for p = 1/N (Cauchy and Schwarz)."""
    x = refined(24, 2.0)
    w = tensor(x, x).weights
    equal, volumes = noise(w, draws=4000)
    assert equal == pytest.approx(1 / 24, rel=0.05)
    assert volumes == pytest.approx(np.sqrt((w**2).sum()), rel=0.05)
    assert volumes > 1.3 * equal


def test_even_cells_have_equal_volumes_and_even_nodes_do_not():
    assert uneven("midpoint") < 1e-12
    assert uneven("periodic") < 1e-12
    assert uneven("trapezoid") > 0.5
