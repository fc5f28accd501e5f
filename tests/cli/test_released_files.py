"""`quadnorm study run real-darcy --data DIR`: on files of the released layout, 1024 samples each, on fewer nodes."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from quadnorm.cli.app import run
from quadnorm.lab.studies import study
from quadnorm.problems import problem
from quadnorm.problems.pdes.darcy_official import DarcyOfficial
from quadnorm.problems.stored.pdebench import DarcyPdebench

N = 17
FEW = ["resolutions.train=16", "resolutions.test=[16,17]", "epochs=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("released")
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, N)
    bump = np.sin(np.pi * t)[:, None] * np.sin(np.pi * t)
    for name in DarcyOfficial.files:
        coeff = rng.choice([3.0, 12.0], (1024, N, N))
        savemat(place / name, {"coeff": coeff, "sol": bump * rng.uniform(0.5, 2, (1024, 1, 1)), "Kcoeff": coeff})
    return place


@pytest.fixture
def command(monkeypatch, capsys):
    monkeypatch.setenv("QUADNORM_DATA", "")  # set by the command; put back afterwards

    def call(*words):
        return run(list(map(str, words))), capsys.readouterr()

    return call


def test_a_study_is_run_on_the_files(command, folder, tmp_path):
    code, shown = command(
        "study", "run", "real-darcy", "--data", folder, "--preset", "smoke", "--seeds", "1", "-m", "LayerNorm",
        "--out", tmp_path, "--workers", 1, *FEW,
    )  # fmt: skip
    assert code == 0, shown.err
    configs = [json.loads(f.read_text())["config"] for f in tmp_path.glob("runs/*/record.json")]
    assert {c["problem"]["name"] for c in configs} == {"darcy-official"}
    assert len(configs) == 3  # three operators
    for c in configs:
        assert c["samples"]["test_from"] == 1024  # from the second file
        assert str(folder) not in json.dumps(c)  # the record is the same wherever the files lie
    stored = json.loads(next(tmp_path.glob("runs/fno*/evaluations/as-trained@17.json")).read_text())
    assert len(stored["plain"]) == 4
    code, shown = command(
        "study", "show", "real-darcy", "--data", folder, "--preset", "smoke", "--seeds", "1", "-m", "LayerNorm",
        "--out", tmp_path, *FEW,
    )  # fmt: skip
    assert code == 0
    assert "LayerNorm" in shown.out


def test_a_study_is_run_on_a_file_of_pdebench(command, tmp_path):
    """Smooth fields in its layout, which a model learns a little of: 16² are means over blocks of cells."""
    h5py = pytest.importorskip("h5py")
    t, rng = (np.arange(32) + 0.5) / 32, np.random.default_rng(0)
    bump = np.outer(np.sin(np.pi * t), np.sin(np.pi * t))
    with h5py.File(tmp_path / DarcyPdebench.files[0], "w") as file:
        size = rng.uniform(0.5, 1, (9004, 1, 1)).astype(np.float32)
        file["nu"], file["tensor"] = size * np.ones((32, 32), np.float32), (size * bump)[:, None].astype(np.float32)
        file["x-coordinate"] = file["y-coordinate"] = t
    p = problem("darcy-pdebench", folder=str(tmp_path))
    y = p.sample([9003], 16)[1]
    np.testing.assert_allclose(y[0, 0], size[9003] * bump.reshape(16, 2, 16, 2).mean((1, 3)), rtol=1e-5)
    with pytest.raises(ValueError, match="cannot be averaged"):
        p.sample([0], 12)
    code, shown = command(
        "study", "run", "pdebench-darcy", "--data", tmp_path, "--preset", "smoke", "--seeds", "1", "--workers", 1,
        "--out", tmp_path / "out", "resolutions.test=[8,16,32]",
    )  # fmt: skip
    assert code == 0, shown.err
    configs = [json.loads(f.read_text())["config"] for f in (tmp_path / "out").glob("runs/*/record.json")]
    assert {(c["problem"]["name"], c["samples"]["test_from"]) for c in configs} == {("darcy-pdebench", 9000)}
    assert len(list((tmp_path / "out").glob("runs/fno*/evaluations/transferred@*.json"))) == 3


def test_what_is_wrong_is_said_before_anything_is_run(command, folder, tmp_path):
    code, shown = command("study", "run", "tost", "--data", folder, "--out", tmp_path)
    assert code == 2
    assert "study tost reads no released files; --data is for real-darcy" in shown.err
    code, shown = command("study", "run", "real-darcy", "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "piececonst_r421_N1024_smooth1.mat is not in" in shown.err
    assert not (tmp_path / "out").exists()


def test_small_presets_read_the_files_only_if_asked():
    s = study("real-darcy")
    assert {v.problem for v in s.at("desk").variants} == {"darcy"}
    assert {v.problem for v in s.at("desk", released=True).variants} == {"darcy-official"}
    assert s.reads_files
    assert not s.at("desk").reads_files
