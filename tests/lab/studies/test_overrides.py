"""A changed study is another study: its own name, configs and records."""

import pytest

from quadnorm.lab.studies import changed, study
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
