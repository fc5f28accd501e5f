"""Figures of meshes: that what is drawn is what was measured."""

import numpy as np
import pytest

from quadnorm.lab.analysis.figures import theory
from quadnorm.lab.analysis.figures.statements import draw
from quadnorm.lab.theory import Evidence, statement
from quadnorm.lab.theory.families import FAMILIES


@pytest.fixture(scope="module")
def by_mesh():
    return theory.nonuniform_bias()


def test_every_family_stands_side_by_side_at_about_the_same_size(by_mesh):
    assert [t.get_text() for t in by_mesh.axes[0].get_yticklabels()] == list(FAMILIES)
    samples = [theory.biases(name).samples for name in FAMILIES]
    assert min(samples) >= 2000
    assert max(samples) <= 8300


def test_factors_written_are_ratios_of_the_marks(by_mesh):
    for axis in by_mesh.axes[:2]:
        written = [float(t.get_text().rstrip("×")) for t in axis.texts]
        marks = [line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 1]
        drawn = np.array(marks).reshape(-1, 2)  # equal weights, volumes
        assert np.allclose(drawn[:, 0] / drawn[:, 1], written, atol=0.5)
        assert (drawn[:, 0] > 10 * drawn[:, 1]).all()


def test_factors_by_mesh_type_and_the_papers_lines():
    """Bars are biases divided by each other; dotted, the paper's > 1500 and > 200; right, factors grow as n²."""
    left, middle, right = theory.bias_convergence().axes
    assert [label.get_text() for label in middle.get_yticklabels()] == list(FAMILIES)
    widths = [bar.get_width() for bar in middle.patches]
    assert widths == pytest.approx([theory.biases(name).factor("mean") for name in FAMILIES])
    assert sorted(line.get_xdata()[0] for line in middle.lines) == [200, 1500]
    dotted = [line.get_ydata()[0] for line in right.lines if line.get_linestyle() == ":"]
    assert sorted(dotted) == [200, 1500]
    refined = next(line for line in right.lines if line.get_label() == "boundary-refined")
    slope = np.polyfit(np.log(refined.get_xdata()), np.log(refined.get_ydata()), 1)[0]
    assert slope == pytest.approx(2, abs=0.1)
    equal, volumes = (line.get_ydata() for line in left.lines)
    assert (np.diff(equal) > 0).all()
    assert (equal > 50 * volumes).all()


def test_the_mechanism_shows_the_means_and_both_sums():
    """Exact 4/π²; strip and rest of a panel add up to its mean."""
    figure = theory.nonuniform_mechanism()
    texts = [t.get_text() for axis in figure.axes for t in axis.texts]
    assert f"{4 / np.pi**2:.4f}" in texts
    assert "0.166" in texts
    sums = [float(t.replace("−", "-")) for t in texts[:6]]
    assert [sums[k] + sums[k + 1] for k in (0, 2, 4)] == pytest.approx([0.166, 0.405, -0.239], abs=0.002)
    images = [axis for axis in figure.axes if axis.collections and axis.get_title(loc="left")[:1] in tuple("abcdef")]
    assert len(images) == 6
    difference = images[-1].collections[0]
    assert difference.norm.vmin == -difference.norm.vmax  # one scale for both signs


@pytest.mark.parametrize("name", ["meshes-strength", "mechanism"])
def test_statements_with_a_drawing_of_their_own_get_it(name):
    titles = {axis.get_title(loc="left") for axis in draw(statement(name), Evidence()).axes}
    assert titles & {"factor by mesh type", "f  difference d − e"}


def test_orders_of_families_stand_at_their_lines():
    """A panel for each family, its lines the series and its numbers their fitted orders, none on another."""
    evidence = statement("meshes-sphere").measure()
    figure = draw(statement("meshes-sphere"), evidence)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["latlon", "latlon-cells"]
    for axis in figure.axes:
        members = [s for s in evidence.series if s.name.split(", ")[0] == axis.get_title(loc="left")]
        assert [tuple(line.get_ydata()) for line in axis.lines] == [s.y for s in members]
        assert [float(t.get_text().replace("−", "-")) for t in axis.texts] == pytest.approx(
            [s.fit.exponent for s in members], abs=0.006
        )
        heights = np.sort(np.log([t.xy[1] for t in axis.texts]))
        assert np.diff(heights).min() > 0.05 * np.log(axis.get_ylim()[1] / axis.get_ylim()[0])
