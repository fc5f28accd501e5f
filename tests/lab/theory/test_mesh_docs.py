"""The section "Meshes" of the page: its example runs, and its numbers are what is measured."""

import re

import numpy as np
import pytest

from quadnorm.lab.theory.families import FAMILIES
from quadnorm.lab.theory.refinement import STRENGTHS, at, mechanism, size_for
from tests import ROOT

PAGE = (ROOT / "docs" / "understand" / "theory.md").read_text(encoding="utf-8")
SECTION = re.search(r"^## Meshes\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S)[1]


def rows(first):
    """Cells of the table whose head starts with ``first``."""
    table = SECTION[SECTION.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_example_runs_and_says_what_the_page_says(capsys):
    """xy on the L-shape: ∫xy = 1/4 − (3/8)² = 7/64 and ∫x²y² = 1/9 − (7/24)² = 15/576, over the area 3/4."""
    (block,) = re.findall(r"```python\n(.*?)```", SECTION, flags=re.S)
    names = {}
    exec(compile(block, "theory.md", "exec"), names)
    assert names["product"].mean == pytest.approx(7 / 64 / (3 / 4))
    assert names["product"].mean_square == pytest.approx(15 / 576 / (3 / 4))
    assert names["volumes"].sum() == pytest.approx(3 / 4)
    assert names["swept"].series("counting").fit.exponent == pytest.approx(0, abs=0.05)
    assert names["swept"].series("quadrature").fit.exponent == pytest.approx(2, abs=0.01)
    gains = np.array(names["swept"].factors("output"))
    assert gains[1:] / gains[:-1] == pytest.approx(4, rel=0.06)
    assert "equal ones" in capsys.readouterr().out


def test_the_table_of_strengths_is_what_is_measured():
    table = rows("β")
    assert [float(row[0]) for row in table] == list(STRENGTHS)
    for row in table:
        strength = float(row[0])
        measured = at(64, strength)
        shown = [
            measured.counting.mean,
            measured.quadrature.mean,
            *(measured.factor(q) for q in ("mean", "variance", "output")),
        ]
        assert [float(cell) for cell in row[2:7]] == pytest.approx(shown, rel=0.02)
        assert float(row[1]) == pytest.approx(np.cosh(strength) ** 2, rel=0.01)
        assert (not row[7] and strength == 0) or abs(int(row[7]) - size_for(1500, strength)) <= 1


def test_the_table_of_families_has_all_of_them_and_the_right_orders():
    table = rows("family")
    assert [row[0].partition(":")[0] for row in table] == list(FAMILIES)
    for row in table:
        family = FAMILIES[row[0].partition(":")[0]]
        assert row[0].partition(": ")[2] == family.about
        orders = [float(v) for v in row[2].split(",")]
        assert all(family.quadrature[0] <= v <= family.quadrature[1] for v in orders)
    for name in ("even", "chebyshev", "latlon"):
        swept = FAMILIES[name].sweep()
        (row,) = (r for r in table if r[0].startswith(f"{name}:"))
        assert [float(v) for v in row[5].split(",")] == pytest.approx(
            [swept.factors(q)[-1] for q in ("mean", "variance", "output")], rel=0.01
        )
        assert int(row[4]) == swept.biases[-1][0].samples


def test_the_mechanisms_numbers_are_what_is_measured():
    scales = mechanism()
    strip = scales.strip()
    for number in (
        f"{scales.equal:.3f}",
        f"{scales.volumes:.4f}",
        f"{scales.exact:.4f}",
        f"+{scales.difference[strip].sum():.3f}",
        f"−{-scales.difference[~strip].sum():.3f}",
    ):
        assert number in SECTION
