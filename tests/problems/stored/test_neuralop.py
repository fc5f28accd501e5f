"""neuraloperator's Darcy set, on a small wheel of the same layout: fetched, checked, read, refused."""

import hashlib
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.problems.stored import fetch as fetching
from quadnorm.problems.stored import neuralop


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with the same names and keys, and the hashes to match."""
    rng = np.random.default_rng(0)
    fine = rng.random((3, 8, 8)).astype(np.float32)
    content = {
        "darcy_train_16.pt": rng.random((5, 4, 4)).astype(np.float32),
        "darcy_test_16.pt": fine[:, ::2, ::2],
        "darcy_test_32.pt": fine,
    }
    path, hashes = tmp_path / "package.whl", {}
    with zipfile.ZipFile(path, "w") as packed:
        for name, y in content.items():
            buffer = io.BytesIO()
            torch.save({"x": torch.from_numpy(y > 0.5), "y": torch.from_numpy(y.copy())}, buffer)
            packed.writestr(f"neuralop/datasets/data/{name}", buffer.getvalue())
            hashes[name] = hashlib.sha256(buffer.getvalue()).hexdigest()
    known = replace(neuralop.WHEEL, sha256=fetching.sha256(path), files=hashes)
    monkeypatch.setattr(neuralop, "WHEEL", known)
    monkeypatch.setenv("QUADNORM_DATA", str(tmp_path / "data"))
    return path, content


def test_fetched_once_and_read_back(wheel):
    path, content = wheel
    p = problem("darcy-neuralop")
    with pytest.raises(FileNotFoundError, match="quadnorm data fetch darcy-neuralop"):
        p.sample([0], 4)
    place = p.fetch(path)
    path.unlink()
    assert p.fetch(path) == place  # nothing is read again
    assert p.splits == {"train": range(5), "test": range(5, 8)}
    x, y = p.sample([0, 6], 4)
    np.testing.assert_array_equal(y[0, 0].numpy(), content["darcy_train_16.pt"][0])
    np.testing.assert_array_equal(x[1, 0].numpy(), content["darcy_test_16.pt"][1] > 0.5)
    np.testing.assert_array_equal(p.sample([7], 8)[1][0, 0].numpy(), content["darcy_test_32.pt"][2])
    assert p.placement == "left"
    assert not list(place.glob(".*"))


def test_a_changed_wheel_or_file_is_refused(wheel, monkeypatch):
    path, _ = wheel
    p = problem("darcy-neuralop")
    monkeypatch.setattr(neuralop, "WHEEL", replace(neuralop.WHEEL, sha256="0" * 64))
    with pytest.raises(ValueError, match=r"not the wheel of neuraloperator 0\.3\.0"):
        p.fetch(path)
    files = {**neuralop.WHEEL.files, "darcy_test_32.pt": "0" * 64}
    monkeypatch.setattr(neuralop, "WHEEL", replace(neuralop.WHEEL, sha256=fetching.sha256(path), files=files))
    with pytest.raises(ValueError, match=r"darcy_test_32\.pt in neuraloperator 0\.3\.0: its SHA-256"):
        p.fetch(path)


def test_without_a_registry_the_message_says_what_to_do(wheel, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "")
    with pytest.raises(OSError, match=r"could not be downloaded: ERROR.* pass it with --archive"):
        problem("darcy-neuralop").fetch()


def test_a_damaged_file_is_made_anew(wheel):
    path, _ = wheel
    p = problem("darcy-neuralop")
    place = p.fetch(path)
    (place / "darcy_test_16.pt").write_bytes(b"half")
    p.fetch(path)
    assert fetching.whole(place, neuralop.WHEEL)
