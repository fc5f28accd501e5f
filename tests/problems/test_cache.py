"""The cache: same bits as sampling, damage found and repaired, killed and concurrent writers harmless."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from quadnorm.problems import cache, problem
from quadnorm.problems.pdes import darcy
from quadnorm.problems.pdes.poisson import Poisson
from tests import HANGS

SMALL = {"fine": 33, "modes": 20}


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def blocks(p, seed=0):
    return sorted((cache.folder(p) / f"seed-{seed}").glob("block-??????"))


@pytest.mark.parametrize("name", ["darcy", "varcoeff", "helmholtz", "elasticity"])
def test_cached_bits_are_sampled_bits(where, name):
    p = problem(name, **({"fine": 33} if name in ("darcy", "varcoeff") else {}))
    x, y = p.sample(range(14, 19), 17, seed=4)
    for _ in range(2):  # made, then read
        got = p.dataset(range(14, 19), 17, seed=4)
        assert torch.equal(got[0], x)
        assert torch.equal(got[1], y)
    many = p.dataset_many([18, 14], [9, 17], seed=4)
    assert torch.equal(many[1][1], y[[4, 0]])


def test_instances_are_made_once_and_serve_every_resolution(where, monkeypatch):
    p = problem("darcy", **SMALL)
    solved = []
    real = darcy.Darcy._instances
    monkeypatch.setattr(darcy.Darcy, "_instances", lambda self, i, s, w: solved.append(list(i)) or real(self, i, s, w))
    p.dataset(20, 9)
    assert solved == [list(range(16)), list(range(16, 32))]
    p.dataset(32, 17)
    problem("darcy", placement="cell", restriction="cubic", **SMALL).dataset(5, 8)  # other views of the same instances
    assert len(solved) == 2
    problem("darcy", fine=33, modes=21).dataset(1, 9)
    p.dataset(1, 9, seed=1)
    assert len(solved) == 4


def test_progress_and_readiness(where):
    p = problem("darcy", **SMALL)
    assert cache.ready(p) == 0
    seen = []
    folder = cache.make(p, 40, progress=lambda ready, wanted: seen.append((ready, wanted)))
    assert seen == [(16, 40), (32, 40), (40, 40)]
    assert cache.ready(p) == 48
    record = json.loads((folder / "problem.json").read_text())
    assert record["parameters"]["fine"] == 33


def test_reading_maps_memory(where):
    p = problem("darcy", **SMALL)
    list(cache.instances(p, range(16)))
    (read,) = cache.instances(p, range(16))
    assert isinstance(read["u"], np.memmap)
    assert read["u"].dtype == np.float32
    assert not read["u"].flags.writeable
    assert set(read) == {"wet", "u", "iterations", "residual"}


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGE = {
    "one bit": lambda block: flip(block / "u.npy"),
    "truncated": lambda block: os.truncate(block / "u.npy", 1000),
    "empty": lambda block: os.truncate(block / "wet.npy", 0),
    "missing array": lambda block: (block / "u.npy").unlink(),
    "missing record": lambda block: (block / "block.json").unlink(),
    "garbled record": lambda block: (block / "block.json").write_text("{"),
    "alien record": lambda block: (block / "block.json").write_text("[]"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_found_set_aside_and_repaired(where, caplog, how):
    p = problem("darcy", **SMALL)
    x, y = p.dataset(20, 9)
    DAMAGE[how](blocks(p)[0])
    with caplog.at_level(logging.WARNING, "quadnorm"):
        got = p.dataset(20, 9)
    assert torch.equal(got[0], x)
    assert torch.equal(got[1], y)
    (line,) = caplog.messages
    assert "block-000000 is damaged" in line
    assert "its samples are made again" in line
    (aside,) = (cache.folder(p) / "seed-0").glob("block-000000.damaged-*")
    assert aside.is_dir()
    caplog.clear()
    p.dataset(20, 9)
    assert not caplog.messages


def test_a_changed_file_is_checked_again_in_the_same_process(where, caplog):
    p = problem("poisson")
    p.dataset(3, 9)
    p.dataset(3, 9)
    flip(blocks(p)[0] / "f.npy")
    p.dataset(3, 9)
    assert len(caplog.messages) == 1


WRITER = """
import sys, time
from quadnorm.problems import cache, problem
p = problem("darcy", fine=33, modes=20)
solve = type(p)._instances
def counted(self, *args):
    print("solved", file=sys.stderr, flush=True)
    return solve(self, *args)
type(p)._instances = counted
def slow(ready, wanted):
    print(ready, flush=True)
    if ready >= 32:
        time.sleep(float(sys.argv[1]))
cache.make(p, 96, progress=slow)
"""


def start(where, pause):
    env = {**os.environ, "QUADNORM_CACHE": str(where), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", WRITER, str(pause)], env=env, text=True, **pipes)


def test_killed_writer_resumes(where):
    p = problem("darcy", **SMALL)
    writer = start(where, HANGS)
    assert writer.stdout is not None
    while writer.stdout.readline().strip() != "32":
        pass
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    kept = {b: b.stat().st_mtime_ns for b in blocks(p)}
    assert 2 <= len(kept) < 6
    # What a kill in the middle of a write leaves behind: a directory under a temporary name.
    half = blocks(p)[0].with_name(".block-000009-0123")
    half.mkdir()
    (half / "u.npy").write_bytes(b"half")
    x, y = p.dataset(96, 9)
    assert {b: b.stat().st_mtime_ns for b in kept} == kept  # nothing was made twice
    want = p.sample(96, 9)
    assert torch.equal(x, want[0])
    assert torch.equal(y, want[1])


def test_writers_at_once_share_the_work(where, caplog):
    p = problem("darcy", **SMALL)
    writers = [start(where, 0.0) for _ in range(3)]
    errors = [writer.communicate(timeout=HANGS)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], errors
    assert "".join(errors).count("solved") == 6  # each block once, by whoever came first
    assert len(blocks(p)) == 6
    assert not list((cache.folder(p) / "seed-0").glob(".block*"))
    assert torch.equal(p.dataset(96, 9)[1], p.sample(96, 9)[1])
    assert not caplog.messages


def test_clean(where):
    p, q = problem("poisson"), problem("darcy", **SMALL)
    p.dataset(1, 5)
    q.dataset(1, 5)
    held = cache.size(p)
    assert held > 32 * 32 * 8
    assert cache.clean(p) == held
    assert cache.ready(p) == 0
    assert cache.ready(q) == 16
    assert cache.clean() > 0
    assert not where.exists()
    assert cache.clean() == 0


def test_clean_refuses_a_directory_that_is_not_its_own(where):
    where.mkdir()
    (where / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="nothing was deleted"):
        cache.clean()
    assert (where / "thesis.tex").exists()


def test_an_unwritable_place_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"set \$QUADNORM_CACHE to a writable directory"):
        problem("poisson").dataset(1, 5)


def test_location_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("QUADNORM_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, appauthor: tmp_path / str(appauthor) / name)
    assert cache.location() == tmp_path / "False" / "quadnorm"
    monkeypatch.setenv("QUADNORM_CACHE", "~/somewhere")
    assert cache.location() == Path.home() / "somewhere"
    monkeypatch.delenv("QUADNORM_CACHE")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match=r"pip install 'quadnorm\[bench\]'"):
        cache.location()


def test_what_could_not_be_deleted_is_said(where, monkeypatch):
    p = problem("poisson")
    p.dataset(1, 5)
    stuck = blocks(p)[0] / "f.npy"
    unlink = os.unlink

    def refuse(path, *args, **options):  # the tests may run as root, whom permissions do not stop
        if os.path.basename(path) == stuck.name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        unlink(path, *args, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OSError, match=r"could not be deleted, the first of it: f.npy: Permission denied"):
        cache.clean(p)
    assert stuck.exists()


def test_a_raised_version_makes_the_samples_anew(monkeypatch):
    before = cache.folder(problem("poisson"))
    monkeypatch.setattr(Poisson, "version", Poisson.version + 1)
    assert cache.folder(problem("poisson")) != before
