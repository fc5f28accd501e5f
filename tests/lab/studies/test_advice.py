"""Advice for every setting, none of it naming a table or a study that does not exist."""

import re
from itertools import product

import pytest

from quadnorm.cli.app import run
from quadnorm.lab.studies import paper_labels, study_names
from quadnorm.lab.studies.advice import BOUNDARIES, NODES, OPERATORS, advice
from tests import ROOT


def test_every_setting_is_answered_from_sources_that_exist():
    for setting in product(OPERATORS, BOUNDARIES, NODES, (False, True)):
        items = advice(*setting)
        assert items
        for item in items:
            assert set(re.findall(r"tab:[\w-]*\w", item.source)) <= set(paper_labels())
            assert set(re.findall(r"study ([\w-]*\w)", item.source)) <= set(study_names())
            assert all((ROOT / page).exists() for page in re.findall(r"docs/[\w/-]+\.md", item.source))


def test_the_papers_five_recommendations():
    def uses(*setting):
        return " | ".join(item.use for item in advice(*setting))

    assert "BlendQuadNorm with α = 0.3" in uses("fno", "dirichlet", "endpoint", False)
    assert "BlendQuadNorm with α = 0.3" in uses("other", "neumann", "endpoint", False)
    assert "QuadNorm, the blend's end" in uses("transolver", "dirichlet", "endpoint", False)
    assert "BlendQuadNorm is LayerNorm" in uses("fno", "periodic", "periodic", False)
    assert "trapezoid" in uses("galerkin", "dirichlet", "endpoint", False)
    assert "tune α" in uses("galerkin", "dirichlet", "endpoint", False)
    assert uses("fno", "dirichlet", "cell", False) == "the midpoint rule, which is counting"  # any blend is LayerNorm


def test_on_the_command_line(capsys):
    assert run(["advise", "--operator", "transolver"]) == 0
    assert "norm='quad:instance'" in capsys.readouterr().out
    assert run(["advise", "--operator", "galerkin"]) == 0  # docs/start/which-norm.md has the measurements
    assert "norm='quad'" in capsys.readouterr().out
    assert run(["advise", "--existing", "--placement", "cell"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("qn.transfer(model, n0, placement='cell', data=(x, y))") < shown.index("qn.audit(model")
    assert "qn.anchor" not in shown
    assert run(["advise", "--operator", "unet"]) == 2
    with pytest.raises(ValueError, match="unknown operator"):
        advice("unet", "dirichlet", "endpoint", existing=False)


def test_a_period_with_both_ends_stored_is_asked_about():
    assert [a.use for a in advice("fno", "periodic", "endpoint", existing=False)][
        1
    ] == "samples without the repeated end"
    assert len(advice("fno", "periodic", "periodic", existing=False)) == 1
