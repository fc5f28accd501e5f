"""Files larger than memory: samples on disk, with the same numbers, and a training run that does not notice."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray as xr

from quadnorm import _memory
from quadnorm.problems import problem
from quadnorm.training import load_model, read_config, train
from quadnorm.training.model import normalised
from tests.problems.stored.test_files import fields


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Two arrays of 40 samples at 17², 46 kB each, and a folder for what does not fit."""
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    for name, values in zip(("in", "out"), fields(17, 40), strict=True):
        np.save(tmp_path / f"{name}.npy", values)
    return f"{tmp_path / 'in.npy'}+{tmp_path / 'out.npy'}"


def test_samples_are_kept_on_disk_and_are_the_same(pair, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "quadnorm")
    p = problem("files", train=pair, placement="endpoint")
    want = p.dataset_many(40, [17, 9])
    assert caplog.messages == []
    monkeypatch.setattr(_memory, "available", lambda: 60_000)
    got = p.dataset_many(40, [17, 9])
    for here, there in zip(got, want, strict=True):
        for a, b in zip(here, there, strict=True):
            assert torch.equal(a, b)
    assert "kept on disk" in caplog.messages[0]
    assert list((tmp_path / "cache").iterdir()) == []  # nothing that could be left behind


def test_a_full_disk_is_said(pair, monkeypatch):
    p = problem("files", train=pair, placement="endpoint")
    monkeypatch.setattr(_memory, "available", lambda: 60_000)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("", (), {"free": 1000}))
    with pytest.raises(ValueError, match=r"would need 92.5 kB; .* of memory and 1.0 kB of disk"):
        p.dataset_many(40, [17])


def test_generated_samples_are_refused_as_before(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 60_000)
    with pytest.raises(ValueError, match="of memory"):
        problem("poisson").sample(range(40), 33)


def test_moments_of_many_samples(monkeypatch):
    values = torch.randn(50, 2, 7, 9) * torch.tensor([1.0, 30.0]).view(2, 1, 1) + 5
    want = normalised.moments(values)
    monkeypatch.setattr(normalised, "LARGE", 2000)
    for a, b in zip(normalised.moments(values), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def test_training_gives_the_same_model(pair, tmp_path, monkeypatch):
    config = {
        "problem": {"name": "files", "params": {"train": pair, "placement": "endpoint"}},
        "operator": {"name": "fno", "params": {"width": 8, "modes": 4, "layers": 1}},
        "epochs": 1,
        "batch": 8,
    }
    runs = []
    for name in ("memory", "disk"):
        if name == "disk":
            monkeypatch.setattr("quadnorm.problems.base.fits", lambda need: False)
        train(read_config(config), tmp_path / name)
        runs.append(load_model(tmp_path / name)[0].state_dict())
    assert all(torch.equal(a, b) for a, b in zip(*(r.values() for r in runs), strict=True))


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.scale * x
"""

STREAMED = """
import resource, sys
from quadnorm import _memory
from quadnorm.training import read_config, train

def run(path):
    config = {
        "problem": {"name": "files", "params": {"train": path, "placement": "cell"}},
        "operator": {"name": sys.argv[3] + ":Net"},
        "epochs": 1, "batch": 10, "samples": {"val": 20, "test": 20},
    }
    train(read_config(config), path.split(".")[0].replace("*", "all") + "_run", progress=False)

run(sys.argv[1])  # what the libraries themselves take
held = next(line for line in open("/proc/self/status") if line.startswith("VmData"))
_memory.available = lambda: 60_000_000
resource.setrlimit(resource.RLIMIT_DATA, (1024 * int(held.split()[1]) + 60_000_000,) * 2)
run(sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux counts it")
@pytest.mark.parametrize("how", ["zarr", pytest.param("netcdf", marks=pytest.mark.slow)])
def test_memory_stays_flat(tmp_path, how):
    """80 MB of samples, read and trained on with 60 MB more than a run of 10 MB has taken: else it would be killed."""

    def written(name, count):
        a = np.random.default_rng(0).random((count, 128, 128), dtype=np.float32)
        ds = xr.Dataset({"a": (("sample", "y", "x"), a), "u": (("sample", "y", "x"), 2 * a)})
        if how == "zarr":
            ds.chunk({"sample": 20}).to_zarr(tmp_path / f"{name}.zarr", zarr_format=2, consolidated=False)
            return str(tmp_path / f"{name}.zarr")
        for k in range(4):
            part = ds.isel(sample=slice(k * count // 4, (k + 1) * count // 4))
            part.to_netcdf(tmp_path / f"{name}_{k}.nc", engine="h5netcdf")
        return str(tmp_path / f"{name}_*.nc")

    net = tmp_path / "net.py"
    net.write_text(NET)
    paths = [written("small", 80), written("large", 640), str(net)]
    run = subprocess.run(
        [sys.executable, "-c", STREAMED, *paths],
        env={"PYTHONPATH": ":".join(sys.path), "QUADNORM_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
