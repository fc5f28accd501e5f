"""Own data from files to errors at another grid, as a user types it."""

import json

import numpy as np
import pytest

from quadnorm._ways import WAYS
from quadnorm.cli.app import run
from quadnorm.training import read_config
from quadnorm.training.files.saved import load_model

SMALL = ["operator.params.width=4", "operator.params.modes=2", "operator.params.layers=1", "epochs=2", "threads=1"]
OWN = '''
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from quadnorm.problems import Problem

@dataclass(frozen=True, kw_only=True)
class Double(Problem):
    """Twice a plane."""
    factor: float = 2.0
    name: ClassVar[str] = "double"
    inputs: ClassVar[tuple[str, ...]] = ("a",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)

    def _instances(self, indices, seed, workers):
        return {"slope": np.array([s.random() for s in self._streams(indices, seed)])}

    def _on_grid(self, instances, shape):
        x = np.linspace(0, 1, shape[0])[:, None] + np.linspace(0, 1, shape[1])
        a = instances["slope"][:, None, None, None] * x
        return a, self.factor * a

def plain():
    pass
'''


def save(path, n, count, seed=0):
    """Left nodes j/n: every second node of 2n is a node of n."""
    r = np.arange(n) / n
    a, b = np.random.default_rng(seed).uniform(0.5, 2, (2, count, 1, 1))
    x = np.exp(a * r[:, None]) * np.cos(b * r)
    np.savez(path, x=x, y=x**2)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a8.npz", 8, 20)
    save("a16.npz", 16, 6, seed=1)
    return ["problem.name=files", "problem.params.train=a8.npz", "problem.params.test=a16.npz"]


def test_train_and_eval_own_files(files, capsys, monkeypatch):
    declared = [*files, "problem.params.placement=left"]
    assert run(["train", *declared, *SMALL, "-o", "run"]) == 0, capsys.readouterr().err
    _, config = load_model("run")
    s = config.samples
    assert (s.indices("train"), s.indices("val"), s.indices("test")) == (range(18), range(18, 20), range(20, 26))
    assert (config.resolutions.train, config.resolutions.test) == ((8,), (16,))
    assert run(["eval", "run", "-r", "8", "16", "-o", "errors.json"]) == 0, capsys.readouterr().err
    with open("errors.json") as file:
        rows = json.load(file)["ways"]["as-trained"]
    assert [(r["grid"], len(r["plain"])) for r in rows] == [(8, 6), (16, 6)]
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir("run")
        assert run(["eval", "."]) == 2
        assert "a8.npz: no such file in " in capsys.readouterr().err
    assert run(["audit", "run", "-r", "8", "16", "--samples", "2"]) == 0, capsys.readouterr().err  # of the test file
    assert run(["train", *declared, *SMALL, "-o", "run"]) == 0  # finished: found again under the same settled config


def test_the_files_say_what_they_do_not_hold(files, capsys):
    assert run(["train", *files, *SMALL]) == 2
    assert "placement" in capsys.readouterr().err  # never assumed
    declared = [*files, "problem.params.placement=left"]
    for change, message in [
        ("samples.train=19", "the train files hold 20 samples, of which 2 for the val set are taken"),
        ("samples.test=7", "samples.test is 7, but the test files hold 6 samples"),
        ("resolutions.train=7", "stored at 8×8, got 7×7"),
    ]:
        assert run(["train", *declared, *SMALL, change, "-o", "other"]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_without_a_test_file_the_test_keeps_training_samples(files, capsys):
    settings = ["problem.name=files", "problem.params.train=a8.npz", "problem.params.placement=left"]
    assert run(["train", *settings, *SMALL, "samples.val=3", "-o", "run"]) == 0, capsys.readouterr().err
    s = load_model("run")[1].samples
    assert (s.indices("train"), s.indices("test"), s.indices("val")) == (range(15), range(15, 17), range(17, 20))


def test_an_override_of_a_config_leaves_open_what_was_open():
    config = read_config(read_config({"epochs": 5}), ["batch=3"])
    assert "samples" not in config.model_fields_set


def test_show_prints_what_a_file_holds(files, capsys):
    assert run(["data", "show", "a8.npz"]) == 0
    card = capsys.readouterr().out
    assert "20 samples at 8×8" in card
    assert "not stated in the file; say so with -p placement=" in card
    assert "x: 20×8×8 (sample, x, y)" in card
    assert run(["data", "show", "a8.npz", "-p", "placement=left", "-o", "a.png", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[: out.rindex("}") + 1])["placement"] == "left, as declared"
    assert out.strip().endswith("a.png")
    assert run(["data", "show", "none.npz"]) == 2
    assert "none.npz" in capsys.readouterr().err


def test_a_problem_in_a_file_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    counts = ["samples.train=6", "samples.val=2", "samples.test=2", "resolutions.train=9", "problem.cache=false"]
    assert run(["train", "problem.name=mine.py:Double", *counts, *SMALL, "-o", "run"]) == 0
    assert "running mine.py" in capsys.readouterr().err
    assert run(["eval", "run", "-r", "17"]) == 0
    assert run(["data", "info", "mine.py:Double", "-p", "factor=3"]) == 0
    assert "factor=3.0" in capsys.readouterr().out
    for name, message in [("mine.py:Doubel", "it has: Double, plain"), ("mine.py:plain", "is not a problem class")]:
        assert run(["data", "info", name]) == 2
        assert message in capsys.readouterr().err


def errors_of(where, capsys, *more):
    assert run(["eval", where, "-r", "8", "16", "--json", *more]) == 0, capsys.readouterr().err
    rows = json.loads(capsys.readouterr().out)
    return {(r["way"], r["grid"]): r["relative_l2"] for r in rows}


def test_an_adapted_file_is_evaluated_like_its_run(files, capsys):
    """It holds the trained weights: all ways start from the trained model, and without --how it is as adapted."""
    assert run(["train", *files, "problem.params.placement=left", *SMALL, "-o", "run"]) == 0
    capsys.readouterr()
    ways = [word for word, way in WAYS.items() if way.function]
    expected = errors_of("run", capsys, "--how", "all")
    assert len(expected) == 10
    for way in ways:
        assert run(["adapt", "run", "--how", way, "-o", "a.safetensors", "--force"]) == 0, capsys.readouterr().err
        capsys.readouterr()
        alone = {k: pytest.approx(v, rel=1e-5) for k, v in expected.items() if k[0] == way}
        assert errors_of("a.safetensors", capsys) == alone
    assert errors_of("a.safetensors", capsys, "--how", "all") == pytest.approx(expected, rel=1e-5)
    given = errors_of("a.safetensors", capsys, "--how", "as-trained")
    assert given == {k: v for k, v in expected.items() if k[0] == "as-trained"}
    assert run(["anchor", "run", "-r", "8", "-o", "b.safetensors", "--force"]) == 0
    capsys.readouterr()
    alone = {k: pytest.approx(v, rel=1e-5) for k, v in expected.items() if k[0] == "anchored"}
    assert errors_of("b.safetensors", capsys) == alone


def test_a_model_that_cannot_be_used_in_a_way_says_which(files, capsys, monkeypatch):
    from quadnorm.adapt import CannotFollowError
    from quadnorm.cli.commands import ways

    def refuse(*_):
        raise CannotFollowError("a loop over rows")

    assert run(["train", *files, "problem.params.placement=left", *SMALL, "-o", "run"]) == 0
    monkeypatch.setattr(ways, "predictor", refuse)
    assert run(["eval", "run", "-r", "16", "--how", "all"]) == 2
    assert "--how anchored: this model cannot be used so (a loop over rows)" in capsys.readouterr().err
