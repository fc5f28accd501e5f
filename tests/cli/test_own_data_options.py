"""What a user says about own files on the command line, and that it reaches the model; bad values are one line."""

import numpy as np
import pytest

from quadnorm.cli.app import run
from quadnorm.training.data import problem_of, samples
from quadnorm.training.files.saved import load_model

TINY = ["operator.params.width=4", "operator.params.modes=2", "operator.params.layers=1", "epochs=1", "threads=1"]


def plain(count=12, n=8, m=8, channels=()):
    return np.random.default_rng(3).normal(size=(count, n, m, *channels))


def trained(capsys, *params, dtype="float32"):
    """Train on t.npz as a user types it, and give the problem and the training data that the run saw."""
    settings = [f"problem.params.{p}" for p in ("train=t.npz", *params)]
    code = run(["train", "problem.name=files", *settings, *TINY, f"dtype={dtype}", "-o", "run", "--restart"])
    assert code == 0, capsys.readouterr().err
    config = load_model("run")[1]
    x, _ = samples(config, "train", config.resolutions.train)[config.resolutions.train[0]]
    return problem_of(config), x


def test_placements_domain_and_axes_reach_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a = plain(12, 9, 8, (3,))
    np.savez("t.npz", a=a, u=a[..., :1])
    p, x = trained(capsys, "placement=[endpoint,periodic]", "domain=[[0,2],[0,1]]", "channels=last", dtype="float64")
    assert p.placement == ("endpoint", "periodic")
    np.testing.assert_array_equal(x, a[:10].transpose(0, 3, 1, 2))  # every digit
    model, config = load_model("run")
    assert model.operator.placement == ("endpoint", "periodic")
    assert config.resolutions.train == ((9, 8),)
    assert run(["eval", "run", "--how", "all"]) == 0, capsys.readouterr().err
    options = ["-p", "placement=[endpoint,periodic]", "-p", "domain=[[0,2],[0,1]]", "-p", "axes=nxyc"]
    capsys.readouterr()
    assert run(["data", "show", "t.npz", *options, "-o", "t.png"]) == 0, capsys.readouterr().err
    card = capsys.readouterr().out
    assert "nodes: endpoint, periodic, as declared; domain [0, 2] × [0, 1]" in card
    assert "a: 12×9×8×3 (sample, x, y, channel)" in card


def test_messages_of_readers_speak_the_words_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", a=plain(), u=plain())
    assert run(["train", "problem.name=files", "problem.params.train=t.npz", *TINY]) == 2
    assert "pass problem.params.placement=endpoint (both ends stored)" in capsys.readouterr().err
    assert run(["data", "info", "files", "-p", "train=t.npz"]) == 2
    assert "pass -p placement=endpoint (both ends stored)" in capsys.readouterr().err


def test_missing_values_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a = plain()
    a[3, 0, 0] = np.nan
    np.savez("t.npz", a=a, u=a)
    settings = ["problem.name=files", "problem.params.train=t.npz", "problem.params.placement=cell", *TINY]
    for more, message in [([], "skip_nan=true"), (["problem.params.allow_nan=true"], "problem.params.skip_nan=true")]:
        assert run(["train", *settings, *more]) == 2
        assert message in capsys.readouterr().err
    _, x = trained(capsys, "placement=cell", "skip_nan=true")
    np.testing.assert_array_equal(x[:, 0], np.delete(a, 3, axis=0)[:9].astype(np.float32))
    assert run(["data", "info", "files", "-p", "train=t.npz", "-p", "placement=cell", "-p", "allow_nan=true"]) == 0
    assert run(["data", "show", "t.npz", "-p", "placement=cell", "-p", "allow_nan=true", "-o", "t.png"]) == 0


def test_validation_takes_the_grid_of_its_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", x=plain(), y=plain())
    np.savez("v.npz", x=plain(4, 12, 12), y=plain(4, 12, 12))
    trained(capsys, "val=v.npz", "placement=cell")
    assert load_model("run")[1].resolutions.val == (12,)


def test_missing_values_in_test_files_are_found_before_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a = plain()
    np.savez("t.npz", a=a, u=a)
    a[[2, 5], 0, 0] = np.nan
    np.savez("e.npz", a=a, u=a)
    settings = [f"problem.params.{p}" for p in ("train=t.npz", "test=e.npz", "placement=cell")]
    assert run(["train", "problem.name=files", *settings, *TINY, "-o", "run"]) == 2
    assert "e.npz: 2 of 12 test samples hold NaN or infinite values (2, 5)" in capsys.readouterr().err
    assert not (tmp_path / "run" / "best.safetensors").exists()
    trained(capsys, "test=e.npz", "placement=cell", "skip_nan=true")
    assert run(["eval", "run"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["placement=[cell]"], "one for each of 2 axes"),
        (["placement=cell", "domain=[1,0]"], "domain must be [lo, hi] with lo < hi"),
        (["placement=cell", "allow_nan=perhaps"], "allow_nan must be true or false"),
        (["placement=cell", "channels=lats"], "did you mean 'last'"),
        (["placement=cell", "axes=nxyc"], "axes=nxyc name 4 axes, which no array has"),
        (["placement=cell", "axes=5"], "axes must be the number of spatial axes"),
        (["placement=cell", "axis=2"], "unknown parameter 'axis'; did you mean 'axes'"),
    ],
)
def test_bad_values_are_one_line(tmp_path, monkeypatch, capsys, params, message):
    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", x=plain(), y=plain())
    settings = [f"problem.params.{p}" for p in ("train=t.npz", *params)]
    for command in (
        ["train", "problem.name=files", *settings, *TINY],
        ["data", "show", "t.npz", *(word for p in params for word in ("-p", p))],
        ["data", "info", "files", "-p", "train=t.npz", *(word for p in params for word in ("-p", p))],
    ):
        capsys.readouterr()
        assert run(command) == 2
        error = capsys.readouterr().err.strip()
        assert message in error
        assert "\n" not in error
