"""The mesh study: its rows, its ways to look at an instance, and a run from end to end."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch

from quadnorm.lab.analysis.tables import study_table
from quadnorm.lab.studies import study
from quadnorm.lab.studies.evaluate import errors_of, points_predictor
from quadnorm.lab.studies.records import load, tasks_of
from quadnorm.lab.studies.runner import run_study, select
from quadnorm.lab.studies.study import NATIVE, Way
from quadnorm.training import TrainConfig, read_config
from quadnorm.training.data import problem_of, samples
from quadnorm.training.model import Sizes, build_model
from quadnorm.training.model.points import OnPoints
from tests import ROOT

MESH = study("mesh-transfer")


def test_rows_and_views():
    """Norms and sums, counting and weighing, in all four combinations; views change no instance."""
    assert {(m.norm, m.operator.get("measure", "counting")) for m in MESH.variants[0].methods} == {
        ("layer", "counting"),
        ("quad", "counting"),
        ("layer", "trapezoid"),
        ("quad", "trapezoid"),
    }
    for run in list(MESH.runs())[:: len(MESH.variants[0].methods)]:
        p = problem_of(TrainConfig(**run.config()))
        for e in MESH.evaluations:
            assert {name for name, _ in e.view} <= set(p.views)
            assert replace(p, **dict(e.view)).key() == p.key()


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    s = select(MESH.at("smoke"), [0], ["counting", "volumes in both"])
    v = s.variant("transolver, poisson")
    v = replace(v, train=(6,), test=(6, 9), problem_params={"modes": 2, "fine": 6})
    return replace(s, variants=(v,))


def test_from_run_to_table(tiny, tmp_path):
    run_study(tiny, tmp_path, workers=1, threads=1)
    rows = load(tiny, tmp_path)
    assert len(rows) == 2 * 2 * len(MESH.evaluations)
    errors = {(r.method, r.evaluation, r.grid): r for r in rows}
    assert len({round(r.error, 9) for r in rows}) > len(rows) // 2  # views are different meshes
    stored = json.loads(next(tmp_path.rglob("boundary@9.json")).read_text())
    weighted = 100 * sum(stored["weighted"]) / len(stored["weighted"])
    assert weighted in [pytest.approx(r.error) for r in rows if (r.evaluation, r.grid) == ("boundary", 9)]
    plain = {r.error for r in load(replace(tiny, metric="plain"), tmp_path)}
    assert plain.isdisjoint({r.error for r in rows})
    # at the training size the training mesh is the sample's own: nothing is interpolated
    assert errors["counting", "native", 6].error == pytest.approx(errors["counting", "as-trained", 6].error, rel=1e-5)
    table = study_table(tiny, tmp_path)
    assert table.missing == 0
    assert "boundary-refined" in table.markdown()
    assert "n² is the number of vertices" in table.markdown()


def test_errors_of_a_perfect_and_of_a_zero_model(tiny):
    """The truth's own predictions have error 0 on every mesh; zeros have error 1, plain and weighted."""
    config = TrainConfig(**next(iter(tasks_of(tiny).values())).config)
    p = problem_of(config)
    for e in MESH.evaluations:
        errors = errors_of(Known(p, config, e, zero=True), config, e, 9)
        assert errors["plain"] == pytest.approx([1.0] * 4)
        assert errors["weighted"] == pytest.approx([1.0] * 4)
        if e.route == "direct":
            assert max(errors_of(Known(p, config, e), config, e, 9)["weighted"]) == 0


class Known(torch.nn.Module):
    """A model that looks up the truth of the mesh it is given."""

    def __init__(self, p, config, evaluation, zero=False):
        super().__init__()
        self.x, self.y = samples(config, "test", [9], replace(p, **dict(evaluation.view)))[9]
        self.zero = zero

    def forward(self, x):
        if self.zero:
            return torch.zeros(len(x), 1, x.shape[-1])
        at = [next(k for k, own in enumerate(self.x) if torch.equal(own, one)) for one in x]
        return self.y[at]


def test_by_a_training_mesh_is_exact_for_linear_fields():
    """The input 1 + x − 2y carried to the coarse mesh, a model that returns it, and back: the same everywhere."""
    from quadnorm.problems.meshes.triangulations import vertices, volumes

    def cloud(n, seed, family="uniform"):
        points = vertices(np.random.default_rng(seed), n, family)
        field = 1 + points[:, 0] - 2 * points[:, 1]
        return torch.from_numpy(np.stack([volumes(points), *points.T, field]))

    fine = torch.stack([cloud(13, k, "boundary") for k in range(3)])
    coarse = torch.stack([cloud(5, k + 7) for k in range(3)])
    rubbish = coarse.clone()
    rubbish[:, 3] = 99.0  # what the coarse mesh holds is not looked at

    class First(torch.nn.Module):
        def forward(self, x):
            torch.testing.assert_close(x, coarse[: len(x)] if len(x) == 2 else coarse[2:])
            return x[:, 3:]

    predict = points_predictor(First(), NATIVE, lambda: rubbish)
    out = torch.cat([predict(fine[:2]), predict(fine[2:])])
    torch.testing.assert_close(out, fine[:, 3:])
    with pytest.raises(ValueError, match="directly or on a training mesh"):
        points_predictor(First(), Way("x", "", "anchored", "all"), lambda: rubbish)


def test_the_commands_of_the_docs_are_this_study_and_a_run_of_its_problem():
    page = (ROOT / "docs" / "understand" / "theory.md").read_text(encoding="utf-8")
    section = page.partition("## Meshes, end to end\n")[2].partition("\n## ")[0]
    blocks = "".join(re.findall(r"```sh\n(.*?)```", section, flags=re.S)).replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in blocks.splitlines()]
    studies = [line for line in lines if line[:3] == ["quadnorm", "study", "run"]]
    assert [(line[3], line[5]) for line in studies] == [("mesh-transfer", "smoke"), ("mesh-transfer", "desk")]
    (command,) = (line for line in lines if line[1] == "train")
    config = read_config(None, [word for word in command[2:] if "=" in word])
    assert isinstance(build_model(config, Sizes.of(problem_of(config))), OnPoints)
    evaluated = [line[line.index("-p") + 1].split("=")[1] for line in lines if line[1] == "eval" and "-p" in line]
    assert {replace(problem_of(config), mesh=family).mesh for family in evaluated} == {"boundary", "random"}
