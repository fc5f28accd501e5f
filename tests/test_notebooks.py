"""What notebooks show: tables with everything from outside escaped, and progress that is not red."""

import io
import sys
import types

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm._text import progress_stream
from quadnorm.lab.theory.statement import Check, Evidence
from quadnorm.problems.stored.describe import FileDescription
from quadnorm.training.evaluation import Errors, Evaluation


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))


def inputs(n):
    return torch.linspace(0, 1, n).sin().expand(2, 1, n).clone()


def test_reports_of_existing_models(model):
    page = qn.anchor(model, 9, "endpoint").anchor_report._repr_html_()
    assert "<th>module</th>" in page
    assert "GroupNorm" in page
    audit = qn.audit(model, inputs, [9, 17], placement="endpoint")
    page = audit._repr_html_()
    assert "recommended:" in page
    assert page.count("<table>") >= 1


def test_an_evaluation():
    page = Evaluation("test", range(2), "exact", None, (Errors(33, (0.1, 0.3), (0.1, 0.1)),))._repr_html_()
    assert "20.000%" in page


def test_evidence_says_whether_it_holds():
    good, bad = Check("order <b>", 2.0, 1.9, 2.1), Check("bound", 3.0, 0.0, 1.0)
    assert "order &lt;b&gt;" in Evidence(numbers=(good,))._repr_html_()
    assert Evidence(numbers=(good,))._repr_html_().startswith("<p>holds")
    assert Evidence(numbers=(good, bad))._repr_html_().startswith("<p>does not hold")


def test_files_are_escaped():
    page = FileDescription("a.npz", "npz", 1, (8,), "cell", (("<script>", "x", "8", "0 … 1"),))._repr_html_()
    assert "<script>" not in page


def test_progress_is_not_red_in_a_notebook(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert progress_stream() is sys.stderr
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    assert progress_stream() is sys.stdout
