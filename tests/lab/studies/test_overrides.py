"""A changed study is another study: its own name, configs and records."""

import re

import pytest

from quadnorm.lab.analysis.tables import study_table
from quadnorm.lab.studies import changed, study
from quadnorm.lab.studies.estimate import needs
from quadnorm.lab.studies.records import load, tasks_of
from quadnorm.lab.studies.runner import run_study
from tests.lab.studies.tiny_study import tiny_study


def test_every_key_changes_what_it_says():
    s = changed(
        study("transolver-helmholtz").at("smoke"),
        [
            "samples.train=12",
            "samples.test=3",
            "epochs=3",
            "batch=4",
            "lr=1e-2",
            "patience=2",
            "resolutions.train=9",
            "resolutions.test=[9,12]",
            "method.mode=layer",
            "method.measure=counting",
            "method.alpha=0.4",
            "problem.placement=cell",
            "operator.width=24",
        ],
    )
    (v,) = s.variants
    assert (v.budget.train, v.budget.val, v.budget.test) == (12, 4, 3)
    assert (v.budget.epochs, v.budget.batch, v.budget.lr, v.budget.patience) == (3, 4, 0.01, 2)
    assert (v.train, v.test) == ((9,), (9, 12))
    norms = ["none", "layer", "token", "quad:layer:counting", "blend:0.4:counting"]
    assert [m.norm for m in v.methods] == norms
    assert v.problem_params["placement"] == "cell"
    assert v.operator_params["width"] == 24


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("alpha-matrix", "method.alpha=0.2"),
        ("alpha-matrix", "method.mode=layer"),
        ("transolver-helmholtz", "method.alpha=0.2"),
        ("quadrature-everywhere", "method.mode=layer"),
        ("quadrature-everywhere", "method.measure=simpson"),
    ],
)
def test_rows_of_a_changed_study_differ_and_say_what_they_are(name, change):
    original = study(name).at("smoke")
    s = changed(original, [change])
    for v, before in zip(s.variants, original.variants, strict=True):
        assert len({(m.norm, str(m.operator)) for m in v.methods}) == len(v.methods)
        assert len({m.label for m in v.methods}) == len(v.methods)
        old = {m.label: m for m in before.methods}
        assert all(m == old.get(m.label, m) for m in v.methods), "a changed row kept its old label"
        if change == "method.alpha=0.2":
            blends = ["BlendQuadNorm, α = 0.2"]
            blends += ["BlendQuadNorm, α = 0.2, trapezoid"] * (name == "transolver-helmholtz")
            assert [m.label for m in v.methods if m.norm.startswith("blend")] == blends


def test_a_changed_study_is_never_mixed_with_the_original(tmp_path):
    """Both in one folder: no run is shared, each reads its own numbers, and the name asks for the same study again."""
    s = tiny_study(seeds=(0,))
    other = changed(s, ["epochs=2"])
    assert tasks_of(s).keys().isdisjoint(tasks_of(other))
    assert tasks_of(changed(s, ["epochs=2"])) == tasks_of(other)
    run_study(other, tmp_path, workers=1, threads=1)
    assert load(s, tmp_path) == []
    run_study(s, tmp_path, workers=1, threads=1)
    ours, theirs = ({(r.method, r.evaluation, r.grid): r.error for r in load(x, tmp_path)} for x in (s, other))
    assert ours.keys() == theirs.keys()
    assert all(ours[key] != theirs[key] for key in ours)


def test_the_papers_numbers_are_not_said_of_a_changed_study():
    s = changed(study("extreme-crossres"), ["epochs=201"])
    assert s.tables == ()
    assert all(not v.printed() for v in s.variants)
    assert s.name == "extreme-crossres epochs=201"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch=3", "did you mean 'epochs'"),
        ("epochs", "expected key=value"),
        ("epochs=many", "a positive whole number"),
        ("epochs=2.5", "a positive whole number"),
        ("samples.train=0", "a positive whole number"),
        ("resolutions.test=[9, no]", "samples per axis"),
        ("method.mode=layered", "cannot read 'layered'"),
        ("problem.placement=middle", "placement"),
        ("problem.colour=red", "colour"),
        ("operator.depth=3", "operator.params for fno"),
        ("epochs=3", "changes nothing"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as error:
        changed(tiny_study(), [text])
    assert "\n" not in str(error.value)


OWN = """
from torch import nn
import quadnorm as qn

class Plain(nn.Sequential):
    def __init__(self, in_channels, out_channels, width=4):
        super().__init__(nn.Conv2d(in_channels, width, 1), nn.GroupNorm(1, width), nn.Conv2d(width, out_channels, 1))

class Normed(nn.Sequential):
    def __init__(self, in_channels, out_channels, norm):
        super().__init__(nn.Conv2d(in_channels, 4, 1), qn.make_norm(norm, 4), nn.Conv2d(4, out_channels, 1))
"""


def test_a_study_of_a_model_from_a_file(tmp_path, capsys):
    """It is trained and evaluated in every way like the study's own operator, and its file is part of its key."""
    file = tmp_path / "own.py"
    file.write_text(OWN)
    s = changed(tiny_study(), [f"operator.name={file}:Plain", "operator.width=8"])
    (v,) = s.variants
    assert [(m.label, m.norm) for m in v.methods] == [("as written", "")]
    assert v.operator_params == {"width": 8}
    assert needs(s)[0].hours > 0
    run_study(s, tmp_path / "out", workers=1)
    table = study_table(s, tmp_path / "out").text()
    assert re.search(r"as written +.*as trained", table)
    assert re.search(r"all anchored +\d", table)
    before = set(tasks_of(s))
    file.write_text(OWN.replace("nn.GroupNorm(1", "nn.GroupNorm(2"))
    assert before.isdisjoint(tasks_of(s))
    (v,) = changed(tiny_study(), [f"operator.name={file}:Normed"]).variants
    assert [m.label for m in v.methods] == ["LayerNorm", "QuadNorm"]
    with pytest.raises(ValueError, match="unknown parameter 'colour'"):
        changed(tiny_study(), [f"operator.name={file}:Plain", "operator.colour=3"])


def test_a_study_of_another_operator_of_this_package():
    (v,) = changed(tiny_study(), ["operator.name=galerkin", "operator.width=8"]).variants
    assert (v.operator, v.operator_params) == ("galerkin", {"width": 8})
    assert [m.label for m in v.methods] == ["LayerNorm", "QuadNorm"]
